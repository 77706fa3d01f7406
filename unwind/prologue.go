package unwind

import (
	"encoding/binary"

	"github.com/corethreads/corethreads/elfcore"
)

// maxPrologue bounds the code in which a function makes its frame, in bytes.
const maxPrologue = 256

// prologue is what the first instructions of a function did.
type prologue struct {
	// size is by how many bytes they lowered the stack pointer.
	size int64
	// saved are the registers that they stored, by DWARF number, at offsets
	// from where the stack pointer was at the function's start.
	saved map[uint64]int64
}

func newPrologue() *prologue { return &prologue{saved: make(map[uint64]int64)} }

// store notes a register stored at an offset from the stack pointer. Only the
// first store is what the caller had.
func (p *prologue) store(register uint64, offset int64) {
	if _, ok := p.saved[register]; !ok {
		p.saved[register] = offset - p.size
	}
}

// byPrologue finds the caller by the instructions at the start of the frame's
// function, up to where it was stopped or first jumps, and gives the frame's CFA,
// 0 for none. It is wrong for a function that changes its stack pointer later.
func (w *walker) byPrologue(sp uint64) uint64 {
	if w.abi.prologue == nil || w.file.link < 0 || !w.prologueReadable() {
		return 0
	}
	lookup := w.frame.Lookup()
	_, offset, ok := w.set.Symbolize(lookup)
	if !ok || offset == 0 {
		return 0
	}
	code := make([]byte, min(offset, maxPrologue))
	if n, err := w.set.ReadMemory(code, lookup-elfcore.Addr(offset)); err != nil || n < len(code) {
		return 0
	}
	p := w.abi.prologue(code, w.core.ByteOrder)
	if p == nil {
		return 0
	}
	at, ok := p.saved[uint64(w.file.link)]
	if !ok {
		return 0
	}
	cfa := w.trim(sp + uint64(p.size))
	word, ok := w.pointer(cfa + uint64(at))
	pc := w.strip(word, true)
	// Where the caller's code is not at hand, this is still the best guess.
	if !ok || w.site(pc).answer == no || w.calls(pc) == no {
		return 0
	}
	w.caller(pc, cfa, FromPrologue)
	for n, at := range p.saved {
		if v, ok := w.pointer(cfa + uint64(at)); ok && w.file.preserved[n] {
			w.next.set(n, v)
		}
	}
	w.next.set(uint64(w.file.sp), cfa)
	return cfa
}

// prologueReadable tells whether the frame's function is of the instruction set
// that the prologue's reader knows: on ARM that is Thumb.
func (w *walker) prologueReadable() bool {
	if !w.abi.exceptionTables {
		return true
	}
	if w.innermost {
		status, ok := w.thread.Register("cpsr") // bit 5 tells Thumb from ARM
		return ok && len(w.signals) == 0 && status>>5&1 == 1
	}
	code := make([]byte, 4)
	if n, err := w.set.ReadMemory(code, elfcore.Addr(w.regs.pc-4)); err != nil || n < 4 {
		return false
	}
	first, second := w.core.ByteOrder.Uint16(code), w.core.ByteOrder.Uint16(code[2:])
	return second&0xff87 == 0x4780 || first&0xf800 == 0xf000 && second&0xc000 == 0xc000
}

// riscvPrologue reads the code of RISC-V, with compressed instructions.
func riscvPrologue(code []byte, order binary.ByteOrder) *prologue {
	p := newPrologue()
	for len(code) >= 2 {
		h := order.Uint16(code)
		if h&3 != 3 {
			if !p.riscvShort(h) {
				return p
			}
			code = code[2:]
			continue
		}
		if len(code) < 4 || !p.riscvLong(order.Uint32(code)) {
			return p
		}
		code = code[4:]
	}
	return p
}

// riscvShort is false behind the prologue.
func (p *prologue) riscvShort(h uint16) bool {
	switch {
	case h&0xef83 == 0x6101: // c.addi16sp
		n := int64(h>>6&1)<<4 | int64(h>>2&1)<<5 | int64(h>>5&1)<<6 | int64(h>>3&3)<<7 | -int64(h>>12&1)<<9
		return p.lower(-n)
	case h&0xef83 == 0x0101: // c.addi sp
		return p.lower(-(int64(h>>2&0x1f) | -int64(h>>12&1)<<5))
	case h&0xe003 == 0xe002: // c.sdsp
		p.store(uint64(h>>2&0x1f), int64(h>>10&7)<<3|int64(h>>7&7)<<6)
	case h&0xe003 == 0xa001, h&0xc003 == 0xc001, h&0xe07f == 0x8002: // c.j, c.beqz, c.bnez, c.jr, c.jalr
		return false
	case h&0xef83 == 0x8102: // c.mv sp, c.add sp
		return false
	}
	return true
}

func (p *prologue) riscvLong(w uint32) bool {
	switch {
	case w&0xfffff == 0x00010113: // addi sp,sp,n
		return p.lower(-int64(int32(w) >> 20))
	case w&0xff07f == 0x13023: // sd register,n(sp)
		p.store(uint64(w>>20&0x1f), int64(int32(w)>>25)<<5|int64(w>>7&0x1f))
	case w&0x7f == 0x63, w&0x7f == 0x6f, w&0x7f == 0x67: // branches and jumps
		return false
	case w&0xf80 == 0x100 && w&0x7f != 0x23: // another change of sp
		return false
	}
	return true
}

// lower moves the stack pointer down; it is false where it goes up.
func (p *prologue) lower(n int64) bool {
	if n < 0 {
		return false
	}
	p.size += n
	return true
}
