package unwind

import "github.com/corethreads/corethreads/elfcore"

// armSP, armLR and armPC are the DWARF numbers of ARM's registers.
const (
	armSP = 13
	armLR = 14
	armPC = 15
)

// byTables finds the caller by the tables of the ARM exception ABI, and gives
// the frame's CFA, 0 for none. They describe a function as it is at its calls:
// inside of its prologue and epilogue they are wrong.
func (w *walker) byTables(found Found) uint64 {
	if !w.abi.exceptionTables {
		return 0
	}
	code := w.exceptionTable(uint64(w.frame.Lookup()))
	if code == nil {
		return 0
	}
	m := ehabi{w: w, next: registers{}}
	for n, kept := range w.file.preserved {
		if kept && w.regs.known[n] {
			m.next.set(uint64(n), w.regs.value[n])
		}
	}
	if w.innermost {
		if link, ok := w.regs.get(armLR); ok {
			m.next.set(armLR, link)
		}
	}
	sp, ok := w.regs.get(armSP)
	if m.sp = uint32(sp); !ok || !m.run(code) {
		return 0
	}
	link := uint64(armLR)
	if m.popped>>armPC&1 != 0 {
		link = armPC
	}
	pc, ok := m.next.get(link)
	pc = w.strip(pc, true)
	if !ok || w.site(pc).answer == no {
		return 0
	}
	w.next, w.found = m.next, found
	w.next.pc = pc
	w.next.set(armSP, uint64(m.sp))
	return uint64(m.sp)
}

// atCall tells whether the frame was stopped where the tables hold: at a call, or
// in a system call, for which the C library makes sure of that.
func (w *walker) atCall() bool {
	if !w.innermost {
		return true
	}
	where, _ := w.systemCallAt(elfcore.Addr(w.regs.pc))
	return where >= 0
}

// ehabi carries out unwinding instructions (EHABI 10.3).
type ehabi struct {
	w *walker
	// sp is the virtual stack pointer.
	sp     uint32
	next   registers
	popped uint32 // the registers that were, by bit
}

// run is false for what cannot be done. What follows the last instruction is
// as if there were a finish.
func (m *ehabi) run(code []byte) bool {
	for len(code) > 0 {
		n, ok := m.step(code)
		if !ok {
			return false
		}
		if n == 0 {
			return true
		}
		code = code[n:]
	}
	return true
}

// step carries out one instruction and gives its length, 0 for finish.
func (m *ehabi) step(code []byte) (int, bool) {
	op := uint32(code[0])
	switch {
	case op < 0x40:
		m.sp += op<<2 + 4
		return 1, true
	case op < 0x80:
		m.sp -= op&0x3f<<2 + 4
		return 1, true
	case op>>4 == 0x9:
		v, ok := m.w.regs.get(uint64(op & 0xf))
		if m.popped>>(op&0xf)&1 != 0 {
			v, ok = m.next.get(uint64(op & 0xf))
		}
		if op&0xf == armSP || op&0xf == armPC {
			ok = false
		}
		m.sp = uint32(v)
		return 1, ok
	case op>>4 == 0xa:
		mask := uint32(1)<<(op&7+1) - 1
		return 1, m.pop(mask<<4 | op>>3&1<<armLR)
	case op == 0xb0:
		return 0, true
	case op >= 0xb8 && op < 0xc0: // VFP registers by FSTMFDX
		m.sp += (op&7+1)*8 + 4
		return 1, true
	case op >= 0xd0 && op < 0xd8: // VFP registers by VPUSH
		m.sp += (op&7 + 1) * 8
		return 1, true
	case op == 0xb2:
		return m.add(code)
	case len(code) < 2:
		return 0, false
	}
	operand := uint32(code[1])
	switch {
	case op>>4 == 0x8:
		mask := (op&0xf<<8 | operand) << 4
		return 2, mask != 0 && m.pop(mask) // a mask of 0 refuses to unwind
	case op == 0xb1 && operand != 0 && operand < 0x10:
		return 2, m.pop(operand)
	case op == 0xb3:
		m.sp += (operand&0xf+1)*8 + 4
		return 2, true
	case op == 0xc8 || op == 0xc9:
		m.sp += (operand&0xf + 1) * 8
		return 2, true
	}
	return 0, false
}

// add carries out vsp = vsp + 0x204 + (uleb128 << 2).
func (m *ehabi) add(code []byte) (int, bool) {
	c := cursor{b: code, pos: 1}
	v := c.uleb()
	m.sp += 0x204 + uint32(v)<<2
	return c.pos, !c.bad
}

// pop takes registers off the stack, the lowest first.
func (m *ehabi) pop(mask uint32) bool {
	at := m.sp
	for n := range uint64(16) {
		if mask>>n&1 == 0 {
			continue
		}
		v, ok := m.w.pointer(uint64(at))
		if !ok {
			return false
		}
		m.next.set(n, v)
		at += 4
	}
	m.popped |= mask
	m.sp = at
	if mask>>armSP&1 != 0 {
		m.sp = uint32(m.next.value[armSP])
	}
	return true
}
