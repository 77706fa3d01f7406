package nptl_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// TestGarbageThreadPointers: gdb's gcore writes anything where it has no thread
// pointer. None of it is believed, and the handles tell what it was.
func TestGarbageThreadPointers(t *testing.T) {
	for _, l := range libcs() {
		if l.name == armhf.name {
			continue
		}
		f := busy(l, homeOf(l))
		var living []*fakeThread
		for _, x := range f.threads {
			if x.lwp != 0 {
				living = append(living, x)
			}
		}
		truth := living[1].tp
		for name, garbage := range map[string]uint64{
			"0": 0, "0x41": 0x41, "odd": truth + 1, "a stack": living[1].sp &^ 15, "the heads": f.heads().used, "another's": living[2].tp,
		} {
			t.Run(l.String()+"/"+name, func(t *testing.T) {
				living[1].tp = garbage
				c := open(t, f.core())
				p := nptl.Read(c, nil)
				living[1].tp = truth
				for i, x := range living {
					got := p.Threads[i]
					if uint64(got.Pthread) != x.pthread {
						t.Errorf("thread %d: pthread %s, should be %#x", x.lwp, got.Pthread, x.pthread)
					}
					if uint64(got.Pointer) != x.tp || (got.PointerSource == nptl.FromNote) != (i != 1) {
						t.Errorf("thread %d: thread pointer %s (%s), should be %#x", x.lwp, got.Pointer, got.PointerSource, x.tp)
					}
				}
			})
		}
	}
}

// TestOnePointerForAll: some dumpers write the thread pointer of one thread for
// all of them. Threads that run on the stacks of the handles with their ids are
// no strangers for that.
func TestOnePointerForAll(t *testing.T) {
	for _, l := range []libc{version(x8664, 36), version(i386, 31), version(aarch64, 43)} {
		f := busy(l, homeOf(l))
		for _, whose := range []*fakeThread{f.main(), f.used[len(f.used)-1]} {
			tp := whose.tp
			for _, x := range f.threads {
				x.tp = tp
			}
			c := open(t, f.core())
			p := nptl.Read(c, nil)
			if diff := cmp.Diff(f.handles(), told(c, p.Handles)); diff != "" {
				t.Errorf("%s: handles (- as they are, + as nptl says):\n%s", l, diff)
			}
			for i, x := range p.Threads {
				if want := x.Pthread + elfcore.Addr(f.above); x.Pointer != want {
					t.Errorf("%s: thread pointer of %d is %s, should be %s", l, c.Threads[i].TID, x.Pointer, want)
				}
			}
			for _, x := range f.threads {
				x.tp = x.pthread + f.above
			}
		}
	}
}

// TestOneGoodPointerIsEnough: where the distance from struct pthread to the
// thread pointer is not fixed, one thread tells it for all, and the majority
// decides.
func TestOneGoodPointerIsEnough(t *testing.T) {
	for _, l := range []libc{version(aarch64, 36), version(ppc64le, 43), version(riscv64, 36), version(x8664, 36), version(i386, 31), version(s390x, 43)} {
		f := busy(l, homeOf(l))
		p := read(t, f.core())
		if !p.PointerKnown || p.PointerDistance != int64(l.above) {
			t.Errorf("%s: distance %#x (known %v), should be %#x", l, p.PointerDistance, p.PointerKnown, l.above)
		}
		for _, x := range f.threads[1:] {
			x.tp = 0
		}
		p = read(t, f.core())
		i := 0
		for _, x := range f.threads {
			if x.lwp == 0 {
				continue
			}
			if got := p.Threads[i]; uint64(got.Pthread) != x.pthread || uint64(got.Pointer) != x.pthread+l.above {
				t.Errorf("%s: thread %d has descriptor %s and thread pointer %s, should have %#x and %#x", l, x.lwp, got.Pthread, got.Pointer, x.pthread, x.pthread+l.above)
			}
			i++
		}
	}
}

// TestDescriptorAtStartOfMemory: the descriptor that a thread pointer leads to
// can be the first thing in its segment, as that of main in the heap of a static
// program.
func TestDescriptorAtStartOfMemory(t *testing.T) {
	for _, l := range []libc{version(aarch64, 36), version(ppc64le, 36), version(riscv64, 43)} {
		f := newFake(l, staticForward)
		f.main().pthread = f.high() + 0xf7e00000
		f.main().tp = f.main().pthread + l.above
		t.Run(l.String(), func(t *testing.T) { f.wantAll(t) })
	}
}

// rawThread is a thread that clone(2) made without libc, on the thread pointer
// of another.
func (f *fake) rawThread(like *fakeThread, lwp int) *fakeThread {
	x := &fakeThread{lwp: lwp, tp: like.tp, sp: f.high() + 0xf7e01f00, unlinked: true}
	f.threads = append(f.threads, x)
	return x
}

