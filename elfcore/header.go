package elfcore

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// header is the ELF header (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html)
// as far as a core uses it.
type header struct {
	class   elf.Class
	order   binary.ByteOrder
	osabi   elf.OSABI
	machine elf.Machine

	phoff     uint64
	phentsize int
	phnum     uint64
	shoff     uint64
	shnum     int

	phnumFromSection   bool // e_phnum was PN_XNUM and section 0 gave the number
	phnumIsUnreachable bool // e_phnum was PN_XNUM and section 0 is cut off or empty
}

// Where e_phoff and e_phentsize stand. From e_phentsize on all fields have 16
// bits: e_phnum, e_shentsize, e_shnum, e_shstrndx.
func (h *header) phoffAt() int64 {
	if h.class == elf.ELFCLASS32 {
		return 28
	}
	return 32
}

func (h *header) phentsizeAt() int64 {
	if h.class == elf.ELFCLASS32 {
		return 42
	}
	return 54
}

func (h *header) phnumAt() int64 { return h.phentsizeAt() + 2 }

// pnXNUM is PN_XNUM of linux/elf.h: the number of program headers is in
// sh_info of section 0.
const pnXNUM = 0xffff

// Sizes of the program header and the section header, by class.
func phdrSize(class elf.Class) int {
	if class == elf.ELFCLASS32 {
		return 32
	}
	return 56
}

func shdrSize(class elf.Class) int {
	if class == elf.ELFCLASS32 {
		return 40
	}
	return 64
}

func readHeader(f *cachedFile) (*header, error) {
	b := make([]byte, 64)
	n, err := f.readSome(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	b = b[:n]
	if err := checkMagic(b); err != nil {
		return nil, err
	}
	if len(b) < elf.EI_NIDENT {
		return nil, headerCut(len(b), 52)
	}
	h := &header{class: elf.Class(b[elf.EI_CLASS]), osabi: elf.OSABI(b[elf.EI_OSABI])}
	switch elf.Data(b[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		h.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		h.order = binary.BigEndian
	default:
		return nil, &FormatError{Offset: elf.EI_DATA, What: fmt.Sprintf("an ELF file with byte order %d, which is neither little (1) nor big (2)", b[elf.EI_DATA])}
	}
	var need int
	switch h.class {
	case elf.ELFCLASS32:
		need = 52 // sizeof(Elf32_Ehdr)
	case elf.ELFCLASS64:
		need = 64 // sizeof(Elf64_Ehdr)
	default:
		return nil, &FormatError{Offset: elf.EI_CLASS, What: fmt.Sprintf("an ELF file of class %d, which is neither 32-bit (1) nor 64-bit (2)", b[elf.EI_CLASS])}
	}
	if len(b) < need {
		return nil, headerCut(len(b), need)
	}
	typ := elf.Type(h.order.Uint16(b[16:]))
	h.machine = elf.Machine(h.order.Uint16(b[18:]))
	if h.class == elf.ELFCLASS64 {
		h.phoff = h.order.Uint64(b[32:])
		h.shoff = h.order.Uint64(b[40:])
	} else {
		h.phoff = uint64(h.order.Uint32(b[28:]))
		h.shoff = uint64(h.order.Uint32(b[32:]))
	}
	counts := b[h.phentsizeAt():]
	h.phentsize = int(h.order.Uint16(counts[0:]))
	h.phnum = uint64(h.order.Uint16(counts[2:]))
	h.shnum = int(h.order.Uint16(counts[6:]))

	if typ != elf.ET_CORE {
		return nil, &FormatError{Offset: 16, What: fmt.Sprintf("an ELF file of type %s, not a core: %s", typ, notCoreHint(typ))}
	}
	if h.phnum == pnXNUM {
		if err := h.extendedCount(f); err != nil {
			return nil, err
		}
	}
	if h.phnum == 0 {
		return nil, &FormatError{Offset: h.phnumAt(), What: "a core without program headers: it holds neither threads nor memory"}
	}
	if h.phentsize < phdrSize(h.class) {
		return nil, &FormatError{Offset: h.phentsizeAt(), What: fmt.Sprintf("program headers of %d bytes, but they have %d: the ELF header is damaged", h.phentsize, phdrSize(h.class))}
	}
	if h.phoff > uint64(f.size) {
		return nil, &FormatError{Offset: h.phoffAt(), What: fmt.Sprintf("the program headers start at offset %#x, behind the end of the file (%d bytes): nothing of this core was kept", h.phoff, f.size)}
	}
	return h, nil
}

func headerCut(have, need int) error {
	return &FormatError{Offset: int64(have), What: fmt.Sprintf("the file ends inside its ELF header, after %d of %d bytes: nothing of this core was kept", have, need)}
}

// extendedCount takes the number of program headers from section 0.
func (h *header) extendedCount(f *cachedFile) error {
	h.phnumIsUnreachable = true
	if h.shoff == 0 || h.shoff > uint64(f.size) {
		return nil
	}
	b := make([]byte, shdrSize(h.class))
	if err := f.readFull(b, int64(h.shoff)); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	} else if err != nil {
		return err
	}
	info := 44 // offsetof(Elf64_Shdr, sh_info)
	if h.class == elf.ELFCLASS32 {
		info = 28
	}
	if n := h.order.Uint32(b[info:]); n != 0 {
		h.phnum = uint64(n)
		h.phnumFromSection, h.phnumIsUnreachable = true, false
	}
	return nil
}

func notCoreHint(t elf.Type) string {
	switch t {
	case elf.ET_EXEC, elf.ET_DYN:
		return "this is a program or library; give the core it left, and the program with --exe where a command wants it"
	case elf.ET_REL:
		return "this is an object file"
	}
	return "only cores can be read"
}

// checkMagic tells an ELF file from what people take for a core.
func checkMagic(b []byte) error {
	if len(b) == 0 {
		return &FormatError{What: "the file is empty: the dump was cut before its first byte (a full disk, or a limit of 0)"}
	}
	if bytes.HasPrefix(b, []byte(elf.ELFMAG)) || bytes.HasPrefix([]byte(elf.ELFMAG), b) {
		return nil
	}
	if what, ok := foreignFormat(b); ok {
		return &FormatError{What: what}
	}
	return &FormatError{What: fmt.Sprintf("not an ELF file: it starts with % x, not with 7f 45 4c 46", b[:min(len(b), 4)])}
}

// foreignFormat names what is no core, but is taken for one, by how it starts.
func foreignFormat(b []byte) (what string, ok bool) {
	for _, k := range []struct{ magic, what string }{
		{"MDMP", "a minidump (Breakpad, Crashpad or Windows), not an ELF core; minidump-2-core of Breakpad converts one, and lldb reads it as it is"},
		{"KDUMP   ", "a dump of a kernel (kdump), not of a process; the crash utility and drgn read it"},
		{"DISKDUMP", "a dump of a kernel (diskdump), not of a process; the crash utility reads it"},
		{"PAGEDU", "a Windows crash dump, not an ELF core"},
		{"\xcf\xfa\xed\xfe", "a Mach-O file, not an ELF core"},
		{"\xfe\xed\xfa\xcf", "a Mach-O file, not an ELF core"},
		{"PK\x03\x04", "a zip archive; unpack it first"},
		{"ProblemType:", "an apport report; apport-unpack takes the core out of it"},
	} {
		if bytes.HasPrefix(b, []byte(k.magic)) {
			return k.what, true
		}
	}
	return "", false
}
