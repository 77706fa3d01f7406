package coretest

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// The three headers of ELF in the core's class. The 64-bit form is what the
// builder works with; a value too large for the 32-bit form is cut to it.

func (c *Core) headerSize() uint64  { return c.bySize(elf.Header32{}, elf.Header64{}) }
func (c *Core) segmentSize() uint64 { return c.bySize(elf.Prog32{}, elf.Prog64{}) }
func (c *Core) sectionSize() uint64 { return c.bySize(elf.Section32{}, elf.Section64{}) }

func (c *Core) bySize(narrow, wide any) uint64 {
	if c.is64() {
		return uint64(binary.Size(wide))
	}
	return uint64(binary.Size(narrow))
}

func (c *Core) appendHeader(b []byte, h elf.Header64) []byte {
	if c.is64() {
		return c.append(b, h)
	}
	return c.append(b, elf.Header32{
		Ident: h.Ident, Type: h.Type, Machine: h.Machine, Version: h.Version,
		Entry: uint32(h.Entry), Phoff: uint32(h.Phoff), Shoff: uint32(h.Shoff), Flags: h.Flags,
		Ehsize: h.Ehsize, Phentsize: h.Phentsize, Phnum: h.Phnum,
		Shentsize: h.Shentsize, Shnum: h.Shnum, Shstrndx: h.Shstrndx,
	})
}

func (c *Core) appendSegment(b []byte, p elf.Prog64) []byte {
	if c.is64() {
		return c.append(b, p)
	}
	return c.append(b, elf.Prog32{
		Type: p.Type, Off: uint32(p.Off), Vaddr: uint32(p.Vaddr), Paddr: uint32(p.Paddr),
		Filesz: uint32(p.Filesz), Memsz: uint32(p.Memsz), Flags: p.Flags, Align: uint32(p.Align),
	})
}

func (c *Core) appendSection(b []byte, s elf.Section64) []byte {
	if c.is64() {
		return c.append(b, s)
	}
	return c.append(b, elf.Section32{Size: uint32(s.Size), Info: s.Info})
}

// append encodes a value of fixed size.
func (a ABI) append(b []byte, value any) []byte {
	b, err := binary.Append(b, a.Order, value)
	if err != nil {
		panic(fmt.Sprintf("coretest: %T: %v", value, err))
	}
	return b
}
