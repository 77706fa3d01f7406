package elfcore

import (
	"debug/elf"
	"math"
)

// Thread is one LWP of the core: one NT_PRSTATUS note and those that belong to
// it.
type Thread struct {
	// TID is pr_pid: the kernel's id in the pid namespace of whoever wrote
	// the core.
	TID int
	// Signal is pr_cursig, 0 for none.
	Signal int
	// NoteOffset is where the descriptor of NT_PRSTATUS stands in the core.
	NoteOffset int64

	core  *Core
	regs  []byte
	notes []threadNote
}

type threadNote struct {
	typ    elf.NType
	offset int64
	desc   []byte
}

// parsePRStatus reads struct elf_prstatus (linux/elfcore.h).
func (c *Core) parsePRStatus(desc []byte, offset int64) {
	l := c.Arch.PrStatus
	if l.Size == 0 {
		return
	}
	if len(desc) < l.Size {
		c.warn(offset, "NT_PRSTATUS has %d bytes where %s has %d: its thread is ignored", len(desc), c.Arch.Name, l.Size)
		return
	}
	if len(desc) > l.Size {
		c.warn(offset, "NT_PRSTATUS has %d bytes where %s has %d: the rest is ignored", len(desc), c.Arch.Name, l.Size)
	}
	tid := int(int32(c.ByteOrder.Uint32(desc[l.PID:])))
	if _, twice := c.byTID[tid]; !twice {
		c.byTID[tid] = len(c.Threads)
	}
	c.Threads = append(c.Threads, Thread{
		TID:        tid,
		Signal:     int(c.ByteOrder.Uint16(desc[l.CurSig:])),
		NoteOffset: offset,
		core:       c,
		regs:       desc[l.Regset:l.Size:l.Size],
	})
}

// keep gives what stores a note of this thread. Of several of one type, which
// only a damaged core has, the first is kept.
func (t *Thread) keep(typ elf.NType) func(desc []byte, offset int64) {
	return func(desc []byte, offset int64) {
		if _, _, twice := t.Note(typ); !twice {
			t.notes = append(t.notes, threadNote{typ: typ, offset: offset, desc: desc})
		}
	}
}

// Register gives a general register by the name that the architecture's table
// has for it.
func (t *Thread) Register(name string) (uint64, bool) {
	r, ok := t.core.Arch.register(name)
	if !ok || r.Offset+r.Size > len(t.regs) {
		return 0, false
	}
	if r.Size == 4 {
		return uint64(t.core.ByteOrder.Uint32(t.regs[r.Offset:])), true
	}
	return t.core.ByteOrder.Uint64(t.regs[r.Offset:]), true
}

// RegisterOffset gives where in the core a general register stands.
func (t *Thread) RegisterOffset(name string) (int64, bool) {
	r, ok := t.core.Arch.register(name)
	if !ok || r.Offset+r.Size > len(t.regs) {
		return 0, false
	}
	return t.NoteOffset + int64(t.core.Arch.PrStatus.Regset+r.Offset), true
}

// PC is the program counter.
func (t *Thread) PC() (Addr, bool) {
	pc, ok := t.addr(t.core.Arch.PC)
	if mask := t.core.Arch.AddressMask; mask != 0 {
		pc &= Addr(mask)
	}
	return pc, ok
}

// SP is the stack pointer.
func (t *Thread) SP() (Addr, bool) {
	sp, ok := t.addr(t.core.Arch.SP)
	return sp + Addr(t.core.Arch.StackBias), ok
}

func (t *Thread) addr(name string) (Addr, bool) {
	v, ok := t.Register(name)
	if t.core.Class == elf.ELFCLASS32 {
		v &= math.MaxUint32
	}
	return Addr(v), ok
}

// Note gives the descriptor of a note of this thread, of the types that the
// architecture's table keeps, and where it stands in the core.
func (t *Thread) Note(typ elf.NType) (desc []byte, offset int64, ok bool) {
	for _, n := range t.notes {
		if n.typ == typ {
			return n.desc, n.offset, true
		}
	}
	return nil, 0, false
}

// ThreadPointer is the thread pointer as the notes give it, with the bias of
// the ABI still in it, and where in the core it stands (-1 where it is not one
// word). It is false where the core does not have it. Nothing has been checked:
// gdb's gcore and some kernels write garbage here.
func (t *Thread) ThreadPointer() (tp Addr, offset int64, ok bool) {
	tpIn := t.core.Arch.TP
	switch {
	case tpIn.Reg != "":
		tp, ok = t.addr(tpIn.Reg)
		offset, _ = t.RegisterOffset(tpIn.Reg)
		return tp, offset, ok
	case tpIn.High != "":
		high, ok1 := t.Register(tpIn.High)
		low, ok2 := t.Register(tpIn.Low)
		offset, _ = t.RegisterOffset(tpIn.High)
		return Addr(high<<32 | low&math.MaxUint32), offset, ok1 && ok2
	case tpIn.Selector != "":
		return t.userDescBase(tpIn)
	case tpIn.Note != 0:
		desc, offset, ok := t.Note(tpIn.Note)
		if !ok || len(desc) < t.core.Arch.WordSize() {
			return 0, 0, false
		}
		return Addr(t.core.WordOf(desc)), offset, true
	}
	return 0, 0, false
}

// PointerFieldSize is how many bytes the thread pointer takes where ThreadPointer
// finds it: on x32 a register has more than an address.
func (a *Arch) PointerFieldSize() int {
	switch {
	case a.TP.Reg != "":
		r, _ := a.register(a.TP.Reg)
		return r.Size
	case a.TP.High != "":
		return 8 // two registers of 32 bits, one behind the other
	}
	return a.WordSize()
}

// userDescBase finds the base of the segment that a selector picks in
// NT_386_TLS: struct user_desc {entry_number, base_addr, limit, flags}
// (arch/x86/include/uapi/asm/ldt.h), 16 bytes each.
func (t *Thread) userDescBase(tp ThreadPointer) (Addr, int64, bool) {
	sel, ok := t.Register(tp.Selector)
	desc, offset, have := t.Note(tp.Note)
	if !ok || !have {
		return 0, 0, false
	}
	index := uint32(uint16(sel) >> 3) // the rest of a selector is privilege and table
	for i := 0; i+16 <= len(desc); i += 16 {
		if t.core.ByteOrder.Uint32(desc[i:]) == index {
			return Addr(t.core.ByteOrder.Uint32(desc[i+4:])), offset + int64(i) + 4, true
		}
	}
	return 0, 0, false
}
