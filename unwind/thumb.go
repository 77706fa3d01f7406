package unwind

import (
	"encoding/binary"
	"math/bits"
)

// thumbPrologue reads Thumb code (ARM DDI 0406, A6).
func thumbPrologue(code []byte, order binary.ByteOrder) *prologue {
	p := newPrologue()
	for len(code) >= 2 {
		h := order.Uint16(code)
		if h>>11 < 0x1d {
			if !p.thumbShort(h) {
				return p
			}
			code = code[2:]
			continue
		}
		if len(code) < 4 || !p.thumbLong(h, order.Uint16(code[2:])) {
			return p
		}
		code = code[4:]
	}
	return p
}

// thumbShort is false behind the prologue.
func (p *prologue) thumbShort(h uint16) bool {
	switch {
	case h&0xfe00 == 0xb400: // push
		p.push(uint32(h&0xff) | uint32(h>>8&1)<<armLR)
	case h&0xff80 == 0xb080: // sub sp
		return p.lower(int64(h&0x7f) * 4)
	case h&0xf000 == 0xd000, h&0xf800 == 0xe000, h&0xf500 == 0xb100, h&0xff00 == 0x4700: // b, cbz, cbnz, bx, blx
		return false
	case h&0xfe00 == 0xbc00, h&0xff80 == 0xb000, h&0xff87 == 0x4685, h&0xff87 == 0x4485: // pop, and other changes of sp
		return false
	case h&0xff00 == 0xbf00 && h&0xf != 0: // it
		return false
	}
	return true
}

func (p *prologue) thumbLong(h, second uint16) bool {
	switch {
	case h == 0xe92d: // push.w
		p.push(uint32(second))
	case h == 0xf84d && second&0xf00 == 0xd00: // str register,[sp,#-n]!
		p.size += int64(second & 0xff)
		p.store(uint64(second>>12), 0)
	case h == 0xe96d: // strd registers,[sp,#-n]!
		p.size += int64(second&0xff) * 4
		p.store(uint64(second>>12), 0)
		p.store(uint64(second>>8&0xf), 4)
	case h&0xfbff == 0xf1ad && second&0x8f00 == 0x0d00: // sub.w sp,sp,#n
		return p.lower(int64(thumbConstant(h, second)))
	case h&0xfbff == 0xf2ad && second&0x8f00 == 0x0d00: // subw sp,sp,#n
		return p.lower(int64(h>>10&1)<<11 | int64(second>>12&7)<<8 | int64(second&0xff))
	case h == 0xed2d && second&0xe00 == 0xa00: // vpush
		return p.lower(int64(second&0xff) * 4)
	case h&0xf800 == 0xf000 && second&0x8000 != 0: // branches
		return false
	case h&0xfe0f == 0xea0d && second&0xf00 == 0xd00: // sub sp,sp,register
		return false
	}
	return true
}

// push stores registers below the stack pointer, the lowest first.
func (p *prologue) push(mask uint32) {
	p.size += int64(bits.OnesCount32(mask)) * 4
	at := int64(0)
	for n := range uint64(16) {
		if mask>>n&1 == 1 {
			p.store(n, at)
			at += 4
		}
	}
}

// thumbConstant expands a modified immediate constant (A6.3.2).
func thumbConstant(h, second uint16) uint32 {
	i := uint32(h>>10&1)<<11 | uint32(second>>12&7)<<8 | uint32(second&0xff)
	b := i & 0xff
	switch i >> 8 {
	case 0:
		return b
	case 1:
		return b | b<<16
	case 2:
		return b<<8 | b<<24
	case 3:
		return b | b<<8 | b<<16 | b<<24
	}
	return bits.RotateLeft32(b|0x80, -int(i>>7))
}
