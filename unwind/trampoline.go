package unwind

import (
	"bytes"

	"github.com/corethreads/corethreads/elfcore"
)

// trampoline tells whether the frame's code is what a signal handler returns
// to, by its instructions: that of musl and of Go has no call-frame information
// that says so.
func (w *walker) trampoline() *trampoline {
	if t, ok := w.tramps[w.regs.pc]; ok {
		return t
	}
	var found *trampoline
	for i := range w.abi.trampolines {
		t := &w.abi.trampolines[i]
		b := make([]byte, len(t.code))
		if n, err := w.set.ReadMemory(b, elfcore.Addr(w.regs.pc)); err == nil && n == len(b) && bytes.Equal(b, t.code) {
			found = t
			break
		}
	}
	if len(w.tramps) < maxCached {
		w.tramps[w.regs.pc] = found
	}
	return found
}

// bySignal takes the registers that the kernel saved in front of a signal
// handler.
func (w *walker) bySignal(t *trampoline) bool {
	sp, ok := w.regs.get(uint64(w.file.sp))
	if !ok {
		return false
	}
	w.frame.Signal = true
	w.next, w.found = registers{}, FromSignal
	havePC := false
	for i, name := range t.order {
		size := w.core.Arch.WordSize()
		v, ok := w.pointer(sp + uint64(t.registers) + uint64(i*size))
		if !ok {
			continue
		}
		if name == w.core.Arch.PC {
			w.next.pc, havePC = w.trim(v), true
		}
		for _, r := range w.file.regs {
			if r.Name == name {
				w.next.set(uint64(r.DWARF), v)
			}
		}
	}
	return havePC
}
