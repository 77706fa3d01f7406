package nptl_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// realCore is a core that a kernel or a debugger wrote, with what the process
// said of itself.
type realCore struct {
	*elfcore.Core
	truth coretest.Truth
	// own tells that it is of testdata/cores.
	own bool
}

// eachRealCore runs a test for the cores of testdata/cores, and where the larger
// collection is beside the project, for those in it that are whole and not large.
func eachRealCore(t *testing.T, test func(t *testing.T, c realCore)) {
	own := filepath.Join("..", "testdata", "cores")
	entries, err := os.ReadDir(own)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		found++
		t.Run(e.Name(), func(t *testing.T) {
			path, truth := coretest.Unpack(t, e.Name())
			test(t, realCore{openFile(t, path), truth, true})
		})
	}
	if found == 0 {
		t.Fatalf("%s has no cores", own)
	}
	more, err := filepath.Glob(filepath.Join("..", "..", "shared", "cases", "*", "*", "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range more {
		set, name := filepath.Base(filepath.Dir(filepath.Dir(path))), filepath.Base(filepath.Dir(path))
		packed := filepath.Join(filepath.Dir(path), "core.zst")
		if info, err := os.Stat(packed); err != nil || info.Size() > 200_000 || strings.HasPrefix(name, "truncated") || strings.HasPrefix(name, "filter") || strings.Contains(set, "musl") {
			continue
		}
		t.Run(set+"/"+name, func(t *testing.T) {
			test(t, realCore{openFile(t, packed), coretest.LoadTruth(t, path), false})
		})
	}
}

func openFile(t *testing.T, path string) *elfcore.Core {
	t.Helper()
	c, err := elfcore.Open(path, elfcore.WithTempDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestRealCores compares handles, owners and zombies of real cores with what the
// process said, and then damages the lists in every way that a list can be
// damaged by one word. Wherever a list breaks off, that must be seen; whatever
// libthread_db does not look at must change nothing; and no handle may become
// what it is not.
func TestRealCores(t *testing.T) {
	edited := 0
	eachRealCore(t, func(t *testing.T, c realCore) {
		if secondLibpthread(c) {
			t.Skip("NOT RUN: its list never ends")
		}
		p := nptl.Read(c.Core, nil)
		wantTruth(t, c.Core, p, c.truth)
		v := &victim{Core: c.Core, overlay: &overlay{file: c.Core}, whole: p, word: uint64(c.Arch.WordSize())}
		for _, kind := range []nptl.ListKind{nptl.StackUser, nptl.StackUsed} {
			if l := p.List(kind); l != nil && !t.Failed() {
				edited += v.edit(t, l, c.sites(len(l.Nodes)))
			}
		}
	})
	if edited < 100 {
		t.Errorf("only %d edits were made", edited)
	}
}

// secondLibpthread tells the one core of the collection whose list of threads
// is itself broken, by a second libpthread.
func secondLibpthread(c realCore) bool {
	return c.truth.Libc == "glibc 2.31" && c.truth.Scenario == "dlmopen-thread"
}

func wantTruth(t *testing.T, c *elfcore.Core, p *nptl.Process, truth coretest.Truth) {
	t.Helper()
	for _, x := range truth.Threads {
		if !x.Lives() {
			continue
		}
		i := slices.IndexFunc(c.Threads, func(e elfcore.Thread) bool { return e.TID == x.LWP() })
		if i < 0 {
			t.Errorf("the core has no thread %d (%s)", x.LWP(), x.Role)
			continue
		}
		if got := p.Threads[i].Pthread; x.Pthread != 0 && uint64(got) != uint64(x.Pthread) {
			t.Errorf("thread %d (%s): pthread %s, should be %#x", x.LWP(), x.Role, got, x.Pthread)
		}
	}
	var got []coretest.Address
	for _, h := range p.Handles {
		if h.State == nptl.Zombie {
			got = append(got, coretest.Address(h.Pthread))
		}
	}
	want := slices.Sorted(slices.Values(truth.Zombies))
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("zombies %#x, should be %#x", got, want)
	}
	for _, x := range truth.Threads {
		for _, h := range p.Handles {
			if x.Pthread != 0 && uint64(h.Pthread) == uint64(x.Pthread) && h.UserStack != nil && *h.UserStack != x.UserStack && x.State != "parent-only" {
				t.Errorf("the stack of %s is said to be the program's own: %v", x.Role, *h.UserStack)
			}
		}
	}
}
