package module

import (
	"bytes"
	"debug/elf"
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// prove compares a file with what the core has of a module. Where the module's
// bias is not known, the file may tell it. A problem means that the file is not
// the one that was mapped, or cannot serve as it.
func (m *Module) prove(f *File) (bias elfcore.Addr, biasKnown bool, proof Proof, problem *Problem) {
	p := m.set.core
	if t := elf.Type(f.header.Type); t != elf.ET_DYN && t != elf.ET_EXEC {
		return 0, false, "", &Problem{WrongMachine, fmt.Sprintf("it is no program or library but %s", t)}
	}
	if !p.matches(f.header) {
		return 0, false, "", &Problem{WrongMachine, fmt.Sprintf("it is for %s, %s; the process ran on %s", elf.Machine(f.header.Machine), f.header.class, p.Arch.Name)}
	}
	if m.BuildID != nil && !m.BuildID.Equal(f.BuildID) {
		has := "it has no build-id"
		if f.BuildID != nil {
			has = fmt.Sprintf("it has build-id %s", f.BuildID)
		}
		return 0, false, "", &Problem{BuildIDDiffers, fmt.Sprintf("%s, the one that was mapped has %s: it is another build", has, m.BuildID)}
	}
	if f.debugOnly() {
		return 0, false, "", &Problem{DebugOnly, "it is a separate debug file, without the code"}
	}
	if n := f.cut(); n > 0 {
		return 0, false, "", &Problem{Damaged, fmt.Sprintf("it is cut: %d bytes of its segments are missing", n)}
	}
	bias, biasKnown = m.biasBy(f)
	if m.BuildID != nil {
		return bias, biasKnown, ByBuildID, nil
	}
	if m.image != nil && m.image.header != nil {
		if differs := m.compareHeaders(f); differs != "" {
			return 0, false, "", &Problem{LayoutDiffers, differs}
		}
		proof = ByHeaderBytes
	}
	layout, differs := m.compareLayout(f, bias, biasKnown)
	if differs != "" {
		return 0, false, "", &Problem{LayoutDiffers, differs + ": it is another build"}
	}
	if proof == "" {
		proof = layout
	}
	return bias, biasKnown, proof, nil
}

// biasBy is the module's bias; where that is not known, what it must be for
// this file.
func (m *Module) biasBy(f *File) (elfcore.Addr, bool) {
	p := m.set.core
	if m.BiasKnown {
		return m.Bias, true
	}
	if m.auxv {
		if entry, ok := p.Auxv[elfcore.AuxEntry]; ok {
			return p.difference(elfcore.Addr(entry), elfcore.Addr(f.header.Entry)), true
		}
		if phdr, ok := p.Auxv[elfcore.AuxPhdr]; ok {
			if first, ok := p.firstLoad(f.Programs); ok {
				return p.difference(elfcore.Addr(phdr), p.sum(first, f.header.Phoff)), true
			}
		}
	}
	if len(m.mappings) > 0 && m.mappings[0].FileOffset == 0 {
		if first, ok := p.firstLoad(f.Programs); ok {
			return p.difference(m.mappings[0].Start, first), true
		}
	}
	return 0, false
}

// maxCompared is how many bytes of the file's start are compared with memory.
const maxCompared = 64 << 10

// compareHeaders compares the file's start with memory, as far as the core has
// it: usually one page, of headers, notes and the first symbols. It says what
// differs, nothing where all is equal.
func (m *Module) compareHeaders(f *File) string {
	p, im := m.set.core, m.image
	if !equalHeaders(im.header, f.header) {
		return "its ELF header differs from the one in memory: it is another build"
	}
	if len(im.programs) != len(f.Programs) {
		return fmt.Sprintf("it has %d program headers, in memory there are %d: it is another build", len(f.Programs), len(im.programs))
	}
	for i := range im.programs {
		if im.programs[i] != f.Programs[i] {
			return fmt.Sprintf("its program header %d (%s) differs from the one in memory: it is another build", i, f.Programs[i].Type)
		}
	}
	for _, h := range f.Programs {
		// The loader may have changed what was writable when it ran.
		if h.Type != elf.PT_LOAD || h.Off != 0 || h.Flags&elf.PF_W != 0 {
			continue
		}
		want := make([]byte, min(h.Filesz, maxCompared))
		n, _ := p.ReadMemory(want, im.base)
		start := f.header.headerSize()
		if n <= start {
			break
		}
		got := make([]byte, n)
		if f.readFull(got, 0) != nil || !bytes.Equal(got[start:], want[start:n]) {
			return "its first page differs from the one in memory: it is another build"
		}
	}
	return ""
}

// equalHeaders compares two ELF headers but for the section headers, which
// strip removes.
func equalHeaders(a, b *header) bool {
	x, y := a.Header64, b.Header64
	for _, h := range []*elf.Header64{&x, &y} {
		h.Shoff, h.Shnum, h.Shentsize, h.Shstrndx = 0, 0, 0, 0
	}
	return x == y
}

// compareLayout compares where things are: the mappings with the segments, the
// entry point, the program headers, the dynamic section. It tells what that
// proves, and what differs, nothing where all agrees.
func (m *Module) compareLayout(f *File, bias elfcore.Addr, biasKnown bool) (proof Proof, differs string) {
	p := m.set.core
	proof = Unproven
	if !biasKnown {
		return proof, ""
	}
	if uint64(bias)&(p.PageSize()-1) != 0 {
		return proof, "its pages do not fit where it was mapped"
	}
	if entry, ok := p.Auxv[elfcore.AuxEntry]; ok && m.auxv {
		proof = ByMappings
		if at := p.sum(bias, f.header.Entry); uint64(at) != entry {
			return proof, fmt.Sprintf("its entry point would be at %s, AT_ENTRY says %#x", at, entry)
		}
	}
	if phdr, ok := p.Auxv[elfcore.AuxPhdr]; ok && m.auxv {
		if vaddr, ok := addressOf(f.Programs, f.header.Phoff); ok {
			proof = ByMappings
			if at := p.sum(bias, vaddr); uint64(at) != phdr {
				return proof, fmt.Sprintf("its program headers would be at %s, AT_PHDR says %#x", at, phdr)
			}
		}
	}
	for _, e := range m.mappings {
		proof = ByMappings
		if !m.mapsTo(f, bias, e) {
			return proof, fmt.Sprintf("none of its segments goes from file offset %#x to %s, as one was mapped", e.FileOffset, e.Start)
		}
	}
	h, ok := program(f.Programs, elf.PT_DYNAMIC)
	dynamic := p.sum(bias, h.Vaddr)
	if m.Dynamic != 0 && (!ok || dynamic != m.Dynamic) {
		return proof, fmt.Sprintf("its dynamic section would not be at %s, where the link map has it", m.Dynamic)
	}
	if ok {
		same, whole := m.equalDynamic(f, bias, dynamic)
		switch {
		case !same:
			return proof, "its dynamic section differs from the one in memory"
		case whole:
			proof = ByLayout
		}
	}
	return proof, ""
}

// addressOf is the address of the file that a file offset is loaded to.
func addressOf(programs []elf.ProgHeader, offset uint64) (uint64, bool) {
	for _, h := range programs {
		if h.Type == elf.PT_LOAD && offset >= h.Off && offset-h.Off < h.Filesz {
			return h.Vaddr + (offset - h.Off), true
		}
	}
	return 0, false
}

// mapsTo tells whether a mapping is of one of the file's segments. The first
// one may go on to the end of the image: the loader maps it that long to
// reserve the addresses, and what lies between segments stays of it.
func (m *Module) mapsTo(f *File, bias elfcore.Addr, e elfcore.Mapping) bool {
	p := m.set.core
	image := extent(p.ranges(f.Programs, bias))
	for _, h := range f.Programs {
		if h.Type != elf.PT_LOAD {
			continue
		}
		start, end := p.sum(bias, p.pageDown(h.Vaddr)), p.sum(bias, p.pageUp(h.Vaddr+h.Filesz))
		if start == image.Start {
			end = image.End
		}
		if e.Start >= start && e.Start < end && uint64(e.Start-start) == e.FileOffset-p.pageDown(h.Off) {
			return true
		}
	}
	return false
}

// equalDynamic compares the file's dynamic section with memory, as far as the
// core has that; whole tells that it has all. The loader adds the bias to some
// addresses, and fills in DT_DEBUG.
func (m *Module) equalDynamic(f *File, bias, at elfcore.Addr) (same, whole bool) {
	p := m.set.core
	memory, whole := p.dynamicSection(at)
	file := f.dynamic()
	if len(memory) > len(file) || whole && len(memory) < len(file) {
		return false, whole
	}
	for i, d := range memory {
		if d.tag != file[i].tag {
			return false, whole
		}
		if d.tag == elf.DT_DEBUG || d.value == file[i].value {
			continue
		}
		if elfcore.Addr(d.value) != p.sum(elfcore.Addr(file[i].value), uint64(bias)) {
			return false, whole
		}
	}
	return true, whole
}
