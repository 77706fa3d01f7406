package unwind

import (
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// A function that ends in a call can jump to what it calls, and then has no
// frame. Its caller still has: the debugging information tells which function
// was called there, and where that and others jump to. If that is another than
// the one that was found on the stack, those between them left by jumps.

// called is a pair of frames: where in the callee, and where it returns to.
type called struct{ callee, back elfcore.Addr }

// WithTailCalls puts the frames of functions that left by a jump into a stack,
// up to a number of frames; 0 is MaxFrames. It needs debugging information, of
// the functions around the jumps and of the others that they could have jumped
// to. Where there are several ways, only what they share at their beginnings and
// their ends is put in: that happened in any case.
func (u *Unwinder) WithTailCalls(s Stack, frames int) Stack {
	if frames <= 0 || frames > MaxFrames {
		frames = MaxFrames
	}
	var out []Frame
	for i, f := range s.Frames {
		if out != nil {
			out = append(out, f)
		}
		if i+1 == len(s.Frames) || u.work > maxWork {
			continue
		}
		left := u.tailCalls(f, s.Frames[i+1])
		if len(left) > 0 && out == nil {
			out = slices.Clone(s.Frames[:i+1])
		}
		for _, t := range left {
			t.CFA = f.CFA
			out = append(out, t)
			u.work++
		}
	}
	if out != nil {
		s.Frames = out
	}
	if len(s.Frames) > frames {
		s.Frames, s.Stop, s.Whole = s.Frames[:frames], StopEnough, false
	}
	return s
}

// tailCalls gives the frames between two, the innermost first.
func (u *Unwinder) tailCalls(callee, caller Frame) []Frame {
	if caller.Found != FromCFI || callee.Signal || callee.Found.Guessed() {
		return nil
	}
	key := called{callee.Lookup(), caller.PC}
	if known, ok := u.tails[key]; ok {
		return known
	}
	var out []Frame
	contained(func() { out = u.findTailCalls(callee, caller) })
	if len(u.tails) < maxCached {
		u.tails[key] = out
	}
	return out
}

// function finds the function of a frame.
func (u *Unwinder) function(f Frame) (described, bool) {
	m := u.set.At(f.Lookup())
	if m == nil || !m.BiasKnown {
		return described{}, false
	}
	return u.functionAt(m, fileAddress(f.Lookup(), m.Bias, u.core.Arch.WordSize()))
}

func (u *Unwinder) findTailCalls(callee, caller Frame) []Frame {
	from, ok := u.function(caller)
	if !ok || from.entry == 0 {
		return nil
	}
	calls := from.debug.callsOf(from.entry)
	if calls == nil {
		return nil
	}
	site, ok := calls.before(fileAddress(caller.PC, from.module.Bias, u.core.Arch.WordSize()))
	if !ok {
		return nil
	}
	goal, ok := u.function(callee)
	if !ok || u.plain(from, site, goal) {
		return nil
	}
	first, ok := u.target(from, site)
	if !ok || first.place == goal.place {
		return nil
	}
	w := ways{Unwinder: u, goal: goal.place, functions: make(map[place]*tailFunction)}
	var out []Frame
	for _, j := range slices.Backward(w.search(first)) {
		at := elfcore.Addr(u.trim(uint64(j.from.module.Bias) + j.site.pc))
		out = append(out, Frame{PC: at, Found: FromTailCall, exact: j.site.exact})
	}
	return out
}

// plain tells in a cheap way that there are no jumps behind a call, as behind
// most: the function on the stack has the name that is called. The symbols of
// other modules need not be read for that.
func (u *Unwinder) plain(from described, s callSite, f described) bool {
	if s.origin == 0 {
		return true
	}
	name := from.declared(s)
	return name != "" && f.hasName(name)
}
