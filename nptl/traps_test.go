package nptl_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// TestInitialInLoader: with large pages the initial thread's descriptor lies in
// the loader's own data, beside the heads, and is none.
func TestInitialInLoader(t *testing.T) {
	for _, l := range []libc{version(x8664, 36), version(aarch64, 36), version(ppc64le, 43), version(s390x, 43), version(armhf, 36)} {
		t.Run(l.String(), func(t *testing.T) {
			f := busy(l, inLoader)
			f.main().pthread = f.loader() + 2*pageSize + 0x400
			f.main().tp = f.main().pthread + f.above
			f.wantAll(t)
			f = newFake(l, inLoader)
			f.main().pthread = f.loader() + 2*pageSize + 0x400
			f.main().tp = f.main().pthread + f.above
			f.wantAll(t)
		})
	}
}

// TestReusedStack: a user stack that is unmapped before its thread is joined can
// become the stack of another thread. Its descriptor is then on two lists at
// once, and the first runs over the head of the second for ever.
func TestReusedStack(t *testing.T) {
	for _, l := range []libc{version(x8664, 31), version(x8664, 36), version(aarch64, 43), version(i386, 31), version(s390x, 43)} {
		t.Run(l.String(), func(t *testing.T) {
			f := newFake(l, homeOf(l))
			f.thread()
			f.userThread()
			reused := f.userThread()
			f.userThread()
			f.thread()
			c := f.core()
			// The zombie's neighbours on stack_user still point at it.
			heads := f.heads()
			user := slices.Clone(f.user)
			f.user, reused.user = without(f.user, reused), false
			f.used = slices.Insert(f.used, 0, reused)
			f.link(c, heads.used, f.used)
			f.descriptor(c, reused)
			f.clearUserFlag(c, reused)

			p := read(t, c)
			list := p.List(nptl.StackUser)
			if list == nil || list.End != nptl.Cycle || uint64(list.At) != f.node(reused) {
				t.Fatalf("stack_user: %+v, should come to %#x twice", list, f.node(reused))
			}
			if used := p.List(nptl.StackUsed); used == nil || used.End != nptl.Closed || len(used.Nodes) != len(f.used) {
				t.Errorf("stack_used: %+v", used)
			}
			want := make(map[uint64]nptl.State)
			for _, x := range slices.Concat(user, f.used) {
				want[x.pthread] = nptl.Live
			}
			wantStates(t, p, want)
		})
	}
}

// clearUserFlag undoes the flag of a stack that the program supplied.
func (f *fake) clearUserFlag(c *coretest.Core, x *fakeThread) {
	if f.stackMode != 0 {
		c.Poke32(f.node(x)+f.stackMode, 0)
	} else {
		f.pokeByte(c, f.node(x)+f.userStack, 0)
	}
}

// TestSecondLibpthread: up to glibc 2.33 a library in another namespace
// (dlmopen) brings a libpthread of its own, which takes the initial thread into
// its stack_user as well: the list that debuggers use then never ends. That is
// said of it, and the other copy's lists are not taken for it.
func TestSecondLibpthread(t *testing.T) {
	for _, l := range []libc{version(x8664, 31), version(aarch64, 31), version(i386, 24)} {
		for i := range 4 {
			below, alone := i&1 != 0, i&2 != 0
			f := newFake(l, inLibpthread)
			if !alone { // else nothing that the first head leads to looks back
				f.userThread()
			}
			f.thread()
			first := f.heads()
			shift := uint64(0x10000)
			if below {
				shift = -shift
			}
			f.mapFile(f.libpthread()+shift, "/usr/lib/libpthread.so.0")
			c := f.core()
			second := heads{used: first.used + shift, user: first.user + shift, cache: first.cache + shift}
			f.link(c, second.used, nil)
			f.link(c, second.cache, nil)
			// Its initialisation puts the initial thread, wherever it was, on its
			// own list.
			f.link(c, second.user, []*fakeThread{f.main()})

			p := read(t, c)
			user := p.List(nptl.StackUser)
			if user == nil || uint64(user.Head) != first.user || user.End != nptl.Cycle {
				t.Errorf("%s: stack_user is %+v, should be the first one's at %#x, without end", l, user, first.user)
			}
			if used := p.List(nptl.StackUsed); used == nil || uint64(used.Head) != first.used {
				t.Errorf("%s: stack_used is %+v, should have its head at %#x", l, used, first.used)
			}
			wantStates(t, p, f.states())
		}
	}
}