// TestSharedDescriptor: of several threads with one descriptor its owner is the
// one with its id, else the leader, else the one with the lowest id. The others
// have none.
func TestSharedDescriptor(t *testing.T) {
	for _, l := range []libc{version(x8664, 36), version(i386, 31), version(aarch64, 36), version(s390x, 43)} {
		t.Run(l.String(), func(t *testing.T) {
			f := newFake(l, homeOf(l))
			worker := f.thread()
			low, high := f.rawThread(worker, 400), f.rawThread(worker, 4000)
			c := open(t, f.core())
			owner := func(p *nptl.Process) int {
				t.Helper()
				found := 0
				for i, x := range p.Threads {
					if uint64(x.Pthread) == worker.pthread {
						if found != 0 {
							t.Errorf("%d and %d both own it", found, c.Threads[i].TID)
						}
						found = c.Threads[i].TID
					}
				}
				return found
			}
			if got := owner(nptl.Read(c, nil)); got != worker.lwp {
				t.Errorf("the owner is %d, should be %d, the id in it", got, worker.lwp)
			}
			worker.tid = 77777
			c = open(t, f.core())
			if got := owner(nptl.Read(c, nil)); got != low.lwp {
				t.Errorf("the owner is %d, should be %d, the lowest", got, low.lwp)
			}
			f.main().lwp, high.lwp = 4000, f.id
			c = open(t, f.core())
			if got := owner(nptl.Read(c, nil)); got != f.id {
				t.Errorf("the owner is %d, should be the leader %d", got, f.id)
			}
		})
	}
}

// TestRawThreadWithoutPointer: nothing but a thread pointer leads from a raw
// thread to a descriptor, and its id and stack belong to nobody.
func TestRawThreadWithoutPointer(t *testing.T) {
	f := newFake(version(x8664, 36), inLoader)
	f.rawThread(f.thread(), 400)
	f.noPointers = true
	p := read(t, f.core())
	if got := p.Threads[2]; got.Pthread != 0 || got.Handle >= 0 || got.PointerSource != nptl.FromNowhere {
		t.Errorf("the raw thread has %+v", got)
	}
}

// TestUnprovedDescriptor: a handle whose memory proves nothing belongs to the
// thread whose thread pointer says so.
func TestUnprovedDescriptor(t *testing.T) {
	for _, l := range []libc{version(x8664, 36), version(aarch64, 36), version(i386, 31)} {
		f := newFake(l, homeOf(l))
		x, y := f.thread(), f.thread()
		x.tid, y.tid = y.tid, x.tid // so that ids are no help
		c := f.core()
		for at := f.node(x) + 2*l.word; at < f.node(x)+0x260; at += l.word {
			c.Poke(at, 0)
		}
		c.Poke32(f.node(x)+f.tid(), uint32(x.tid))
		p := read(t, c)
		if uint64(p.Threads[1].Pthread) != x.pthread || uint64(p.Threads[2].Pthread) != y.pthread {
			t.Errorf("%s: descriptors %s and %s, should be %#x and %#x", l, p.Threads[1].Pthread, p.Threads[2].Pthread, x.pthread, y.pthread)
		}
	}
}

// TestOwnerSources: what owners are told by is said.
func TestOwnerSources(t *testing.T) {
	f := newFake(version(x8664, 36), inLoader)
	a, b := f.thread(), f.thread()
	want := func(by string, sources map[uint64]string) {
		t.Helper()
		for _, h := range read(t, f.core()).Handles {
			if got := h.OwnerSource; got != sources[uint64(h.Pthread)] {
				t.Errorf("%s: the owner of %s is told by %q, should be by %q", by, h.Pthread, got, sources[uint64(h.Pthread)])
			}
		}
	}
	want("all", map[uint64]string{f.main().pthread: "thread pointer", a.pthread: "thread pointer", b.pthread: "thread pointer"})
	f.noPointers = true
	want("no pointers", map[uint64]string{f.main().pthread: "thread id", a.pthread: "thread id", b.pthread: "thread id"})
	a.tid = 0
	want("an id lost", map[uint64]string{f.main().pthread: "thread id", a.pthread: "stack pointer", b.pthread: "thread id"})
	f.main().tid = 0
	want("main's id lost", map[uint64]string{f.main().pthread: "initial stack", a.pthread: "stack pointer", b.pthread: "thread id"})
}

// TestStackOfAnother: a thread that runs in a block of memory that another
// handle has for its stack keeps its own handle by thread pointer.
func TestStackOfAnother(t *testing.T) {
	f := newFake(version(x8664, 36), inLoader)
	a, zombie := f.thread(), f.thread()
	f.exit(zombie)
	a.sp = zombie.sp // a coroutine, say
	f.wantAll(t)
	f.noPointers = true
	p := read(t, f.core())
	for _, h := range p.Handles {
		if uint64(h.Pthread) == a.pthread && h.State == nptl.Zombie {
			t.Errorf("the living thread's handle is called a zombie")
		}
	}
}
