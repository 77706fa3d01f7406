package module

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// maxPrograms bounds a table of program headers; linkers write some ten, and
// the kernel maps no file with more than a thousand (fs/binfmt_elf.c,
// load_elf_phdrs).
const maxPrograms = 128

// errNotELF is for bytes that do not start as an ELF file does.
var errNotELF = errors.New("it is not an ELF file")

// header is the ELF header of a file or of its image in memory
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html).
// A 32-bit one is widened.
type header struct {
	layout
	elf.Header64
}

// maxHeaderSize is the size of the larger of the two ELF headers in bytes.
const maxHeaderSize = 64

// parseHeader reads the ELF header at the start of b.
func parseHeader(b []byte) (*header, error) {
	if len(b) < elf.EI_NIDENT || string(b[:4]) != elf.ELFMAG {
		return nil, errNotELF
	}
	h := &header{layout: layout{class: elf.Class(b[elf.EI_CLASS])}}
	switch elf.Data(b[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		h.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		h.order = binary.BigEndian
	default:
		return nil, fmt.Errorf("its ELF header names no byte order (%#x)", b[elf.EI_DATA])
	}
	var err error
	switch h.class {
	case elf.ELFCLASS64:
		_, err = binary.Decode(b, h.order, &h.Header64)
	case elf.ELFCLASS32:
		var n elf.Header32
		_, err = binary.Decode(b, h.order, &n)
		h.Header64 = elf.Header64{
			Ident: n.Ident, Type: n.Type, Machine: n.Machine, Version: n.Version,
			Entry: uint64(n.Entry), Phoff: uint64(n.Phoff), Shoff: uint64(n.Shoff), Flags: n.Flags, Ehsize: n.Ehsize,
			Phentsize: n.Phentsize, Phnum: n.Phnum, Shentsize: n.Shentsize, Shnum: n.Shnum, Shstrndx: n.Shstrndx,
		}
	default:
		return nil, fmt.Errorf("its ELF header names no class (%#x)", b[elf.EI_CLASS])
	}
	if err != nil {
		return nil, errors.New("it ends inside its ELF header")
	}
	if h.Phnum > 0 && int(h.Phentsize) != h.programSize() {
		return nil, fmt.Errorf("its program headers have %d bytes each instead of %d", h.Phentsize, h.programSize())
	}
	if h.Phnum > maxPrograms {
		return nil, fmt.Errorf("it claims %d program headers, more than any linker writes", h.Phnum)
	}
	return h, nil
}
