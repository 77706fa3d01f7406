package unwind

import (
	"errors"
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// errOutermost: the call-frame information says that there is no caller.
var errOutermost = errors.New("the outermost frame")

// byCFI finds the caller's registers by call-frame information. The error says
// what is missing for that.
func (w *walker) byCFI(r *row) (cfa uint64, err error) {
	w.frame.Signal = r.signal
	e := &evaluator{order: w.core.ByteOrder, word: w.core.Arch.WordSize(), register: w.regs.get, memory: w.load}
	back := r.rule(r.returnColumn)
	cfa, err = w.canonical(r, e)
	switch {
	case back.kind == undefined:
		return cfa, errOutermost
	case err != nil:
		return 0, fmt.Errorf("the frame's address is not known: %w", err)
	}
	w.next, w.found = registers{}, FromCFI
	for _, reg := range w.file.regs {
		w.recover(r, e, cfa, reg)
	}
	// The return address is the value of its column, whether or not that is a
	// register that the ABI preserves.
	pc, ok, err := w.value(back, r.returnColumn, w.size(r.returnColumn), e, cfa)
	if !ok && back.kind == unspecified && w.file.link >= 0 {
		// The function has not moved it from the register.
		pc, ok = w.regs.get(r.returnColumn)
	}
	switch {
	case err != nil:
		return cfa, fmt.Errorf("the return address is not known: %w", err)
	case !ok:
		return cfa, fmt.Errorf("the return address is not known: no frame below saved the register that it is in")
	}
	w.next.pc = w.trim(w.strip(pc, r.signed))
	return cfa, nil
}

// canonical gives the CFA.
func (w *walker) canonical(r *row, e *evaluator) (uint64, error) {
	switch r.cfa.kind {
	case offsetBy:
		v, ok := w.regs.get(r.cfa.register)
		if !ok {
			return 0, fmt.Errorf("it depends on register %d, which no frame below saved", r.cfa.register)
		}
		return w.trim(v + uint64(r.cfa.offset)), nil
	case valueExpr:
		return e.run(r.cfa.expression)
	}
	return 0, fmt.Errorf("call-frame information defines none")
}

// recover finds the caller's value of one register. One that cannot be found
// stays unknown.
func (w *walker) recover(r *row, e *evaluator, cfa uint64, reg elfcore.Reg) {
	number := uint64(reg.DWARF)
	x := r.rule(number)
	if x.kind == unspecified {
		switch {
		case reg.DWARF == w.file.sp && w.abi.stackIsCFA:
			x = rule{kind: offsetBy}
		case w.file.preserved[number] || r.signal:
			x = rule{kind: sameValue}
		}
	}
	if v, ok, _ := w.value(x, number, reg.Size, e, cfa); ok {
		w.next.set(number, v)
	}
}

// value applies one rule. It is false for what is not known; the error says
// which memory or register is missing.
func (w *walker) value(x rule, number uint64, size int, e *evaluator, cfa uint64) (uint64, bool, error) {
	var at uint64
	var err error
	switch x.kind {
	case sameValue:
		v, ok := w.regs.get(number)
		return v, ok, nil
	case inOther:
		v, ok := w.regs.get(x.register)
		return v, ok, nil
	case offsetBy:
		return w.trim(cfa + uint64(x.offset)), true, nil
	case savedAt:
		at = cfa + uint64(x.offset)
	case savedExpr:
		at, err = e.run(x.expression, cfa)
	case valueExpr:
		at, err = e.run(x.expression, cfa)
		return at, err == nil, err
	default:
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	v, err := w.load(at, size)
	return v, err == nil, err
}

// size is that of a register in bytes.
func (w *walker) size(number uint64) int {
	for _, r := range w.file.regs {
		if r.DWARF == int(number) {
			return r.Size
		}
	}
	return w.core.Arch.WordSize()
}
