package module

import (
	"debug/elf"
	"io"
)

// virtual fills b with the memory of an ELF image, by the addresses of its file,
// and gives the number of bytes that there are.
type virtual func(b []byte, vaddr uint64) int

// window is a part of an image as a file.
type window struct {
	read virtual
	base uint64
}

func (w window) ReadAt(b []byte, offset int64) (int, error) {
	n := w.read(b, w.base+uint64(offset))
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// dynamicImage is an ELF image whose dynamic section is known: that of a file,
// or of a module in the core.
type dynamicImage struct {
	layout  layout
	entries []dyn
	// bias is what the loader may have added to the addresses in the section.
	bias uint64
	read virtual
}

// dynamic reads the file's dynamic section.
func (f *File) dynamic() []dyn {
	h, ok := program(f.Programs, elf.PT_DYNAMIC)
	if !ok {
		return nil
	}
	b := make([]byte, min(h.Filesz, maxDynamic*16))
	n, _ := f.ReadVirtual(b, h.Vaddr)
	entries, _ := f.header.dynamic(b[:n])
	return entries
}

// dynsym finds the dynamic symbols of the file, nil for none.
func (f *File) dynsym() *symtab {
	im := dynamicImage{layout: f.header.layout, read: func(b []byte, vaddr uint64) int {
		n, _ := f.ReadVirtual(b, vaddr)
		return n
	}}
	im.entries = f.dynamic()
	for _, s := range f.Sections {
		if s.Type == elf.SHT_DYNSYM {
			return im.symbols(s.Size)
		}
	}
	return im.symbols(0)
}

// dynsym finds the dynamic symbols in memory, nil where the core does not hold
// them. Those of small libraries lie in the first page, which the kernel dumps;
// those of the vDSO are always there.
func (m *Module) dynsym() *symtab {
	p := m.set.core
	if m.Dynamic == 0 || !m.BiasKnown {
		return nil
	}
	im := dynamicImage{layout: p.layout(), bias: uint64(m.Bias), read: func(b []byte, vaddr uint64) int {
		n, _ := p.ReadMemory(b, p.sum(m.Bias, vaddr))
		return n
	}}
	im.entries, _ = p.dynamicSection(m.Dynamic)
	t := im.symbols(0)
	if t != nil {
		t.budget = &p.budget.symbols
	}
	return t
}

// address gives an address from the dynamic section as one of the file. The
// loaders of most architectures add the bias in place.
func (im *dynamicImage) address(tag elf.DynTag) (uint64, bool) {
	v, ok := dynamicValue(im.entries, tag)
	if ok && im.bias != 0 && v >= im.bias {
		v -= im.bias
	}
	return v, ok
}

// symbols gives the table at DT_SYMTAB, whose size in bytes is that of its
// section header, or 0 for unknown; nil where there is none.
func (im *dynamicImage) symbols(size uint64) *symtab {
	at, ok := im.address(elf.DT_SYMTAB)
	names, named := im.address(elf.DT_STRTAB)
	namesSize, sized := dynamicValue(im.entries, elf.DT_STRSZ)
	if !ok || !named || !sized || namesSize == 0 || namesSize > 1<<32 {
		return nil
	}
	if size == 0 {
		size = im.symbolsSize(at)
	}
	count := size / uint64(im.layout.symbolSize())
	if count <= 1 {
		return nil
	}
	t := &symtab{
		dynamic: true,
		layout:  im.layout,
		symbols: window{im.read, at},
		count:   count,
		names:   io.NewSectionReader(window{im.read, names}, 0, int64(namesSize)),
	}
	var first [1]byte
	if im.read(first[:], at) == 0 || im.read(first[:], names) == 0 {
		return nil
	}
	t.version = im.versions(t.names)
	return t
}

// symbolsSize is the size of the table at an address in bytes. The dynamic
// section does not tell it; DT_HASH has one entry for each symbol, and linkers
// put another table right behind, nearly always the strings.
func (im *dynamicImage) symbolsSize(at uint64) uint64 {
	if hash, ok := im.address(elf.DT_HASH); ok {
		var b [8]byte // nbucket, nchain
		if im.read(b[:], hash) == len(b) {
			return uint64(im.layout.order.Uint32(b[4:])) * uint64(im.layout.symbolSize())
		}
	}
	end := ^uint64(0)
	for _, tag := range []elf.DynTag{elf.DT_STRTAB, elf.DT_HASH, elf.DT_GNU_HASH, elf.DT_VERSYM, elf.DT_VERDEF, elf.DT_VERNEED, elf.DT_REL, elf.DT_RELA, elf.DT_JMPREL} {
		if table, ok := im.address(tag); ok && table > at {
			end = min(end, table)
		}
	}
	if end == ^uint64(0) {
		return 0
	}
	return end - at
}
