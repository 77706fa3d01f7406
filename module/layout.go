package module

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// layout is how the structures of an ELF file are encoded.
type layout struct {
	class elf.Class
	order binary.ByteOrder
}

// Sizes in bytes by the class: of the ELF header, a program header, a section
// header, a symbol, a word.
func (l layout) headerSize() int  { return l.either(52, 64) }
func (l layout) programSize() int { return l.either(32, 56) }
func (l layout) sectionSize() int { return l.either(40, 64) }
func (l layout) symbolSize() int  { return l.either(16, 24) }
func (l layout) wordSize() int    { return l.either(4, 8) }

func (l layout) either(for32, for64 int) int {
	if l.class == elf.ELFCLASS32 {
		return for32
	}
	return for64
}

// word decodes the word at the start of b.
func (l layout) word(b []byte) uint64 {
	if l.class == elf.ELFCLASS32 {
		return uint64(l.order.Uint32(b))
	}
	return l.order.Uint64(b)
}

// programs decodes as many whole program headers as b holds
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html).
func (l layout) programs(b []byte) []elf.ProgHeader {
	var out []elf.ProgHeader
	r := bytes.NewReader(b)
	for {
		var p elf.Prog64
		if l.class == elf.ELFCLASS32 {
			var n elf.Prog32
			if binary.Read(r, l.order, &n) != nil {
				return out
			}
			p = elf.Prog64{
				Type: n.Type, Flags: n.Flags, Off: uint64(n.Off), Vaddr: uint64(n.Vaddr), Paddr: uint64(n.Paddr),
				Filesz: uint64(n.Filesz), Memsz: uint64(n.Memsz), Align: uint64(n.Align),
			}
		} else if binary.Read(r, l.order, &p) != nil {
			return out
		}
		out = append(out, elf.ProgHeader{
			Type: elf.ProgType(p.Type), Flags: elf.ProgFlag(p.Flags), Off: p.Off, Vaddr: p.Vaddr, Paddr: p.Paddr,
			Filesz: p.Filesz, Memsz: p.Memsz, Align: p.Align,
		})
	}
}

// sections decodes as many whole section headers as b holds; their names are
// still offsets, given apart
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html).
func (l layout) sections(b []byte) (out []elf.SectionHeader, names []uint32) {
	r := bytes.NewReader(b)
	for {
		var s elf.Section64
		if l.class == elf.ELFCLASS32 {
			var n elf.Section32
			if binary.Read(r, l.order, &n) != nil {
				return out, names
			}
			s = elf.Section64{
				Name: n.Name, Type: n.Type, Flags: uint64(n.Flags), Addr: uint64(n.Addr), Off: uint64(n.Off), Size: uint64(n.Size),
				Link: n.Link, Info: n.Info, Addralign: uint64(n.Addralign), Entsize: uint64(n.Entsize),
			}
		} else if binary.Read(r, l.order, &s) != nil {
			return out, names
		}
		out = append(out, elf.SectionHeader{
			Type: elf.SectionType(s.Type), Flags: elf.SectionFlag(s.Flags), Addr: s.Addr, Offset: s.Off, Size: s.Size, FileSize: s.Size,
			Link: s.Link, Info: s.Info, Addralign: s.Addralign, Entsize: s.Entsize,
		})
		names = append(names, s.Name)
	}
}

// dyn is one Elf_Dyn
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html).
type dyn struct {
	tag   elf.DynTag
	value uint64
}

// maxDynamic bounds the entries of a dynamic section; real ones have some
// thirty.
const maxDynamic = 1024

// dynamic decodes a dynamic section up to DT_NULL. It is whole where that was
// found.
func (l layout) dynamic(b []byte) (entries []dyn, whole bool) {
	w := l.wordSize()
	for ; len(b) >= 2*w && len(entries) < maxDynamic; b = b[2*w:] {
		d := dyn{tag: elf.DynTag(int64(l.word(b))), value: l.word(b[w:])}
		if d.tag == elf.DT_NULL {
			return entries, true
		}
		entries = append(entries, d)
	}
	return entries, false
}

// dynamicValue finds the value of a tag.
func dynamicValue(entries []dyn, tag elf.DynTag) (uint64, bool) {
	for _, d := range entries {
		if d.tag == tag {
			return d.value, true
		}
	}
	return 0, false
}

// program finds the first program header of a type.
func program(ps []elf.ProgHeader, t elf.ProgType) (elf.ProgHeader, bool) {
	for _, p := range ps {
		if p.Type == t {
			return p, true
		}
	}
	return elf.ProgHeader{}, false
}
