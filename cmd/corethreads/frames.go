package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/unwind"
)

// mostFrames is how far up a stack the first frame of the program's own code is
// looked for.
const mostFrames = 64

// libcNames are how the files of C libraries, loaders and vDSOs begin.
var libcNames = []string{"libc.so", "libc-2.", "libpthread", "ld-linux", "ld-2.", "ld64.so", "ld.so", "ld-musl", "libc.musl", "linux-vdso", "linux-gate"}

// isLibc tells whether a module is part of the C library.
func isLibc(m *module.Module) bool {
	if m == nil || m.IsLoader || m.IsVDSO {
		return m != nil
	}
	name := path.Base(m.String())
	for _, prefix := range libcNames {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// headers are where the headers of compilers and libraries are. What they define
// is everybody's, and says little of where a program was.
var headers = []string{"/usr/include/", "/usr/lib/", "/usr/local/include/", "/rustc/"}

// inHeader tells whether a function is of a header of a compiler or a library.
func inHeader(fn *unwind.Function) bool {
	return slices.ContainsFunc(headers, func(dir string) bool { return strings.HasPrefix(fn.File, dir) })
}

// frameFunctions are the functions of a frame as gdb shows them: of a jump from
// inlined code, only where in the source it is.
func frameFunctions(u *unwind.Unwinder, f unwind.Frame) []unwind.Function {
	fns := u.Functions(f)
	if f.Found != unwind.FromTailCall {
		return fns
	}
	inner := fns[0]
	inner.Inlined = false
	return []unwind.Function{inner}
}

// ownFrames gives a thread's functions from the first that is not the C library's,
// at most n, in words. Of those that were inlined, it leaves out what is defined
// in headers of others: std::mutex::lock says nothing new of who waits.
func (l *loaded) ownFrames(u *unwind.Unwinder, thread, n int) []string {
	frames := u.WithTailCalls(u.Stack(thread, mostFrames), 0).Frames
	for len(frames) > 0 && isLibc(l.modules.At(frames[0].Lookup())) {
		frames = frames[1:]
	}
	var out []string
	for _, f := range frames {
		if len(out) == n || isLibc(l.modules.At(f.Lookup())) {
			break
		}
		fns := frameFunctions(u, f)
		own := make([]int, 0, len(fns))
		for i := range fns {
			if !inHeader(&fns[i]) {
				own = append(own, i)
			}
		}
		if len(own) == 0 {
			own = append(own, len(fns)-1)
		}
		for _, i := range own[:min(len(own), n-len(out))] {
			out = append(out, placed(f, &fns[i], fns[i].Demangled()))
		}
	}
	return out
}

// constructor names the function that the loader called to initialise a module
// which it was loading, empty for none: the outermost frame that the loader's
// own frames call, but for what the program itself called.
func (l *loaded) constructor(u *unwind.Unwinder, thread int) string {
	frames := u.Stack(thread, 0).Frames
	for i := 1; i < len(frames); i++ {
		m, caller := l.modules.At(frames[i-1].Lookup()), l.modules.At(frames[i].Lookup())
		if m == nil || isLibc(m) || caller == nil || !caller.IsLoader {
			continue
		}
		fns := u.Functions(frames[i-1])
		outer := &fns[len(fns)-1]
		return fmt.Sprintf("%s of %s", placed(frames[i-1], outer, outer.Demangled()), outer.ModuleName())
	}
	return ""
}

// placed names a function with its place: in the source, else in its module.
func placed(f unwind.Frame, fn *unwind.Function, name string) string {
	switch {
	case f.Signal:
		return "<signal handler called>"
	case fn.Module == nil:
		return strings.TrimSpace(f.PC.String() + " " + name)
	case name == "" && fn.Module.BuildID != nil && fn.Module.File == nil:
		return fmt.Sprintf("%s+%#x (build-id %s)", fn.ModuleName(), fn.ModuleOffset, fn.Module.BuildID)
	case name == "":
		return fmt.Sprintf("%s+%#x", fn.ModuleName(), fn.ModuleOffset)
	case fn.Line > 0:
		return fmt.Sprintf("%s at %s:%d", name, fn.File, fn.Line)
	case fn.HasOffset:
		return fmt.Sprintf("%s+%d from %s", name, fn.Offset, fn.ModuleName())
	}
	return fmt.Sprintf("%s from %s", name, fn.ModuleName())
}

// crash is where the process died.
type crash struct {
	thread int
	// frame is the first that is not the C library's: who called abort, and
	// not abort; function is its name by symbols, which cost little.
	frame    unwind.Frame
	function unwind.Function
	// caller is who called that, where it is no code at all.
	caller string
	// bad is a return address that leads to no code: it was written over.
	bad *elfcore.Addr
}

// findCrash walks the stack of the thread that died as far as is needed, nil
// where the core does not tell which thread that is.
func findCrash(core *elfcore.Core, set *module.Set, u *unwind.Unwinder) *crash {
	died := core.CrashThread()
	if died == nil {
		return nil
	}
	c := &crash{}
	for i := range core.Threads {
		if &core.Threads[i] == died {
			c.thread = i
		}
	}
	stack := u.Stack(c.thread, mostFrames)
	if len(stack.Frames) == 0 {
		return nil
	}
	c.frame = stack.Frames[0]
	for _, f := range stack.Frames {
		if !isLibc(set.At(f.Lookup())) {
			c.frame = f
			break
		}
	}
	c.function = u.Symbol(c.frame)
	// Behind a jump to no code, a call has left its return address; a return
	// has not.
	if first := stack.Frames[0]; set.At(first.PC) == nil && first.PC != 0 && (len(stack.Frames) == 1 || stack.Frames[1].Found != unwind.FromEntry) {
		c.bad = &first.PC
	}
	if first := stack.Frames[0]; c.bad == nil && set.At(first.PC) == nil && len(stack.Frames) > 1 {
		fn := u.Symbol(stack.Frames[1])
		c.caller = placed(stack.Frames[1], &fn, fn.Demangled())
	}
	for _, f := range stack.Frames {
		if f.BadReturn != nil && c.bad == nil {
			c.bad = f.BadReturn
		}
	}
	return c
}

// text says in words where the process died.
func (c *crash) text() string {
	out := placed(c.frame, &c.function, c.function.Demangled())
	if c.caller != "" {
		out += ", called by " + c.caller
	}
	return out
}
