package module

import (
	"debug/elf"

	"github.com/corethreads/corethreads/elfcore"
)

// image is an ELF file as far as it lies in the memory of the core.
type image struct {
	// base is where byte 0 of the file is mapped.
	base elfcore.Addr
	// header is nil where only the program headers are known.
	header   *header
	programs []elf.ProgHeader
	// bias is what is added to an address of the file.
	bias elfcore.Addr
}

// image reads the headers of an ELF file whose byte 0 is mapped at base. It is
// false where the core does not hold them, or holds something else.
func (p process) image(base elfcore.Addr) (*image, bool) {
	b := make([]byte, maxHeaderSize)
	n, _ := p.ReadMemory(b, base)
	h, err := parseHeader(b[:n])
	if err != nil || !p.matches(h) {
		return nil, false
	}
	table, ok := base.Add(h.Phoff)
	if !ok || h.Phnum == 0 || !spend(&p.budget.programs, int(h.Phnum)) {
		return nil, false
	}
	b = make([]byte, int(h.Phnum)*h.programSize())
	if _, err := p.ReadMemory(b, table); err != nil {
		return nil, false
	}
	im := &image{base: base, header: h, programs: h.programs(b)}
	first, ok := p.firstLoad(im.programs)
	if !ok {
		return nil, false
	}
	im.bias = p.difference(base, first)
	return im, true
}

// matches tells whether an ELF file can have been mapped into this process.
func (p process) matches(h *header) bool {
	t := elf.Type(h.Type)
	return h.class == p.Class && h.order == p.ByteOrder && elf.Machine(h.Machine) == p.Arch.Machine && (t == elf.ET_DYN || t == elf.ET_EXEC)
}

// firstLoad is the address of the file that its byte 0 is loaded to.
func (p process) firstLoad(programs []elf.ProgHeader) (elfcore.Addr, bool) {
	for _, h := range programs {
		if h.Type == elf.PT_LOAD && p.pageDown(h.Off) == 0 {
			return p.difference(elfcore.Addr(h.Vaddr), elfcore.Addr(h.Off)), true
		}
	}
	return 0, false
}

// dynamic is where the image's dynamic section is.
func (im *image) dynamic(p process) (elfcore.Addr, bool) {
	h, ok := program(im.programs, elf.PT_DYNAMIC)
	return p.sum(im.bias, h.Vaddr), ok
}

// buildID reads the build-id from memory, nil where it has none or the core
// does not hold it.
func (im *image) buildID(p process) BuildID {
	return buildID(im.programs, p.ByteOrder, func(h elf.ProgHeader, b []byte) int {
		n, _ := p.ReadMemory(b, p.sum(im.bias, h.Vaddr))
		return n
	})
}

// ranges are the memory of the segments, in whole pages.
func (p process) ranges(programs []elf.ProgHeader, bias elfcore.Addr) []elfcore.Range {
	var out []elfcore.Range
	for _, h := range programs {
		if h.Type != elf.PT_LOAD || h.Memsz == 0 {
			continue
		}
		start := p.sum(bias, p.pageDown(h.Vaddr))
		end := p.sum(bias, p.pageUp(h.Vaddr+h.Memsz))
		if end > start {
			out = append(out, elfcore.Range{Start: start, End: end})
		}
	}
	return out
}

// extent is the smallest range around ranges.
func extent(ranges []elfcore.Range) elfcore.Range {
	if len(ranges) == 0 {
		return elfcore.Range{}
	}
	all := ranges[0]
	for _, r := range ranges[1:] {
		all.Start, all.End = min(all.Start, r.Start), max(all.End, r.End)
	}
	return all
}
