package nptl_test

import (
	"fmt"
	"testing"

	"github.com/corethreads/corethreads/nptl"
)

// processes are what the lists can hold, each a reason to take one list for
// another.
var processes = map[string]func(libc, home) *fake{
	"main only": newFake,
	"busy":      busy,
	"empty cache": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.thread()
		f.exit(f.thread())
		return f
	},
	// No thread leads to stack_used, and none of its members lives.
	"only zombies are used": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.exit(f.thread())
		f.exit(f.thread())
		return f
	},
	"only the cache is filled": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.join(f.thread())
		f.detach(f.thread())
		return f
	},
	"both filled, none used": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.join(f.thread())
		f.exit(f.thread())
		f.exit(f.thread())
		f.exit(f.userThread())
		return f
	},
	// The thread's stack is in the cache while it is still in exit(2).
	"living thread in the cache": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.thread()
		leaving := f.thread()
		lwp := leaving.lwp
		f.detach(leaving)
		leaving.lwp, leaving.tid = lwp, int32(lwp)
		return f
	},
	"user stacks only": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.userThread()
		f.exit(f.userThread())
		return f
	},
	"main exited": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.thread()
		f.exit(f.userThread())
		f.exit(f.main())
		return f
	},
	// The cache holds the parent's zombies, which are exiting but not
	// terminated.
	"fork child": func(l libc, h home) *fake {
		f := newFake(l, h)
		me := f.thread()
		f.exit(f.thread())
		f.exit(f.thread())
		f.thread()
		f.fork(me)
		return f
	},
	"fork child with a zombie": func(l libc, h home) *fake {
		f := newFake(l, h)
		me := f.thread()
		f.exit(f.thread())
		f.join(f.thread())
		f.fork(me)
		f.exit(f.thread())
		return f
	},
	"fork child of main": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.thread()
		f.exit(f.thread())
		f.fork(f.main())
		return f
	},
	"raw fork": func(l libc, h home) *fake {
		f := newFake(l, h)
		f.thread()
		f.exit(f.userThread())
		f.rawFork()
		return f
	},
}

// everyProcess runs a test for processes of all kinds on architectures of all
// kinds: words of 32 and 64 bits, both byte orders, thread pointers in front of
// struct pthread, behind it, and not in the core at all.
func everyProcess(t *testing.T, test func(t *testing.T, f *fake)) {
	for _, l := range []libc{
		version(x8664, 31), version(x8664, 42), version(i386, 31), version(aarch64, 24), version(armhf, 36),
		version(riscv64, 43), version(ppc64le, 36), version(s390x, 43),
	} {
		for h, place := range homes(l) {
			for name, make := range processes {
				f := make(l, h)
				t.Run(fmt.Sprintf("%s/%s/%s", l, place, name), func(t *testing.T) { test(t, f) })
			}
		}
	}
}

// TestRoles: no list is taken for another, so that nothing in the cache becomes
// a handle.
func TestRoles(t *testing.T) {
	everyProcess(t, func(t *testing.T, f *fake) { f.wantAll(t) })
}

// TestTakenAway: each of the notes may be missing, or all of them, and nothing
// that is said changes.
func TestTakenAway(t *testing.T) {
	everyProcess(t, func(t *testing.T, f *fake) {
		for _, take := range []func(){
			func() { f.noFile = true },
			func() { f.noAuxv = true },
			func() { f.noFile = false },
			func() { f.noFile, f.noPointers = true, true },
		} {
			take()
			f.wantAll(t)
		}
	})
}

// TestOtherNamespace: ids in the notes that are those of another pid namespace,
// so that a thread's id names another thread's handle, lead to no wrong owner,
// with thread pointers or without.
func TestOtherNamespace(t *testing.T) {
	everyProcess(t, func(t *testing.T, f *fake) {
		for _, f.outside = range []int{1, 100000} {
			f.noPointers = false
			f.wantAll(t)
			f.noPointers = true
			f.wantAll(t)
		}
	})
}

// TestNoProcessNote: the roles need no NT_PRPSINFO.
func TestNoProcessNote(t *testing.T) {
	f := busy(version(x8664, 36), inLoader)
	f.noProcess = true
	f.wantAll(t)
}

// TestKinds checks that the lists say where they are and what they are.
func TestKinds(t *testing.T) {
	for _, l := range []libc{version(x8664, 31), version(x8664, 36)} {
		for h, place := range homes(l) {
			f := busy(l, h)
			p := read(t, f.core())
			want := f.heads()
			for kind, head := range map[nptl.ListKind]uint64{nptl.StackUser: want.user, nptl.StackUsed: want.used, nptl.StackCache: want.cache} {
				list := p.List(kind)
				if list == nil || uint64(list.Head) != head || list.End != nptl.Closed || list.Why == "" {
					t.Errorf("%s in %s: %+v, should have its head at %#x", kind, place, list, head)
				}
			}
		}
	}
}
