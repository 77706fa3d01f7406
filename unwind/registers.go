package unwind

import (
	"iter"
	"math"

	"github.com/corethreads/corethreads/elfcore"
)

// registers are those of one frame, by DWARF number.
type registers struct {
	pc    uint64
	value [maxRegister]uint64
	known [maxRegister]bool
}

func (r *registers) get(number uint64) (uint64, bool) {
	if number >= maxRegister {
		return 0, false
	}
	return r.value[number], r.known[number]
}

func (r *registers) set(number, value uint64) {
	if number < maxRegister {
		r.value[number], r.known[number] = value, true
	}
}

// registerFile is what package elfcore's table says of the registers that CFI
// has numbers for.
type registerFile struct {
	regs []elfcore.Reg
	// pc, sp and link are DWARF numbers, −1 for a register that has none.
	pc, sp, link int
	preserved    [maxRegister]bool
}

func newRegisterFile(a *elfcore.Arch, abi *abi) *registerFile {
	f := &registerFile{pc: -1, sp: -1, link: -1}
	for _, r := range a.Regs {
		if r.DWARF < 0 || r.DWARF >= maxRegister {
			continue
		}
		f.regs = append(f.regs, r)
		switch r.Name {
		case a.PC:
			f.pc = r.DWARF
		case a.SP:
			f.sp = r.DWARF
		case a.Return:
			f.link = r.DWARF
		}
	}
	for _, n := range abi.preserved {
		f.preserved[n] = true
	}
	return f
}

// of reads the registers of a thread. It is false without program counter and
// stack pointer.
func (f *registerFile) of(t *elfcore.Thread) (registers, bool) {
	var r registers
	pc, ok := t.PC()
	sp, okSP := t.SP()
	if !ok || !okSP || f.sp < 0 {
		return r, false
	}
	for _, reg := range f.regs {
		if v, ok := t.Register(reg.Name); ok {
			r.set(uint64(reg.DWARF), v)
		}
	}
	r.pc = uint64(pc)
	r.set(uint64(f.sp), uint64(sp))
	return r, true
}

// Registers are those of one frame, as far as the frames below it saved them.
type Registers struct {
	file *registerFile
	of   *registers
	arch *elfcore.Arch
}

// All gives the names and values of the registers that are known, in the order
// of the architecture's table.
func (r Registers) All() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, reg := range r.file.regs {
			v, ok := r.of.get(uint64(reg.DWARF))
			if reg.Name == r.arch.PC {
				v, ok = r.of.pc, true
			}
			if reg.Size == 4 {
				v &= math.MaxUint32
			}
			if ok && !yield(reg.Name, v) {
				return
			}
		}
	}
}