// TestLoaderWithHole: another library can be mapped between text and data of
// the loader, so that neighbours in memory say nothing.
func TestLoaderWithHole(t *testing.T) {
	f := busy(version(armhf, 36), inLoader)
	for i := range f.mapped {
		if m := &f.mapped[i]; m.load.Addr == f.loader() {
			m.load.Addr -= 0x8000
		}
	}
	f.mapped = append(f.mapped, mapping{load: coretest.Load{Addr: f.loader(), Data: make([]byte, pageSize), Flags: coretest.RX}, path: "/usr/lib/libother.so"})
	c := f.core()
	note := f.abi.Auxv(coretest.AuxEntry{Type: 7, Value: f.loader() - 0x8000}, coretest.AuxEntry{Type: 9, Value: f.program()})
	for i, n := range c.Notes[0].Notes {
		if n.Type == note.Type {
			c.Notes[0].Notes[i] = note
		}
	}
	core := open(t, c)
	p := nptl.Read(core, nil)
	if diff := cmp.Diff(f.handles(), told(core, p.Handles)); diff != "" {
		t.Errorf("handles (- as they are, + as nptl says):\n%s", diff)
	}
	if l := p.List(nptl.StackUsed); l == nil || l.Place != "the loader's data" {
		t.Errorf("stack_used: %+v", l)
	}
}

// TestDeletedLibraries: the kernel adds " (deleted)" to the path of a file that
// was replaced while the process ran, as an update of libc does.
func TestDeletedLibraries(t *testing.T) {
	for _, h := range []home{inLibpthread, cacheFirst} {
		f := busy(version(x8664, 31), h)
		for i := range f.mapped {
			if f.mapped[i].path != "" {
				f.mapped[i].path += " (deleted)"
			}
		}
		p := f.wantAll(t)
		if l := p.List(nptl.StackUsed); l == nil || l.Place != "libpthread's data" {
			t.Errorf("stack_used: %+v", l)
		}
	}
}

// TestStraddlingPair: prev of one head and next of the one behind it look like a
// head whose neighbours do not look back.
func TestStraddlingPair(t *testing.T) {
	for name, f := range damaged() {
		t.Run(name, func(t *testing.T) {
			p := read(t, f.core())
			if len(p.Lists) != 3 {
				t.Errorf("%d lists: %+v", len(p.Lists), p.Lists)
			}
			// With both neighbours of a head's members damaged, the head itself
			// is loose, and the pair that straddles it still is none.
			c := f.core()
			h := f.heads()
			c.Poke(f.node(f.used[0])+f.word, nowhere)
			c.Poke(f.node(f.used[len(f.used)-1]), nowhere)
			p = read(t, c)
			for _, l := range p.Lists {
				if at := uint64(l.Head); at != h.used && at != h.user && at != h.cache {
					t.Errorf("a list at %s, where no head is", l.Head)
				}
			}
			wantStates(t, p, f.states())
		})
	}
}

// TestRowOfRows: a static program can have other list heads in front of or
// behind glibc's, empty ones among them.
func TestRowOfRows(t *testing.T) {
	for _, h := range []home{inLoader, staticForward, staticBackward} {
		for _, l := range []libc{version(x8664, 36), version(armhf, 36)} {
			f := busy(l, h)
			c := f.core()
			row := f.heads()
			for _, a := range []uint64{min(row.used, row.cacheSize) - 2*f.word, max(row.used, row.cacheSize) + 2*f.word} {
				c.Poke(a, a)
				c.Poke(a+f.word, a)
			}
			core := open(t, c)
			p := nptl.Read(core, nil)
			if diff := cmp.Diff(f.handles(), told(core, p.Handles)); diff != "" {
				t.Errorf("handles (- as they are, + as nptl says):\n%s", diff)
			}
		}
	}
}
