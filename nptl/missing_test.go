package nptl_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// judge compares what nptl says of a core from which something is missing with
// what is so: it may say less, if it says that it does not know, but nothing
// that is wrong.
func (f *fake) judge(t *testing.T, c *elfcore.Core) {
	t.Helper()
	p := nptl.Read(c, nil)
	for i, got := range p.Threads {
		at := slices.IndexFunc(f.threads, func(x *fakeThread) bool { return x.lwp == c.Threads[i].TID })
		if at < 0 {
			t.Fatalf("there never was a thread %d", c.Threads[i].TID)
		}
		if want := f.threads[at].pthread; got.Pthread != 0 && uint64(got.Pthread) != want {
			t.Errorf("thread %d: pthread %s, should be %#x", c.Threads[i].TID, got.Pthread, want)
		}
	}
	truth := f.states()
	for _, h := range p.Handles {
		want, ok := truth[uint64(h.Pthread)]
		switch {
		case !ok:
			t.Errorf("%s (%s on %s) is no handle", h.Pthread, h.State, h.List)
		case h.State != want && h.State != nptl.UnknownState:
			t.Errorf("handle %s is %s, should be %s", h.Pthread, h.State, want)
		}
	}
	if len(p.Handles) < len(truth) && len(p.Limits) == 0 {
		t.Errorf("%d of %d handles, and nothing is said to be undetermined", len(p.Handles), len(truth))
	}
}

// incomplete are processes that tests take memory from.
func incomplete() map[string]*fake {
	out := make(map[string]*fake)
	for _, l := range []libc{version(x8664, 36), version(i386, 31), version(aarch64, 43), version(armhf, 36), version(s390x, 24)} {
		for h, place := range homes(l) {
			for _, name := range []string{"busy", "fork child with a zombie", "only zombies are used", "both filled, none used"} {
				out[fmt.Sprintf("%s/%s/%s", l, place, name)] = processes[name](l, h)
			}
		}
	}
	return out
}

// TestFilteredMemory leaves out the bytes of each segment in turn, as
// coredump_filter and MADV_DONTDUMP do.
func TestFilteredMemory(t *testing.T) {
	for name, f := range incomplete() {
		whole := f.core()
		for i := range whole.Loads {
			c := f.core()
			leaveOut(c, i)
			t.Run(fmt.Sprintf("%s/%#x", name, c.Loads[i].Addr), func(t *testing.T) { f.judge(t, open(t, c)) })
		}
	}
}

// TestFilteredTogether leaves out all memory of a kind: both ends of a list can
// be missing, and all of its members.
func TestFilteredTogether(t *testing.T) {
	for name, f := range incomplete() {
		for kind, of := range map[string]func(a uint64) bool{
			"stacks of glibc's": func(a uint64) bool { return a >= f.high()+0xf0000000 && a < f.high()+0xf1000000 },
			"user stacks":       func(a uint64) bool { return a >= f.high()+0xe0000000 && a < f.high()+0xe1000000 },
			"libraries":         func(a uint64) bool { return a >= f.libpthread() && a < f.high()+0xf7e00000 },
			"anonymous memory":  func(a uint64) bool { return !f.mappedFromFile(a) },
			"files":             f.mappedFromFile,
		} {
			c := f.core()
			for i := range c.Loads {
				if of(c.Loads[i].Addr) {
					leaveOut(c, i)
				}
			}
			t.Run(name+"/"+kind, func(t *testing.T) { f.judge(t, open(t, c)) })
		}
	}
}

func (f *fake) mappedFromFile(a uint64) bool {
	return slices.ContainsFunc(f.mapped, func(m mapping) bool { return m.load.Addr == a && m.path != "" })
}

// holds tells which segment has an address.
func holds(a uint64) func(coretest.Load) bool {
	return func(l coretest.Load) bool { return l.Addr <= a && a < l.Addr+uint64(len(l.Data)) }
}

func leaveOut(c *coretest.Core, i int) {
	if l := &c.Loads[i]; l.Data != nil {
		l.MemSize, l.Data = uint64(len(l.Data)), nil
	}
}

// TestNoMemory: a core of registers alone. Only threads whose thread pointers
// are handles say so.
func TestNoMemory(t *testing.T) {
	for name, f := range incomplete() {
		c := f.core()
		for i := range c.Loads {
			leaveOut(c, i)
		}
		t.Run(name, func(t *testing.T) { f.judge(t, open(t, c)) })
		c.Loads = nil
		t.Run(name+"/no segments", func(t *testing.T) { f.judge(t, open(t, c)) })
	}
}

// TestTruncated cuts cores every few thousand bytes, in their notes and in
// their memory.
func TestTruncated(t *testing.T) {
	for name, f := range incomplete() {
		whole := f.core().Bytes()
		for cut := 0x1000; cut < len(whole); cut += 5003 {
			c, err := elfcore.New(newReader(whole[:cut]), int64(cut))
			if err != nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%#x", name, cut), func(t *testing.T) { f.judge(t, c) })
		}
	}
}

// TestNotesCut: a thread that may be among the missing notes is not said to be
// gone.
func TestNotesCut(t *testing.T) {
	f := busy(version(x8664, 36), inLoader)
	notes := f.notes()
	for n := range notes {
		c := f.core()
		c.Notes[0].Notes = append(slices.Clone(notes[:n]), coretest.Note{Name: "CORE", Type: 1, Desc: []byte{0}, ClaimDesc: 1 << 20})
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			core := open(t, c)
			if !core.NotesCut {
				t.Fatal("the notes are not cut")
			}
			f.judge(t, core)
			if !limited(nptl.Read(core, nil), nptl.NotesCut) {
				t.Error("it is not said")
			}
		})
	}
}

// TestNoThreadNotes: without any thread nothing is known to have exited but what
// says so itself.
func TestNoThreadNotes(t *testing.T) {
	f := busy(version(x8664, 36), inLoader)
	c := f.core()
	c.Notes = nil
	f.judge(t, open(t, c))
}

// TestZeroedStacks: gdb up to 17 writes stacks with guard pages of glibc 2.42
// and later as zeroes. That is no thread that is starting.
func TestZeroedStacks(t *testing.T) {
	for _, l := range []libc{version(x8664, 43), version(aarch64, 43), version(x8664, 42)} {
		f := newFake(l, inLoader)
		f.thread()
		f.exit(f.thread())
		f.exit(f.userThread())
		c := f.core()
		for i := range c.Loads {
			if a := c.Loads[i].Addr; a > f.high()+0xf0000000 && a < f.high()+0xf1000000 {
				clear(c.Loads[i].Data)
			}
		}
		p := read(t, c)
		used := p.List(nptl.StackUsed)
		if used == nil || used.End != nptl.Zeroes {
			t.Errorf("%s: stack_used is %+v, should lead to zeroes", l, used)
		}
		want := make(map[uint64]nptl.State)
		for _, x := range f.user {
			want[x.pthread] = f.state(x)
		}
		wantStates(t, p, want)
	}
}
