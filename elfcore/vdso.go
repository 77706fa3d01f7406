package elfcore

import (
	"debug/elf"
	"fmt"
)

// kernelVersion reads the version of the running kernel from the vDSO, which is
// always in memory: its note "Linux" of type 0 holds LINUX_VERSION_CODE
// (arch/*/vdso/note.S).
func (c *Core) kernelVersion() string {
	base, ok := c.Auxv[AuxSysinfo]
	if !ok {
		return ""
	}
	at := func(offset, n uint64) []byte {
		a, ok := Addr(base).Add(offset)
		if !ok || offset > 1<<20 {
			return nil
		}
		b := make([]byte, n)
		if _, err := c.ReadMemory(b, a); err != nil {
			return nil
		}
		return b
	}
	head := at(0, 64)
	if len(head) == 0 || string(head[:4]) != elf.ELFMAG || elf.Class(head[elf.EI_CLASS]) != c.Class {
		return ""
	}
	h := &header{class: c.Class, order: c.ByteOrder}
	var phnum uint16
	if c.Class == elf.ELFCLASS64 {
		h.phoff, phnum = c.ByteOrder.Uint64(head[32:]), c.ByteOrder.Uint16(head[56:])
	} else {
		h.phoff, phnum = uint64(c.ByteOrder.Uint32(head[28:])), c.ByteOrder.Uint16(head[44:])
	}
	size := uint64(phdrSize(c.Class))
	for i := range uint64(min(phnum, 32)) {
		b := at(h.phoff+i*size, size)
		if b == nil {
			return ""
		}
		p := parseProgramHeader(b, h)
		if p.typ != elf.PT_NOTE {
			continue
		}
		if v := c.linuxNote(at(p.offset, min(p.filesz, 4096))); v != "" {
			return v
		}
	}
	return ""
}

// linuxNote finds the kernel's version among notes.
func (c *Core) linuxNote(b []byte) string {
	for len(b) >= 12 {
		namesz, descsz := uint64(c.ByteOrder.Uint32(b)), uint64(c.ByteOrder.Uint32(b[4:]))
		typ := c.ByteOrder.Uint32(b[8:])
		b = b[12:]
		name, desc := (namesz+3)&^3, (descsz+3)&^3
		if name > uint64(len(b)) || desc > uint64(len(b))-name {
			return ""
		}
		if typ == 0 && namesz == 6 && string(b[:6]) == "Linux\x00" && descsz == 4 {
			v := c.ByteOrder.Uint32(b[name:])
			return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, v&0xff)
		}
		b = b[name+desc:]
	}
	return ""
}
