package nptl_test

import (
	"testing"

	"github.com/corethreads/corethreads/nptl"
)

// busy makes a process whose threads are in every state that there is.
func busy(l libc, h home) *fake {
	f := newFake(l, h)
	f.thread()
	f.exit(f.userThread())
	f.thread().detached = true
	f.exit(f.thread())
	f.join(f.thread())
	f.detach(f.thread())
	f.detach(f.userThread())
	f.dying(f.thread())
	f.userThread()
	f.unborn(f.thread())
	f.unborn(f.userThread())
	return f
}

// TestStates reads processes of every layout, in every home that a version has,
// and compares all that is said with all that is so.
func TestStates(t *testing.T) {
	for _, l := range libcs() {
		for h, name := range homes(l) {
			t.Run(l.String()+"/"+name, func(t *testing.T) {
				busy(l, h).wantAll(t)
			})
		}
	}
}

// homes are the places where a version keeps its lists.
func homes(l libc) map[home]string {
	if l.minor <= 32 {
		return map[home]string{inLibpthread: "libpthread", cacheFirst: "libpthread, cache first"}
	}
	return map[home]string{inLoader: "loader", staticForward: "static", staticBackward: "static, cache first"}
}

// TestLayout checks the offsets and the bounds of the version that a process of
// many threads shows.
func TestLayout(t *testing.T) {
	for _, l := range libcs() {
		h := inLoader
		if l.minor <= 32 {
			h = inLibpthread
		}
		t.Run(l.String(), func(t *testing.T) {
			p := read(t, busy(l, h).core())
			want := nptl.Layout{
				Header: l.list, TID: l.tid(), RobustHead: l.robustHead, CancelHandling: l.cancelHandling,
				UserStack: l.userStack + l.stackMode, StackMode: l.stackMode != 0,
				Join: l.joinID(), JoinState: l.joinState, StackBlock: l.stackBlock, StartRoutine: l.startRoutine, PID: l.pid, Source: "inferred",
			}
			if p.Layout != want {
				t.Errorf("layout %+v, should be %+v", p.Layout, want)
			}
			if p.Libc.Kind != nptl.Glibc || p.Libc.Min > l.minor || p.Libc.Max != 0 && p.Libc.Max < l.minor {
				t.Errorf("glibc 2.%d is said to be %s, 2.%d to 2.%d (%s)", l.minor, p.Libc.Kind, p.Libc.Min, p.Libc.Max, p.Libc.Source)
			}
			if l.joinState && p.Libc.Min != 43 || l.pid != 0 && p.Libc.Max != 24 {
				t.Errorf("bounds 2.%d to 2.%d do not use joinstate or the process id", p.Libc.Min, p.Libc.Max)
			}
		})
	}
}

// TestMainExited: the initial thread's handle stays when main leaves by
// pthread_exit. Since 2.43 it keeps its id.
func TestMainExited(t *testing.T) {
	for _, l := range libcs() {
		f := newFake(l, homeOf(l))
		f.thread()
		f.exit(f.main())
		t.Run(l.String(), func(t *testing.T) { f.wantAll(t) })
	}
}

// homeOf is the usual place of a version's lists.
func homeOf(l libc) home {
	if l.minor <= 32 {
		return inLibpthread
	}
	return inLoader
}

// TestExitingWithoutID: since 2.43 a thread clears its own id before its last
// system call. It lives, and its thread pointer says whose handle it is.
func TestExitingWithoutID(t *testing.T) {
	for _, l := range libcs() {
		if !l.joinState {
			continue
		}
		f := newFake(l, inLoader)
		f.thread()
		last := f.userThread()
		f.dying(last)
		last.tid = 0
		t.Run(l.String(), func(t *testing.T) {
			f.wantAll(t)
			f.noPointers = true
			f.wantAll(t)
		})
	}
}

// TestLeavingDetached: glibc frees the descriptor of a detached thread while the
// thread still runs: it has a descriptor, but no handle.
func TestLeavingDetached(t *testing.T) {
	for _, l := range libcs() {
		f := newFake(l, homeOf(l))
		f.thread()
		for _, leaving := range []*fakeThread{f.thread(), f.userThread()} {
			lwp := leaving.lwp
			f.detach(leaving)
			leaving.lwp, leaving.tid = lwp, int32(lwp)
		}
		t.Run(l.String(), func(t *testing.T) { f.wantAll(t) })
	}
}

// TestSingleThread: a program whose libpthread never ran has the id 0 in a
// descriptor that nothing is wrong with.
func TestSingleThread(t *testing.T) {
	f := newFake(version(x8664, 31), inLibpthread)
	f.main().tid = 0
	p := f.wantAll(t)
	if got := p.Handles[0].State; got != nptl.Live {
		t.Errorf("state %q", got)
	}
	f.noPointers = true
	f.wantAll(t)
}

// TestNoThreads: a process that never touched libpthread has no list at all, and
// nothing about it is undetermined.
func TestNoThreads(t *testing.T) {
	f := newFake(version(x8664, 31), inLibpthread)
	c := f.core()
	h := f.heads()
	for _, a := range []uint64{h.user, h.used, h.cache} {
		c.Poke(a, 0)
		c.Poke(a+f.word, 0)
	}
	n := f.node(f.main())
	for at := n; at < n+0x400; at += f.word {
		c.Poke(at, 0)
	}
	p := read(t, c)
	if len(p.Handles)+len(p.Limits)+len(p.Lists) != 0 {
		t.Errorf("handles %v, lists %v, limits %v of a process without threads", p.Handles, p.Lists, p.Limits)
	}
	if uint64(p.Threads[0].Pthread) != f.main().pthread {
		t.Errorf("pthread %s, should be the thread pointer %#x", p.Threads[0].Pthread, f.main().pthread)
	}
}
