// Package coretest builds synthetic cores for tests, and unpacks real ones.
//
// It shares no code with the packages that it helps to test: what it encodes
// follows the ELF specification and the kernel's headers (by way of the
// standard library's debug/elf), so that it can serve as a truth for them.
package coretest

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// Core is a synthetic ELF core. Bytes encodes it as the kernel lays a core
// out: header, program headers (PT_NOTE first), notes, memory, and last the
// section header that holds a segment count too large for the ELF header.
type Core struct {
	ABI
	// Notes are the PT_NOTE segments: the kernel writes one, others several.
	Notes []NoteSegment
	// Loads are the PT_LOAD segments, in the order of the program headers.
	Loads []Load
	// Sections says which section headers the core has.
	Sections Sections
	// ExtendedCount writes the number of segments into section header 0
	// (PN_XNUM), as from 65535 segments on, however few there are.
	ExtendedCount bool
	// EditHeader and EditSegment, where set, see each header after all else
	// is laid out and before it is encoded, to make it lie. The segment's
	// index counts program headers from 0.
	EditHeader  func(*elf.Header64)
	EditSegment func(index int, p *elf.Prog64)
}

// Load is a PT_LOAD segment.
type Load struct {
	// Addr is p_vaddr.
	Addr uint64
	// Data is what the core holds of it: p_filesz bytes. Poke writes here.
	Data []byte
	// MemSize is p_memsz in bytes; 0 means len(Data), all of it dumped.
	MemSize uint64
	// Flags is p_flags, such as RW; 0 is an inaccessible mapping.
	Flags elf.ProgFlag
	// Align is p_align, a power of two; 0 means 4096. The file offset is
	// congruent to Addr modulo Align, so 1 packs segments tightly.
	Align uint64
}

// The usual p_flags of data, of code, and of constants.
const (
	RW = elf.PF_R | elf.PF_W
	RX = elf.PF_R | elf.PF_X
	RO = elf.PF_R
)

// Sections is a choice of section headers.
type Sections int

// NoSections leaves e_shoff and e_shnum 0, unless a segment count has to go
// into section header 0. NullSection writes that one header always.
// UncountedSections writes it with e_shnum 0, so that its own sh_size tells
// the number of section headers (the ELF specification's e_shnum).
const (
	NoSections Sections = iota
	NullSection
	UncountedSections
)

// pnXNum is PN_XNUM of linux/elf.h: the true count is section 0's sh_info.
const pnXNum = 0xffff

// Bytes encodes the core. A cut core is a slice of it.
func (c *Core) Bytes() []byte {
	count := len(c.Notes) + len(c.Loads)
	offset := c.headerSize() + uint64(count)*c.segmentSize()
	var progs []elf.Prog64
	var body []byte
	place := func(p elf.Prog64, data []byte, align uint64) {
		pad := (p.Vaddr - offset) % align
		p.Off = offset + pad
		p.Filesz = uint64(len(data))
		body = append(append(body, make([]byte, pad)...), data...)
		offset = p.Off + p.Filesz
		progs = append(progs, p)
	}
	for _, n := range c.Notes {
		place(elf.Prog64{Type: uint32(elf.PT_NOTE), Align: n.align()}, n.encode(c.ABI), n.align())
	}
	for _, l := range c.Loads {
		p := elf.Prog64{Type: uint32(elf.PT_LOAD), Vaddr: l.Addr, Memsz: l.MemSize, Flags: uint32(l.Flags), Align: l.Align}
		if p.Memsz == 0 {
			p.Memsz = uint64(len(l.Data))
		}
		if p.Align == 0 {
			p.Align = 4096
		}
		place(p, l.Data, p.Align)
	}

	head := elf.Header64{
		Ident:   [16]byte{0x7f, 'E', 'L', 'F', byte(c.Class), c.encoding(), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_CORE),
		Machine: uint16(c.Machine),
		Version: uint32(elf.EV_CURRENT),
		Phoff:   c.headerSize(),
		Flags:   c.Flags,
		Ehsize:  uint16(c.headerSize()),
		// Both fit: every entry size is below 100 bytes.
		Phentsize: uint16(c.segmentSize()),
		Phnum:     uint16(min(count, pnXNum)),
	}
	var null elf.Section64
	if c.ExtendedCount || count >= pnXNum {
		head.Phnum = pnXNum
		null.Info = uint32(count)
	}
	if c.Sections != NoSections || head.Phnum == pnXNum {
		head.Shoff = offset
		head.Shentsize = uint16(c.sectionSize())
		head.Shnum = 1
	}
	if c.Sections == UncountedSections {
		head.Shnum = 0
		null.Size = 1
	}
	if c.EditHeader != nil {
		c.EditHeader(&head)
	}
	out := c.appendHeader(nil, head)
	for i, p := range progs {
		if c.EditSegment != nil {
			c.EditSegment(i, &p)
		}
		out = c.appendSegment(out, p)
	}
	out = append(out, body...)
	if head.Shentsize != 0 {
		out = c.appendSection(out, null)
	}
	return out
}

// Poke stores a word (of the class's size, in the core's byte order) at an
// address of the dead process. It panics where no Load has Data for it.
func (c *Core) Poke(addr, word uint64) {
	copy(c.memory(addr, c.wordSize()), c.Words(word))
}

// Poke32 stores an int of C, such as a thread id, as Poke does a word.
func (c *Core) Poke32(addr uint64, value uint32) {
	c.Order.PutUint32(c.memory(addr, 4), value)
}

func (c *Core) memory(addr uint64, n int) []byte {
	for _, l := range c.Loads {
		if at := addr - l.Addr; addr >= l.Addr && at <= uint64(len(l.Data)) && uint64(len(l.Data))-at >= uint64(n) {
			return l.Data[at:][:n]
		}
	}
	panic(fmt.Sprintf("coretest: no segment has data for %d bytes at %#x", n, addr))
}

func (c *Core) is64() bool { return c.Class == elf.ELFCLASS64 }

func (c *Core) encoding() byte {
	if c.Order == binary.BigEndian {
		return byte(elf.ELFDATA2MSB)
	}
	return byte(elf.ELFDATA2LSB)
}
