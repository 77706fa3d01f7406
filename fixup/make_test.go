package fixup

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// listOffset is offsetof(struct pthread, list) on x86_64, in every version of
// glibc (nptl/descr.h).
const listOffset = 0x2c0

// diagnosed reads a core by itself: no file of the process is looked for.
func diagnosed(t testing.TB, core string) *diagnose.Report {
	t.Helper()
	c, err := elfcore.Open(core)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return diagnose.Core(c, nptl.Read(c, nil))
}

// mustRefuse checks that a strategy is refused, for a reason that contains why.
func mustRefuse(t *testing.T, r *diagnose.Report, o Options, why string) *Refusal {
	t.Helper()
	plan, err := Make(r, o)
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("%s is not refused: %v, %v", o.Strategy, plan, err)
	}
	if refusal.Strategy != o.Strategy || !strings.Contains(refusal.Error(), why) {
		t.Errorf("the refusal says %q, and should say %q", refusal, why)
	}
	return refusal
}

// TestMakeRetire holds the plan for a core of each word size against what the
// process said: the zombie's tid, and nothing else, becomes −1.
func TestMakeRetire(t *testing.T) {
	for _, x := range []struct {
		core string
		tid  elfcore.Addr // offsetof(struct pthread, tid)
	}{
		{"x86_64-glibc2.36-zombie-user", 0x2d0},
		{"i386-glibc2.36-zombie-user", 0x68},
	} {
		core, truth := coretest.Unpack(t, x.core)
		plan, err := Make(diagnosed(t, core), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Patches) != 1 || plan.Strategy != "retire" {
			t.Fatalf("%s: %d patches by %s", x.core, len(plan.Patches), plan.Strategy)
		}
		p := plan.Patches[0]
		if want := elfcore.Addr(truth.Zombies[0]) + x.tid; p.Address != want || hex.EncodeToString(p.Old) != "00000000" || hex.EncodeToString(p.New) != "ffffffff" {
			t.Errorf("%s: at %s %x becomes %x; the zombie's tid is at %s", x.core, p.Address, p.Old, p.New, want)
		}
		if plan.Core.PID == nil || *plan.Core.PID != truth.PID {
			t.Errorf("%s: the plan is for pid %v, not %d", x.core, plan.Core.PID, truth.PID)
		}
	}
}

// TestMakeHealthy plans nothing for a core that misleads nobody.
func TestMakeHealthy(t *testing.T) {
	core, _ := coretest.Unpack(t, "x86_64-glibc2.36-healthy")
	for _, s := range Strategies() {
		if plan, err := Make(diagnosed(t, core), Options{Strategy: s, All: true}); err != nil || len(plan.Patches) > 0 {
			t.Errorf("%s: %v, %v", s, plan, err)
		}
	}
}

