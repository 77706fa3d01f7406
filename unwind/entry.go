package unwind

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// image reads the bytes of a file's address space, before any bias. It is false
// where they cannot be had.
type image interface {
	read(p []byte, at uint64) bool
}

// section is one source of call-frame information: .eh_frame or .debug_frame
// (DWARF 5, 6.4.1, and the Linux Standard Base for .eh_frame).
type section struct {
	image
	order binary.ByteOrder
	word  int
	// start is the address of its first byte, size its length in bytes, 0
	// where only a terminator ends it.
	start, size uint64
	// eh tells .eh_frame from .debug_frame.
	eh bool
	// header is the address of .eh_frame_hdr, which data-relative pointers
	// count from.
	header uint64

	cies map[uint64]*cie
}

// cie is what several functions share.
type cie struct {
	codeAlign    uint64
	dataAlign    int64
	returnColumn uint64
	encoding     byte // of the pointers in its FDEs
	word         int
	augmented    bool // 'z': its FDEs have augmentation data
	signal       bool
	instructions []byte
}

// fde is the information about one function.
type fde struct {
	*cie
	begin, end   uint64
	instructions cursor
}

// maxEntry bounds one entry, in bytes. The largest that compilers make, for
// functions of a million instructions, have some hundred kilobytes.
const maxEntry = 4 << 20

// rawEntry is one entry behind its length field.
type rawEntry struct {
	body  cursor
	cieAt uint64 // for an FDE
	isCIE bool
	next  uint64
	end   bool // a terminator
}

// entry reads the entry at an address.
func (s *section) entry(at uint64) (rawEntry, error) {
	head := make([]byte, 4)
	if !s.read(head, at) {
		return rawEntry{}, fmt.Errorf("the call-frame information at %#x cannot be read", at)
	}
	length, size := uint64(s.order.Uint32(head)), uint64(4)
	if length == math.MaxUint32 { // DWARF64
		head = make([]byte, 8)
		if !s.read(head, at+4) {
			return rawEntry{}, fmt.Errorf("the call-frame information at %#x cannot be read", at)
		}
		length, size = s.order.Uint64(head), 12
	}
	if length == 0 {
		return rawEntry{end: true, next: at + size}, nil
	}
	if length > maxEntry || s.size != 0 && length > s.start+s.size-at-size {
		return rawEntry{}, fmt.Errorf("the call-frame information at %#x claims a length of %d bytes", at, length)
	}
	b := make([]byte, length)
	if !s.read(b, at+size) {
		return rawEntry{}, fmt.Errorf("the call-frame information at %#x cannot be read", at)
	}
	e := rawEntry{next: at + size + length}
	e.body = cursor{b: b, start: at + size, order: s.order, word: s.word}
	// The field that points to the CIE has 4 bytes in .eh_frame, always.
	if s.eh {
		field := e.body.address()
		id := e.body.fixed(4)
		e.isCIE, e.cieAt = id == 0, field-id
	} else if size == 4 {
		id := e.body.fixed(4)
		e.isCIE, e.cieAt = id == math.MaxUint32, s.start+id
	} else {
		id := e.body.fixed(8)
		e.isCIE, e.cieAt = id == math.MaxUint64, s.start+id
	}
	if e.body.bad {
		return rawEntry{}, fmt.Errorf("the call-frame information at %#x is cut", at)
	}
	return e, nil
}

// cie gives the CIE at an address.
func (s *section) cie(at uint64) (*cie, error) {
	if c, ok := s.cies[at]; ok {
		return c, nil
	}
	e, err := s.entry(at)
	if err != nil {
		return nil, err
	}
	if e.end || !e.isCIE {
		return nil, fmt.Errorf("the call-frame information at %#x is no CIE", at)
	}
	c, err := parseCIE(e.body, s.eh)
	if err != nil {
		return nil, fmt.Errorf("the CIE at %#x: %w", at, err)
	}
	s.cies[at] = c
	return c, nil
}

// parseCIE reads a common information entry (DWARF 5, 6.4.1; for augmentations
// the Linux Standard Base, 10.6.1.1, and for B and G the AAELF64).
func parseCIE(b cursor, eh bool) (*cie, error) {
	c := &cie{encoding: encAbsolute, word: b.word}
	version := b.u8()
	if version != 1 && version != 3 && version != 4 {
		return nil, fmt.Errorf("version %d is not known", version)
	}
	augmentation := b.cstring()
	if strings.HasPrefix(augmentation, "eh") {
		b.addr() // a pointer of gcc 2
		augmentation = augmentation[2:]
	}
	if version == 4 {
		c.word = int(b.u8())
		if segment := b.u8(); segment != 0 || c.word != 4 && c.word != 8 {
			return nil, fmt.Errorf("addresses of %d bytes, segments of %d", c.word, segment)
		}
	}
	c.codeAlign, c.dataAlign = b.uleb(), b.sleb()
	if version == 1 {
		c.returnColumn = b.u8()
	} else {
		c.returnColumn = b.uleb()
	}
	if c.returnColumn >= maxRegister {
		return nil, fmt.Errorf("the return address in register %d", c.returnColumn)
	}
	if err := c.augment(&b, augmentation); err != nil {
		return nil, err
	}
	if b.bad {
		return nil, fmt.Errorf("it is cut")
	}
	c.instructions = b.b[b.pos:]
	if !eh && c.encoding != encAbsolute {
		return nil, fmt.Errorf("encoded pointers in .debug_frame")
	}
	return c, nil
}

// augment reads what the augmentation string announces.
func (c *cie) augment(b *cursor, augmentation string) error {
	end := 0
	for i, letter := range augmentation {
		switch letter {
		case 'z':
			if i != 0 {
				return fmt.Errorf("augmentation %q", augmentation)
			}
			length := b.uleb()
			if b.bad || length > uint64(len(b.b)-b.pos) {
				return fmt.Errorf("its augmentation has %d bytes, more than there are", length)
			}
			c.augmented, end = true, b.pos+int(length)
		case 'R':
			c.encoding = byte(b.u8())
		case 'L':
			b.u8()
		case 'P':
			// The personality routine: of no use here, but it must be skipped.
			b.format(byte(b.u8()))
		case 'S':
			c.signal = true
		case 'B', 'G': // signed with key B; tagged stack memory
		default:
			if !c.augmented {
				return fmt.Errorf("augmentation %q is not known", augmentation)
			}
		}
	}
	if c.augmented {
		b.pos = end
	}
	return nil
}

// fde gives the FDE at an address.
func (s *section) fde(at uint64) (*fde, error) {
	e, err := s.entry(at)
	if err != nil {
		return nil, err
	}
	if e.end || e.isCIE {
		return nil, fmt.Errorf("the call-frame information at %#x is no FDE", at)
	}
	return s.parseFDE(e, at)
}

func (s *section) parseFDE(e rawEntry, at uint64) (*fde, error) {
	c, err := s.cie(e.cieAt)
	if err != nil {
		return nil, err
	}
	b := e.body
	b.word = c.word
	f := &fde{cie: c}
	f.begin = b.encoded(c.encoding, s.header)
	f.end = f.begin + b.format(c.encoding)
	if c.augmented {
		b.bytes(b.uleb())
	}
	if b.bad || f.end < f.begin {
		return nil, fmt.Errorf("the FDE at %#x is damaged", at)
	}
	f.instructions = b
	return f, nil
}
