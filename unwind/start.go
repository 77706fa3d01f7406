package unwind

import (
	"bytes"

	"github.com/corethreads/corethreads/elfcore"
)

// starts are the functions of C libraries, loaders and Go's runtime in which a
// thread, a process or a context begins, where they have no call-frame
// information that says so.
var starts = map[string]bool{
	"_start": true, "__start": true, "_dl_start_user": true, "_start_c": true, "__start_context": true,
	"clone": true, "__clone": true, "clone3": true, "__clone3": true, "__clone2": true, "thread_start": true,
	"runtime.goexit": true, "runtime.rt0_go": true,
}

// startsThread tells whether the frame is the first of a thread. The functions
// that make threads are also those that the parent is in; in the child, the
// system call has returned 0.
func (w *walker) startsThread() bool {
	if !w.innermost && w.exitFollows() {
		return true
	}
	sym, _, ok := w.set.Symbolize(w.frame.Lookup())
	if !ok || !starts[sym.Name] {
		return false
	}
	if !w.innermost {
		return true
	}
	for _, r := range w.file.regs {
		if r.Name == w.core.Arch.Syscall.Return {
			v, ok := w.regs.get(uint64(r.DWARF))
			return ok && v == 0
		}
	}
	return false
}

// exitFollows tells whether the frame does nothing more than end the thread: a
// C library's clone, whose symbol need not reach there.
func (w *walker) exitFollows() bool {
	for _, code := range w.abi.exits {
		b := make([]byte, len(code))
		if n, err := w.set.ReadMemory(b, elfcore.Addr(w.regs.pc)); err == nil && n == len(b) && bytes.Equal(b, code) {
			return true
		}
	}
	return false
}
