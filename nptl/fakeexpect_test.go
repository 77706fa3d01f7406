package nptl_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// known is what a fake process knows of one handle, in a form that reads well
// when it differs.
type known struct {
	Pthread, List  string
	Position, TID  int
	State          nptl.State
	Owner          int // the thread's id in the core, 0 for none
	CancelHandling uint32
	Detached       any // bool, or nil
	UserStack      any
	StartRoutine   elfcore.Addr
	Stack          elfcore.Range
	Initial        bool
}

// handles is what nptl says, and what the process knows, in the order of
// libthread_db's iteration.
func (f *fake) handles() []known {
	var out []known
	for _, t := range slices.Concat(f.user, f.used) {
		k := f.describe(t)
		k.Position = len(out)
		k.List = "stack_used"
		if len(out) < len(f.user) {
			k.List = "stack_user"
		}
		k.State = f.state(t)
		if k.State == nptl.Live {
			k.Owner = t.lwp + f.outside
		}
		out = append(out, k)
	}
	return out
}

func (f *fake) describe(t *fakeThread) known {
	k := known{
		Pthread: elfcore.Addr(t.pthread).String(), TID: int(t.tid), CancelHandling: t.cancel,
		Detached: t.detached, UserStack: t.user, StartRoutine: elfcore.Addr(t.start), Initial: t.initial,
	}
	if len(f.user)+len(f.used)+len(f.cache) == 1 && t.initial {
		k.Detached = nil // its place is known by that of start_routine, which others have
	}
	if !t.initial {
		k.Stack = elfcore.Range{Start: elfcore.Addr(t.block), End: elfcore.Addr(t.block + t.size)}
	}
	return k
}

// state is what has become of a thread that is on a list.
func (f *fake) state(t *fakeThread) nptl.State {
	switch {
	case t.lwp != 0:
		return nptl.Live
	case t.cancel&exiting != 0:
		return nptl.Zombie
	case t.tid == 0:
		return nptl.Starting
	}
	return nptl.Foreign
}

// told brings nptl's handles into the same form.
func told(c *elfcore.Core, hs []*nptl.Handle) []known {
	var out []known
	for _, h := range hs {
		k := known{
			Pthread: h.Pthread.String(), List: h.List.String(), Position: h.Position, TID: h.TID, State: h.State,
			CancelHandling: h.CancelHandling, Initial: h.Initial,
		}
		if h.Owner >= 0 {
			k.Owner = c.Threads[h.Owner].TID
		}
		if h.Detached != nil {
			k.Detached = *h.Detached
		}
		if h.UserStack != nil {
			k.UserStack = *h.UserStack
		}
		if h.StartRoutine != nil {
			k.StartRoutine = *h.StartRoutine
		}
		if h.Stack != nil {
			k.Stack = h.Stack.Range
		}
		out = append(out, k)
	}
	return out
}

// wantAll holds everything that nptl says of a process against what the process
// knows of itself: handles, owners, the cache, thread pointers, and that nothing
// was left undetermined.
func (f *fake) wantAll(t *testing.T) *nptl.Process {
	t.Helper()
	c := open(t, f.core())
	p := nptl.Read(c, nil)
	if diff := cmp.Diff(f.handles(), told(c, p.Handles)); diff != "" {
		t.Errorf("handles (- as they are, + as nptl says):\n%s", diff)
	}
	f.wantCache(t, p)
	f.wantThreads(t, c, p)
	for _, l := range p.Limits {
		t.Errorf("not determined: %s", l.Text)
	}
	return p
}

func (f *fake) wantCache(t *testing.T, p *nptl.Process) {
	t.Helper()
	var want, got []string
	for _, x := range f.cache {
		want = append(want, elfcore.Addr(x.pthread).String())
	}
	for _, h := range p.Cached {
		got = append(got, h.Pthread.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cached descriptors (- as they are, + as nptl says):\n%s", diff)
	}
}

// wantThreads checks the descriptor of each LWP, and its thread pointer where
// the core or the architecture tells it.
func (f *fake) wantThreads(t *testing.T, c *elfcore.Core, p *nptl.Process) {
	t.Helper()
	for _, x := range f.threads {
		if x.lwp == 0 {
			continue
		}
		i := slices.IndexFunc(c.Threads, func(e elfcore.Thread) bool { return e.TID == x.lwp+f.outside })
		if i < 0 {
			t.Errorf("the core has no thread %d", x.lwp)
			continue
		}
		got, want := p.Threads[i], x.pthread
		pointers := !f.noPointers && f.name != armhf.name
		if !pointers && x.cancel&terminated != 0 {
			want = 0 // on no list, and nothing else leads to it
		}
		if uint64(got.Pthread) != want {
			t.Errorf("thread %d: pthread %s, should be %#x", x.lwp, got.Pthread, want)
		}
		if pointers && (uint64(got.Pointer) != x.tp || got.PointerSource != nptl.FromNote || !got.PointerProved) {
			t.Errorf("thread %d: thread pointer %s (%s, proved %v), should be %#x", x.lwp, got.Pointer, got.PointerSource, got.PointerProved, x.tp)
		}
		if leaving := got.Pthread != 0 && x.cancel&terminated != 0; got.Leaving != leaving {
			t.Errorf("thread %d: leaving %v, should be %v", x.lwp, got.Leaving, leaving)
		}
		if got.Handle >= 0 && p.Handles[got.Handle].Pthread != got.Pthread {
			t.Errorf("thread %d: handle and descriptor differ", x.lwp)
		}
	}
}
