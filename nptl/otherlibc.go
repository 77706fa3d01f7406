package nptl

import (
	"bytes"
	"debug/elf"
	"path"

	"github.com/corethreads/corethreads/elfcore"
)

// goProgram tells whether the program was linked by Go without a libc: there is
// no loader, and the program has Go's build id, or its build information.
func (v *view) goProgram() bool {
	return v.Auxv[elfcore.AuxBase] == 0 && (v.goBuildID() || v.goBuildInfo())
}

// goBuildID looks among the program's notes for that of cmd/link, which it puts
// behind the program headers: the name "Go", type 4 (cmd/internal/buildid).
func (v *view) goBuildID() bool {
	const most = 64 // program headers; Go writes less than 16
	phdr, size, n := elfcore.Addr(v.Auxv[elfcore.AuxPhdr]), v.Auxv[elfcore.AuxPhent], v.Auxv[elfcore.AuxPhnum]
	if phdr == 0 || size < 3*v.w || size > 0x100 {
		return false
	}
	// p_vaddr is the third word of Elf64_Phdr and the third of Elf32_Phdr.
	at := func(i uint64) (typ elf.ProgType, vaddr elfcore.Addr, ok bool) {
		t, err1 := v.Uint32(phdr + elfcore.Addr(i*size))
		a, err2 := v.Word(phdr + elfcore.Addr(i*size+2*v.w))
		return elf.ProgType(t), elfcore.Addr(a), err1 == nil && err2 == nil
	}
	var bias elfcore.Addr // of a position-independent program
	for i := range min(n, most) {
		typ, vaddr, ok := at(i)
		if !ok {
			return false
		}
		if typ == elf.PT_PHDR {
			bias = phdr - vaddr
		}
		if typ != elf.PT_NOTE {
			continue
		}
		note := make([]byte, 16)
		if _, err := v.ReadMemory(note, vaddr+bias); err == nil && v.ByteOrder.Uint32(note) == 4 && v.ByteOrder.Uint32(note[8:]) == 4 && string(note[12:]) == "Go\x00\x00" {
			return true
		}
	}
	return false
}

// goBuildInfo looks for the magic of .go.buildinfo (debug/buildinfo), with which
// the program's data starts since Go 1.13.
func (v *view) goBuildInfo() bool {
	const magic = "\xff Go buildinf:"
	entry := elfcore.Addr(v.Auxv[elfcore.AuxEntry])
	if entry == 0 {
		return false
	}
	r, _ := v.imageAt(entry)
	for _, data := range v.imageOf(inProgram, r).data {
		b := make([]byte, min(data.Len(), 64<<10))
		n, _ := v.ReadMemory(b, data.Start)
		if bytes.Contains(b[:n], []byte(magic)) {
			return true
		}
	}
	return false
}

// bionic tells whether Android's loader is mapped, by its name: linker of
// /system/bin or of the runtime's APEX.
func (v *view) bionic() bool {
	for i := range v.Mappings {
		dir, base := path.Split(v.Mappings[i].Path)
		if (base == "linker" || base == "linker64") && path.Base(dir) == "bin" {
			return true
		}
	}
	return false
}
