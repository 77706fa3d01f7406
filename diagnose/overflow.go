package diagnose

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

const (
	sigBUS  = 7
	sigSEGV = 11
	// nearStack is how far from the stack pointer a function touches its
	// frame, in bytes: compilers probe larger frames page by page.
	nearStack = 1 << 20
)

// stackOverflows tells whether the process died because the stack of the thread
// was full: of an access near the stack pointer, in the guard below the stack
// or, for a stack without one, right below its memory.
func stackOverflows(r *Report) []Finding {
	t, s := r.Core.CrashThread(), r.Core.Signal
	if t == nil || s == nil || s.Address == nil || s.Number != sigSEGV && s.Number != sigBUS {
		return nil
	}
	sp, ok := t.SP()
	at := *s.Address
	if !ok || at > sp && at-sp > nearStack || sp > at && sp-at > nearStack {
		return nil
	}
	where := ""
	if h := r.handleOf(t); h != nil && h.Stack != nil {
		guard := elfcore.Range{Start: h.Stack.Start, End: h.Stack.Start + elfcore.Addr(h.Stack.Guard)}
		if guard.Contains(at) {
			where = fmt.Sprintf("in the guard below its stack (%s)", h.Stack.Range)
		}
	}
	if stack, ok := r.stackAbove(at); where == "" && ok && (stack.Contains(sp) || sp < stack.Start) {
		where = fmt.Sprintf("right below its stack (%s)", stack)
	}
	if where == "" {
		return nil
	}
	return []Finding{{
		ID: StackOverflow, Severity: Note,
		Summary: fmt.Sprintf("thread %d used up its stack: it died of an access to %s, %s", t.TID, at, where),
		Detail:  "A recursion that does not end, or a frame that is too large. corethreads stacks shows which.",
		TIDs:    []int{t.TID},
	}}
}

// handleOf finds the handle that a thread runs on.
func (r *Report) handleOf(t *elfcore.Thread) *nptl.Handle {
	for i := range r.Core.Threads {
		if n := r.Process.Threads[i].Handle; &r.Core.Threads[i] == t && n >= 0 {
			return r.Process.Handles[n]
		}
	}
	return nil
}

// stackAbove finds the writable memory that begins at most a page above an
// address that is in none itself.
func (r *Report) stackAbove(at elfcore.Addr) (elfcore.Range, bool) {
	if s, ok := r.Core.Segment(at); ok && (s.Readable() || s.Writable()) {
		return elfcore.Range{}, false
	}
	page := elfcore.Addr(r.Core.PageSize())
	for step := elfcore.Addr(1); step <= nearStack/page; step++ {
		up := at&^(page-1) + step*page
		if up < at {
			break
		}
		if s, ok := r.Core.Segment(up); ok && s.Writable() {
			return s.Range, true
		}
	}
	return elfcore.Range{}, false
}
