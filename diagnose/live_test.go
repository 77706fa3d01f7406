package diagnose_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// live are the programs of testdata/programs, and what is found in their cores
// beside the truth that they write themselves.
var live = []struct {
	source, scenario string
	verdict          diagnose.Verdict
	ids              []diagnose.ID // that must be found
}{
	{"threads.c", "single", diagnose.Healthy, nil},
	{"threads.c", "healthy", diagnose.Healthy, nil},
	{"threads.c", "zombie-user", diagnose.Misleading, []diagnose.ID{diagnose.ShadowedThread}},
	{"threads.c", "zombie-default", diagnose.Healthy, []diagnose.ID{diagnose.ZombieHandle}},
	{"threads.c", "zombies-many", diagnose.Misleading, []diagnose.ID{diagnose.ShadowedThread, diagnose.ZombieHandle}},
	{"threads.c", "detached-joined", diagnose.Healthy, nil},
	{"threads.c", "worker-crash", diagnose.Misleading, []diagnose.ID{diagnose.ShadowedThread}},
	{"threads.c", "unmapped-stack", diagnose.Misleading, []diagnose.ID{diagnose.ListBroken}},
	{"edges.c", "exit-keydtor", diagnose.Healthy, nil},
	{"edges.c", "exit-tlsdtor", diagnose.Healthy, nil},
	{"edges.c", "exit-syscall", "", nil}, // since glibc 2.43 it misleads
	{"edges.c", "starting", diagnose.Misleading, []diagnose.ID{diagnose.ShadowedThread}},
	{"edges.c", "main-exited", diagnose.Warnings, []diagnose.ID{diagnose.PhantomThread}},
	{"forks.c", "fork-child", diagnose.Healthy, nil},
	{"forks.c", "fork-child-zombie", diagnose.Misleading, []diagnose.ID{diagnose.ShadowedThread}},
	{"forks.c", "_Fork-child", diagnose.Misleading, []diagnose.ID{diagnose.ShadowedThread}},
	{"forks.c", "rawclone-child", diagnose.Misleading, []diagnose.ID{diagnose.ShadowedThread, diagnose.HandleIDMismatch}},
	{"forks.c", "rawclone-child-healthy", diagnose.Misleading, []diagnose.ID{diagnose.HandleIDMismatch}},
}

// TestLive crashes programs and compares what is said with two truths: what the
// process said of itself, and what gdb makes of the core.
func TestLive(t *testing.T) {
	exes := map[string]string{}
	for _, s := range live {
		if exes[s.source] == "" {
			exes[s.source] = coretest.Compile(t, s.source)
		}
	}
	for _, s := range live {
		t.Run(s.scenario, func(t *testing.T) {
			t.Parallel()
			r := wantTruth(t, coretest.Crash(t, exes[s.source], coretest.Run{Args: []string{s.scenario}}))
			if s.verdict != "" && r.Verdict != s.verdict {
				t.Errorf("verdict %s, should be %s: %+v", r.Verdict, s.verdict, r.Findings)
			}
			for _, id := range s.ids {
				if len(r.Find(id)) == 0 {
					t.Errorf("no %s: %+v", id, r.Findings)
				}
			}
		})
	}
}

// TestLiveBuilds does the same for other kinds of executables.
func TestLiveBuilds(t *testing.T) {
	for _, flag := range []string{"-static", "-static-pie", "-m32"} {
		for source, scenarios := range map[string][]string{
			"threads.c": {"zombie-user", "detached-joined"}, "forks.c": {"fork-child", "fork-child-zombie"},
		} {
			exe := coretest.Compile(t, source, flag)
			for _, scenario := range scenarios {
				t.Run(flag+"/"+scenario, func(t *testing.T) {
					t.Parallel()
					wantTruth(t, coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}}))
				})
			}
		}
	}
}

// TestLiveGcore does the same for cores that gdb wrote, from inside and from
// outside of a pid namespace.
func TestLiveGcore(t *testing.T) {
	exe := coretest.Compile(t, "threads.c")
	for name, namespace := range map[string]bool{"same namespace": false, "from outside": true} {
		t.Run(name, func(t *testing.T) {
			r := wantTruth(t, coretest.Gcore(t, exe, coretest.Run{Args: []string{"zombie-user"}, PIDNamespace: namespace}))
			if mismatch := r.Find(diagnose.HandleIDMismatch); namespace != (len(mismatch) == 1 && mismatch[0].Cause == "pid-namespace") {
				t.Errorf("%+v", mismatch)
			}
		})
	}
}

// wantTruth compares a core's report with what the process said and with what
// gdb shows.
func wantTruth(t *testing.T, crashed coretest.Crashed) *diagnose.Report {
	t.Helper()
	c, err := elfcore.Open(crashed.Core)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := diagnose.Core(c, nptl.Read(c, nil))
	wantOwnWords(t, c, r, crashed.Truth)
	wantGDB(t, c, r, crashed)
	return r
}

func wantOwnWords(t *testing.T, c *elfcore.Core, r *diagnose.Report, truth coretest.Truth) {
	t.Helper()
	for _, x := range truth.Threads {
		i := slices.IndexFunc(c.Threads, func(e elfcore.Thread) bool { return e.TID == x.LWP() })
		if x.Lives() && (i < 0 || uint64(r.Process.Threads[i].Pthread) != uint64(x.Pthread)) {
			t.Errorf("%s (thread %d) should have the descriptor %#x", x.Role, x.LWP(), x.Pthread)
		}
	}
	var zombies []coretest.Address
	for _, h := range r.Process.Handles {
		if h.State == nptl.Zombie {
			zombies = append(zombies, coretest.Address(h.Pthread))
		}
	}
	slices.Sort(zombies)
	want := slices.Sorted(slices.Values(truth.Zombies))
	if len(r.Find(diagnose.ListBroken)) > 0 {
		// The broken member is no handle that can be read.
		want = slices.DeleteFunc(want, func(a coretest.Address) bool { _, ok := c.Locate(elfcore.Addr(a)); return !ok })
	}
	if !slices.Equal(zombies, want) {
		t.Errorf("zombies %#x, the program said %#x", zombies, want)
	}
	shadowed := slices.Collect(maps.Values(seen(c, r).Shadows))
	if truth.ShadowedLWP == 0 && len(shadowed) > 0 || truth.ShadowedLWP != 0 && !slices.Equal(shadowed, []int{truth.ShadowedLWP}) {
		t.Errorf("shadowed threads %v, the program said %d", shadowed, truth.ShadowedLWP)
	}
}

// wantGDB compares the model with the handles that gdb itself shows, phantoms
// included.
func wantGDB(t *testing.T, c *elfcore.Core, r *diagnose.Report, crashed coretest.Crashed) {
	t.Helper()
	want := coretest.GDBHandles(t, crashed.Exe, crashed.Core)
	if r.Debugger.ThreadDebugging && len(want) == 0 {
		t.Error("gdb shows no thread with a handle")
	}
	model := seen(c, r)
	got := make(map[int]coretest.Address)
	for _, m := range []map[int]elfcore.Addr{model.Handles, model.Phantom} {
		for tid, pthread := range m {
			got[tid] = coretest.Address(pthread)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("handles by thread %#x, gdb shows %#x", got, want)
	}
}
