package main

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/unwind"
)

// newStacksView walks the stacks and groups them.
func newStacksView(o *opened, g *globals, f stacksFlags, path string) *stacksView {
	v := &stacksView{opened: o, unwinder: unwind.New(o.core, o.modules), globals: g, flags: f, path: path, mains: make(map[elfcore.Addr]bool), texts: make(map[place]string)}
	v.unwinder.ReadAhead()
	known := make(map[string]*stackGroup)
	crashed := o.core.CrashThread()
	for i := range o.core.Threads {
		t := &o.core.Threads[i]
		if f.thread != 0 && t.TID != f.thread {
			continue
		}
		x := &stackGroup{threads: []int{i}, crashed: t == crashed, state: v.unwinder.State(i), stack: v.stack(i)}
		key := x.key()
		// The thread that died stays by itself: it is the one to look at.
		if same := known[key]; same != nil && !f.all && !x.crashed {
			same.threads = append(same.threads, i)
			continue
		}
		v.groups = append(v.groups, x)
		if !x.crashed {
			known[key] = x
		}
	}
	slices.SortStableFunc(v.groups, func(a, b *stackGroup) int {
		switch {
		case a.crashed != b.crashed && a.crashed:
			return -1
		case a.crashed != b.crashed:
			return 1
		}
		return len(b.threads) - len(a.threads)
	})
	for _, x := range v.groups {
		x.stack = v.cut(v.unwinder.WithTailCalls(x.stack, 0))
	}
	return v
}

// stack walks one stack, up to main.
func (v *stacksView) stack(thread int) unwind.Stack {
	s := v.unwinder.Stack(thread, v.flags.frames)
	for i, f := range s.Frames {
		if v.isMain(f) {
			s.Frames, s.Whole, s.Stop = s.Frames[:i+1], true, "main"
			break
		}
	}
	return v.cut(s)
}

// cut leaves the frames of a stack that hold as many functions as the flags ask
// for: frames are counted as gdb does, where an inlined function is one.
func (v *stacksView) cut(s unwind.Stack) unwind.Stack {
	count := 0
	for i, f := range s.Frames {
		if v.flags.frames == 0 {
			break
		}
		count += len(v.functions(f))
		if more := count > v.flags.frames || i+1 < len(s.Frames); count >= v.flags.frames && more {
			s.Frames, s.Whole, s.Stop = s.Frames[:i+1], false, unwind.StopEnough
			break
		}
	}
	return s
}

// warnings tell which files that frames are named by may be wrong ones.
func (v *stacksView) warnings() []string {
	named := make(map[*module.Module]bool)
	for _, g := range v.groups {
		for _, f := range g.stack.Frames {
			named[v.modules.At(f.Lookup())] = true
		}
	}
	var out []string
	for _, w := range v.modules.Warnings {
		if m := w.Module; m != nil && named[m] && m.File != nil && !m.File.Proof.Certain() {
			out = append(out, w.Text)
		}
	}
	return out
}

// isMain tells whether a frame is that of main. Symbols tell it where there are
// any, since debugging information is still being read.
func (v *stacksView) isMain(f unwind.Frame) bool {
	is, known := v.mains[f.Lookup()]
	if known {
		return is
	}
	if fn := v.unwinder.Symbol(f); fn.Module != nil && fn.Module == v.modules.Executable() {
		// What compilers move out of main is called main.cold, and so can be a
		// function of a program in Go.
		if fn.Name == "" || strings.HasPrefix(fn.Name, "main.") {
			fns := v.unwinder.Functions(f)
			fn = fns[len(fns)-1]
		}
		is = fn.Name == "main"
	}
	v.mains[f.Lookup()] = is
	return is
}

// shownFrame is one function of a frame.
type shownFrame struct {
	frame, function int  // their numbers in the stack and in the frame
	last            bool // of the frame's functions
	*unwind.Function
}

// shown are the functions of a stack, innermost first, as many as the flags ask
// for.
func (v *stacksView) shown(s *unwind.Stack) []shownFrame {
	var out []shownFrame
	for i, f := range s.Frames {
		fns := v.functions(f)
		for j := range fns {
			if n := v.flags.frames; n > 0 && len(out) == n {
				return out
			}
			out = append(out, shownFrame{i, j, j == len(fns)-1, &fns[j]})
		}
	}
	return out
}

// key is equal for equal stacks: the same places, found in the same way, with
// the same end.
func (g *stackGroup) key() string {
	b := make([]byte, 0, 16*len(g.stack.Frames)+64)
	for _, f := range g.stack.Frames {
		b = binary.NativeEndian.AppendUint64(b, uint64(f.PC))
		b = append(b, f.Found...)
	}
	return string(append(append(b, g.stack.Stop...), g.state...))
}

// frameRegister is one register of a frame.
type frameRegister struct {
	name  string
	value elfcore.Addr
}

// frameRegisters are those of one frame, in the architecture's order.
type frameRegisters []frameRegister

func (r frameRegisters) values() map[string]elfcore.Addr {
	out := make(map[string]elfcore.Addr)
	for _, x := range r {
		out[x.name] = x.value
	}
	return out
}

// registers are those of the frames of a group that has one thread, where the
// flags want them: threads with equal stacks still have other registers. Of
// functions that left by a jump none are known.
func (v *stacksView) registers(g *stackGroup) []frameRegisters {
	if !v.globals.verbose || len(g.threads) > 1 {
		return nil
	}
	var out []frameRegisters
	v.unwinder.Walk(g.threads[0], func(_ unwind.Frame, r unwind.Registers) bool {
		var f frameRegisters
		for name, value := range r.All() {
			f = append(f, frameRegister{name, elfcore.Addr(value)})
		}
		out = append(out, f)
		for len(out) < len(g.stack.Frames) && g.stack.Frames[len(out)].Found == unwind.FromTailCall {
			out = append(out, nil)
		}
		return len(out) < len(g.stack.Frames)
	})
	return out
}
