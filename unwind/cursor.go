package unwind

import (
	"encoding/binary"
	"math"
)

// cursor reads the primitive types of DWARF. A read behind the end gives 0 and
// sets bad, which is looked at once, after a group of reads.
type cursor struct {
	b     []byte
	pos   int
	start uint64 // address of b[0]
	order binary.ByteOrder
	word  int // size of an address in bytes
	bad   bool
}

func (c *cursor) more() bool { return !c.bad && c.pos < len(c.b) }

// address is where the next byte stands.
func (c *cursor) address() uint64 { return c.start + uint64(c.pos) }

func (c *cursor) bytes(n uint64) []byte {
	if c.bad || n > uint64(len(c.b)-c.pos) {
		c.bad = true
		return nil
	}
	b := c.b[c.pos : c.pos+int(n)]
	c.pos += int(n)
	return b
}

func (c *cursor) fixed(size int) uint64 {
	b := c.bytes(uint64(size))
	if b == nil {
		return 0
	}
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(c.order.Uint16(b))
	case 4:
		return uint64(c.order.Uint32(b))
	}
	return c.order.Uint64(b)
}

// signed is fixed with the sign extended.
func (c *cursor) signed(size int) uint64 { return extend(c.fixed(size), size) }

// extend repeats the sign of a value of size bytes.
func extend(v uint64, size int) uint64 {
	shift := 64 - 8*size
	return uint64(int64(v<<shift) >> shift)
}

func (c *cursor) u8() uint64   { return c.fixed(1) }
func (c *cursor) addr() uint64 { return c.fixed(c.word) }

// uleb and sleb read LEB128 (DWARF 5, 7.6); bits beyond 64 are dropped.
func (c *cursor) uleb() uint64 {
	v, _, _ := c.leb()
	return v
}

func (c *cursor) sleb() int64 {
	v, shift, last := c.leb()
	if last&0x40 != 0 && shift < 64 {
		v |= math.MaxUint64 << shift
	}
	return int64(v)
}

func (c *cursor) leb() (v uint64, shift uint, last uint64) {
	for {
		last = c.u8()
		if shift < 64 {
			v |= last & 0x7f << shift
		}
		shift += 7
		if c.bad || last&0x80 == 0 {
			return v, shift, last
		}
	}
}

// cstring reads up to a NUL.
func (c *cursor) cstring() string {
	for i := c.pos; i < len(c.b); i++ {
		if c.b[i] == 0 {
			s := string(c.b[c.pos:i])
			c.pos = i + 1
			return s
		}
	}
	c.bad = true
	return ""
}

// Pointer encodings of .eh_frame: a format in the low half, what the value is
// relative to in the high half
// (https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/dwarfext.html).
const (
	encAbsolute = 0x00
	encULEB     = 0x01
	encU2       = 0x02
	encU4       = 0x03
	encU8       = 0x04
	encSLEB     = 0x09
	encS2       = 0x0a
	encS4       = 0x0b
	encS8       = 0x0c

	encPCRelative   = 0x10
	encDataRelative = 0x30
	encOmit         = 0xff
)

// encoded reads a pointer. data is what a data-relative one counts from. Those
// relative to text or to a function, aligned and indirect ones occur only in
// what the walk does not need.
func (c *cursor) encoded(encoding byte, data uint64) uint64 {
	at := c.address()
	v := c.format(encoding)
	switch encoding & 0xf0 {
	case encAbsolute:
	case encPCRelative:
		v += at
	case encDataRelative:
		v += data
	default:
		c.bad = true
	}
	if c.word == 4 {
		v &= math.MaxUint32
	}
	return v
}

// format reads the number of an encoded pointer.
func (c *cursor) format(encoding byte) uint64 {
	switch encoding & 0x0f {
	case encAbsolute:
		return c.addr()
	case encULEB:
		return c.uleb()
	case encSLEB:
		return uint64(c.sleb())
	case encU2, encU4, encU8:
		return c.fixed(1 << (encoding&0x07 - 1))
	case encS2, encS4, encS8:
		return c.signed(1 << (encoding&0x07 - 1))
	}
	c.bad = true
	return 0
}