// TestMakeUnknownStrategy names the strategies that there are.
func TestMakeUnknownStrategy(t *testing.T) {
	core, _ := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	_, err := Make(diagnosed(t, core), Options{Strategy: "bury"})
	if want := `no strategy "bury"; there are retire, unlink, remap-tls, expose`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestRemapAsksForModules refuses to point a dtv anywhere where it is not known
// which modules it would have to serve.
func TestRemapAsksForModules(t *testing.T) {
	core, _ := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	r := diagnosed(t, core)
	o := Options{Strategy: RemapTLS}
	mustRefuse(t, r, o, "the modules with thread-locals are not known")
	o.StaticTLS = func() ([]TLSModule, error) { return nil, nil }
	mustRefuse(t, r, o, "no module with thread-locals was found")
	o.StaticTLS = func() ([]TLSModule, error) { return nil, errors.New("it is cut") }
	mustRefuse(t, r, o, "it is cut")
	o.StaticTLS = func() ([]TLSModule, error) { return []TLSModule{{Name: "late.so", ID: 1, Generation: 99}}, nil }
	mustRefuse(t, r, o, "the dtv has no block of late.so")
	o.StaticTLS = func() ([]TLSModule, error) { return []TLSModule{{Name: "far.so", ID: 100_000}}, nil }
	mustRefuse(t, r, o, "the dtv has no block of far.so")
}

// TestProcessID is about glibc up to 2.24, whose descriptors have the process's
// id behind the thread's, and whose libthread_db passes over those with another.
func TestProcessID(t *testing.T) {
	const tid, pid = 16, 20 // from the node on
	path, truth := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	core, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := elfcore.New(bytes.NewReader(core), int64(len(core)))
	if err != nil {
		t.Fatal(err)
	}
	setPID := func(core []byte, x coretest.TruthThread, value int) {
		at, ok := c.Locate(elfcore.Addr(x.Pthread) + listOffset + pid)
		if !ok {
			t.Fatalf("the descriptor of %s is not in the core", x.Role)
		}
		binary.LittleEndian.PutUint32(core[at:], uint32(value))
	}
	for _, x := range truth.Threads {
		setPID(core, x, truth.PID)
	}
	plan := func(core []byte, o Options) []Patch {
		c, err := elfcore.New(bytes.NewReader(core), int64(len(core)))
		if err != nil {
			t.Fatal(err)
		}
		p, err := Make(diagnose.Core(c, nptl.Read(c, nil)), o)
		if err != nil {
			t.Fatal(err)
		}
		return p.Patches
	}
	zombie, worker := truth.Thread(t, "zombie-0"), truth.Thread(t, "worker-0")
	if got := plan(core, Options{}); len(got) != 1 || got[0].Address != elfcore.Addr(zombie.Pthread)+listOffset+tid {
		t.Errorf("with the process's id everywhere: %v", got)
	}

	other := bytes.Clone(core)
	setPID(other, zombie, truth.PID+1)
	if got := plan(other, Options{}); len(got) != 0 {
		t.Errorf("libthread_db passes over the zombie, and it is repaired all the same: %v", got)
	}
	if got := plan(other, Options{All: true}); len(got) != 1 {
		t.Errorf("with --all: %v", got)
	}

	other = bytes.Clone(core)
	setPID(other, worker, truth.PID+1)
	got := plan(other, Options{})
	if len(got) != 2 {
		t.Fatalf("libthread_db passes over a living thread: %v", got)
	}
	for _, p := range got {
		if p.Address == elfcore.Addr(worker.Pthread)+listOffset+pid && binary.LittleEndian.Uint32(p.New) == uint32(truth.PID) {
			return
		}
	}
	t.Errorf("the living thread does not get the process's id: %v", got)
}

// TestMakeAnything damages the descriptors of a core in all ways at once. Make
// refuses, or makes a plan after which gdb is right, and for which there is
// nothing more to do.
func TestMakeAnything(t *testing.T) {
	path, truth := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := elfcore.New(bytes.NewReader(sound), int64(len(sound)))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []uint64
	for _, x := range truth.Threads {
		nodes = append(nodes, uint64(x.Pthread)+listOffset)
	}
	head := nptl.Read(c, nil).List(nptl.StackUser).Head
	values := append([]uint64{0, 1, uint64(head), 0x8000, 0xffffffffffffffff, uint64(truth.PID)}, nodes...)
	// next, prev, tid, cancelhandling and the dtv pointer, from the node on.
	fields := []uint64{0, 8, 16, 0x48, ^uint64(listOffset-8) + 1}

	rapid.Check(t, func(t *rapid.T) {
		core := bytes.Clone(sound)
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			a := rapid.SampledFrom(nodes).Draw(t, "node") + rapid.SampledFrom(fields).Draw(t, "field")
			if rapid.IntRange(0, 9).Draw(t, "where") == 0 {
				a = uint64(head)
			}
			at, ok := c.Locate(elfcore.Addr(a))
			if !ok {
				t.Fatalf("%#x is not in the core", a)
			}
			binary.LittleEndian.PutUint64(core[at:], rapid.SampledFrom(values).Draw(t, "value"))
		}
		o := Options{Strategy: rapid.SampledFrom(Strategies()).Draw(t, "strategy"), All: rapid.Bool().Draw(t, "all")}
		o.StaticTLS = func() ([]TLSModule, error) { return []TLSModule{{Name: "program", ID: 1}}, nil }
		damaged, err := elfcore.New(bytes.NewReader(core), int64(len(core)))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Make(diagnose.Core(damaged, nptl.Read(damaged, nil)), o)
		var refusal *Refusal
		if errors.As(err, &refusal) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		after, err := Preview(damaged, nil, plan)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range after.Findings {
			if f.Severity == diagnose.Error {
				t.Errorf("%s: %s", o.Strategy, f.Summary)
			}
		}
		if len(after.Process.Limits) > 0 {
			return // what could not be seen before may be seen now
		}
		again, err := Make(after, o)
		if err != nil || len(again.Patches) > 0 {
			t.Errorf("%s of its own output: %v, %v", o.Strategy, again, err)
		}
	})
}
