package locks_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// patched is a real core, in memory, of which a test changes bytes.
type patched struct {
	t     testing.TB
	bytes []byte
	core  *elfcore.Core
}

func patch(t testing.TB, path string) *patched {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &patched{t: t, bytes: b}
	p.core = p.read().core
	return p
}

// read reads the core as it is now.
func (p *patched) read() dead {
	p.t.Helper()
	core, err := elfcore.New(bytes.NewReader(p.bytes), int64(len(p.bytes)))
	if err != nil {
		p.t.Fatal(err)
	}
	set, err := module.Load(p.t.Context(), core, module.Config{NoHostFiles: true})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { set.Close() })
	return dead{core, nptl.Read(core, nil), set}
}

// poke changes 32 bits of memory.
func (p *patched) poke(at elfcore.Addr, value uint32) {
	p.t.Helper()
	offset, ok := p.core.Locate(at)
	if !ok {
		p.t.Fatalf("%s is not in the core", at)
	}
	p.core.ByteOrder.PutUint32(p.bytes[offset:], value)
}

// set changes a register of a thread of a 64-bit core.
func (p *patched) set(tid int, register string, value uint64) {
	p.t.Helper()
	offset, ok := p.core.Thread(tid).RegisterOffset(register)
	if !ok {
		p.t.Fatalf("thread %d has no register %s", tid, register)
	}
	p.core.ByteOrder.PutUint64(p.bytes[offset:], value)
}

// run gives the core and the truth of a scenario, run here.
func run(t *testing.T, source, scenario string) (*patched, truth) {
	t.Helper()
	c := coretest.Crash(t, coretest.Compile(t, source), coretest.Run{Args: []string{scenario}})
	return patch(t, c.Core), truthOf(t, c.Core)
}

// TestNewerCond has the condition variables of glibc 2.41: the words that waiters
// sleep on lie 8 bytes nearer to their start.
func TestNewerCond(t *testing.T) {
	p, want := run(t, "waits.c", "conds")
	for i := range want.Waits {
		w := &want.Waits[i]
		w.Futex -= 8
		word, err := p.core.Uint32(elfcore.Addr(w.Futex + 8))
		if err != nil {
			t.Fatal(err)
		}
		p.poke(elfcore.Addr(w.Futex), word)
		p.set(w.TID, "rdi", uint64(w.Futex))
	}
	d := p.read()
	lines, _ := want.lines()
	if got := described(d.core, d.analyze(), nil); !slices.Equal(got, lines) {
		t.Errorf("%q is not %q", got, lines)
	}
}

// TestOlderJoin has pthread_join as up to glibc 2.33: by FUTEX_WAIT.
func TestOlderJoin(t *testing.T) {
	p, want := run(t, "waits.c", "joins")
	for _, w := range want.Waits {
		p.set(w.TID, "rsi", wait)
	}
	d := p.read()
	lines, _ := want.lines()
	if got := described(d.core, d.analyze(), nil); !slices.Equal(got, lines) {
		t.Errorf("%q is not %q", got, lines)
	}
}

// TestDumpedRobust has what kernels before 5.16 leave of robust and PI mutexes
// whose owner lives: they let go of them before they dump.
func TestDumpedRobust(t *testing.T) {
	p, want := run(t, "waits.c", "mutexes")
	for _, w := range want.Waits {
		switch w.Kind {
		case string(locks.RobustMutex):
			p.poke(elfcore.Addr(w.Object), ownerDied|waitersBit)
		case string(locks.PIMutex):
			p.poke(elfcore.Addr(w.Object), ownerDied|waitersBit|uint32(w.TID))
		}
	}
	d := p.read()
	r := d.analyze()
	if len(r.Verdicts) > 0 {
		t.Errorf("%s", summaries(r))
	}
	for _, w := range r.Waits {
		if w.OwnerTID != want.Waits[0].OwnerTID {
			t.Errorf("the owner of what thread %d waits for is %d, not %d", d.core.Threads[w.Thread].TID, w.OwnerTID, want.Waits[0].OwnerTID)
		}
	}
}

// TestWaking has threads whose word has changed: they prove nothing.
func TestWaking(t *testing.T) {
	p, want := run(t, "deadlocks.c", "deadlock")
	for _, w := range want.Waits {
		p.poke(elfcore.Addr(w.Object), 0)
	}
	d := p.read()
	r := d.analyze()
	if len(r.Verdicts) != 0 || len(r.Waits) != 0 || len(r.Waking) != len(want.Waits) {
		t.Errorf("%v, %d waking", described(d.core, r, nil), len(r.Waking))
	}
}

// TestBrokenRobustList has robust lists that lead to themselves, into nowhere, and
// to what is no robust mutex: what comes before is found, and the rest said.
func TestBrokenRobustList(t *testing.T) {
	p, want := run(t, "waits.c", "mutexes")
	var robust []elfcore.Addr
	for _, w := range want.Waits {
		if w.Kind == string(locks.RobustMutex) {
			robust = append(robust, elfcore.Addr(w.Object))
		}
	}
	const next = 32 // __list.__next of a 64-bit pthread_mutex_t; entries point to it
	newest := robust[len(robust)-1]
	pristine := slices.Clone(p.bytes)
	for name, low := range map[string]uint32{
		"cycle":     uint32(newest + next),
		"nowhere":   0x10,
		"elsewhere": uint32(elfcore.Addr(want.Waits[0].Object) + next),
	} {
		p.bytes = slices.Clone(pristine)
		p.poke(newest+next, low)
		if name == "nowhere" {
			p.poke(newest+next+4, 0)
		}
		d := p.read()
		found, err := locks.FindHeld(t.Context(), d.core, d.process, d.set, locks.HeldOptions{})
		if err != nil {
			t.Fatal(err)
		}
		listed := 0
		for _, h := range found.Mutexes {
			if h.Listed {
				listed++
			}
		}
		if len(found.BrokenLists) != 1 || listed != 1 {
			t.Errorf("%s: %d mutexes on lists, broken lists %v", name, listed, found.BrokenLists)
		}
	}
}
