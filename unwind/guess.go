package unwind

import (
	"github.com/corethreads/corethreads/elfcore"
)

const (
	// maxScan bounds the search of the stack for a return address, nearScan
	// that for one of a call that names the frame's function, in words.
	maxScan  = 1024
	nearScan = 128
)

// maxRecord bounds the distance in bytes from the stack pointer to the record
// that a frame pointer leads to.
const maxRecord = 1 << 20

// answer is whether an address can be one that a call left, or that this cannot
// be told.
type answer uint8

const (
	unknown answer = iota
	no
	yes
)

// site is what stands in front of an address.
type site struct {
	answer
	call
}

// site looks for a call in front of an address.
func (u *Unwinder) site(pc uint64) site {
	if pc%u.abi.align != 0 || !u.executable(pc) {
		return site{answer: no}
	}
	if s, ok := u.sites[pc]; ok {
		return s
	}
	var s site
	b := make([]byte, u.abi.callSize)
	// Code at the start of a mapping has less in front of it.
	for len(b) > 1 {
		if n, err := u.set.ReadMemory(b, elfcore.Addr(pc-uint64(len(b)))); err == nil && n == len(b) {
			s = site{answer: no, call: u.abi.call(b, u.core.ByteOrder)}
			if s.is {
				s.answer = yes
			}
			break
		}
		b = b[1:]
	}
	if len(u.sites) < maxCached {
		u.sites[pc] = s
	}
	return s
}

// calls tells whether a call in front of an address is of the frame's function.
// It is unknown for calls through a pointer and through a PLT.
func (w *walker) calls(pc uint64) answer {
	s := w.site(pc)
	if s.answer != yes || !s.direct {
		return unknown
	}
	target, _, ok := w.set.Symbolize(elfcore.Addr(w.trim(pc + uint64(s.offset))))
	here, _, known := w.set.Symbolize(w.frame.Lookup())
	switch {
	case !ok || target.Size == 0 || !known:
		return unknown
	case here.Module == target.Module && here.Value == target.Value:
		return yes
	}
	return no
}

// guess finds the caller of a frame that call-frame information does not cover,
// and gives the frame's CFA, 0 for none.
func (w *walker) guess() uint64 {
	sp, ok := w.regs.get(uint64(w.file.sp))
	if !ok {
		return 0
	}
	if w.innermost {
		if cfa := w.byEntry(sp); cfa != 0 {
			return cfa
		}
		if cfa := w.byTables(FromTablesInside); cfa != 0 {
			return cfa
		}
	}
	if cfa := w.byPrologue(sp); cfa != 0 {
		return cfa
	}
	// A direct call of this very function is the best evidence. A function that
	// keeps something else in the frame pointer's register has been called
	// from below where that leads to.
	word := uint64(w.core.Arch.WordSize())
	at, framed := w.record(sp)
	near := sp + nearScan*word
	if framed {
		near = min(near, at)
	}
	if cfa := w.byScan(sp, near, yes); cfa != 0 {
		return cfa
	}
	if framed {
		if cfa := w.byPointer(at); cfa != 0 {
			return cfa
		}
	}
	return w.byScan(sp, sp+maxScan*word, no)
}

// byEntry takes the return address from where a call leaves it. That is right
// for a jump through a bad pointer, and for the first instructions of a
// function; in between, a function without call-frame information may have
// pushed another.
func (w *walker) byEntry(sp uint64) uint64 {
	lost := !w.executable(w.regs.pc)
	var pc uint64
	cfa := sp
	if w.file.link >= 0 {
		link, ok := w.regs.get(uint64(w.file.link))
		if !ok {
			return 0
		}
		pc = w.strip(link, true)
	} else {
		word, ok := w.pointer(sp)
		if !ok {
			return 0
		}
		pc = word
		cfa = sp + uint64(w.core.Arch.WordSize())
	}
	// A return address that leads into the function itself is of a call that
	// it has made.
	// Where the caller's code is not at hand, a link register that leads to
	// another module is good enough.
	called := w.site(pc).answer
	if called == no || called == unknown && (w.file.link < 0 || w.set.At(elfcore.Addr(pc)) == w.set.At(elfcore.Addr(w.regs.pc))) {
		return 0
	}
	if !lost && (w.sameFunction(pc) || w.calls(pc) == no) {
		return 0
	}
	w.caller(pc, cfa, FromEntry)
	return cfa
}

// sameFunction tells whether a return address belongs to the frame's function.
func (w *walker) sameFunction(pc uint64) bool {
	here, _, ok := w.set.Symbolize(elfcore.Addr(w.regs.pc))
	there, _, known := w.set.Symbolize(elfcore.Addr(pc - 1))
	return ok && known && here.Module == there.Module && here.Value == there.Value
}

// caller makes the registers of a caller that was guessed. What the ABI
// preserves is taken to be unchanged.
func (w *walker) caller(pc, sp uint64, found Found) {
	w.next, w.found = registers{pc: pc}, found
	for n, kept := range w.file.preserved {
		if kept && w.regs.known[n] {
			w.next.set(uint64(n), w.regs.value[n])
		}
	}
	w.next.set(uint64(w.file.sp), sp)
}

// record gives where the frame pointer leads, if that can be a frame.
func (w *walker) record(sp uint64) (uint64, bool) {
	if w.abi.frame == nil {
		return 0, false
	}
	at, ok := w.regs.get(w.abi.frame.pointer)
	return at, ok && at >= sp && at-sp <= maxRecord && at%uint64(w.core.Arch.WordSize()) == 0
}

// byPointer follows the frame pointer.
func (w *walker) byPointer(at uint64) uint64 {
	f := w.abi.frame
	previous, ok := w.pointer(at + uint64(f.previous))
	if !ok || previous != 0 && previous <= at {
		return 0
	}
	cfa, link := at+uint64(f.above), at+uint64(f.link)
	if f.linkInCaller {
		cfa, link = previous, previous+uint64(f.link)
	}
	pc, ok := w.pointer(link)
	if !ok {
		return 0
	}
	pc = w.strip(pc, true)
	// Where the code is not at hand, this is still the best guess.
	if w.site(pc).answer == no || w.calls(pc) == no {
		return 0
	}
	w.caller(pc, cfa, FromPointer)
	if !f.linkInCaller {
		w.next.set(f.pointer, previous)
	}
	return cfa
}

// byScan takes the first word from the stack pointer up to an end that a call
// has left, as the code in front of it shows; with yes, a call that names the
// frame's function. What it takes otherwise can be left over from an earlier
// call.
func (w *walker) byScan(sp, end uint64, want answer) uint64 {
	size := uint64(w.core.Arch.WordSize())
	for at := (sp + size - 1) &^ (size - 1); at < end && w.work < maxWork; at += size {
		w.work++
		word, err := w.core.Word(elfcore.Addr(at))
		if err != nil {
			return 0
		}
		pc := w.strip(word, true)
		if w.site(pc).answer == yes && (want != yes || w.calls(pc) == yes) {
			w.caller(pc, at+size, FromScan)
			return at + size
		}
	}
	return 0
}
