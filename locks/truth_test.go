package locks_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// truth is what a program of testdata/programs/waits.h says of its waits.
type truth struct {
	Waits []struct {
		TID        int              `json:"tid"`
		Kind       string           `json:"kind"`
		Object     coretest.Address `json:"object"`
		Mutex      coretest.Address `json:"mutex"`
		OwnerTID   int              `json:"owner_tid"`
		OwnerState string           `json:"owner_state"`
		Timed      bool             `json:"timed"`
		// Futex is the word that the kernel says the thread sleeps on.
		Futex coretest.Address `json:"futex"`
	} `json:"waits"`
	Verdict *struct {
		ID   string `json:"id"`
		TIDs []int  `json:"tids"`
	} `json:"verdict"`
}

func truthOf(t testing.TB, core string) truth {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(filepath.Dir(core), "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out truth
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return out
}

// anyKind is the kind of a wait of which the program does not know whether the
// process died in it.
const anyKind = "any"

// lines puts a truth in the form of described, without the threads that may or
// may not wait.
func (x truth) lines() (lines []string, unclear map[int]bool) {
	unclear = make(map[int]bool)
	for _, w := range x.Waits {
		if w.Kind == anyKind {
			unclear[w.TID] = true
		}
	}
	for _, w := range x.Waits {
		if !unclear[w.TID] {
			lines = append(lines, fmt.Sprintf("%d: %s %s mutex %s owner %d %s timed %t futex %s", w.TID, w.Kind,
				elfcore.Addr(w.Object), elfcore.Addr(w.Mutex), w.OwnerTID, w.OwnerState, w.Timed, elfcore.Addr(w.Futex)))
		}
	}
	slices.Sort(lines)
	if x.Verdict != nil {
		lines = append(lines, describeVerdict(x.Verdict.ID, x.Verdict.TIDs, unclear))
	}
	return lines, unclear
}

// describeVerdict is the same for each thread of a ring that one can begin with.
func describeVerdict(id string, tids []int, unclear map[int]bool) string {
	tids = slices.DeleteFunc(slices.Sorted(slices.Values(tids)), func(tid int) bool { return unclear[tid] })
	return fmt.Sprintf("%s %v", id, tids)
}

// described puts a report in the form of truth's lines.
func described(c *elfcore.Core, r *locks.Report, unclear map[int]bool) []string {
	var out []string
	for _, w := range r.Waits {
		if tid := c.Threads[w.Thread].TID; !unclear[tid] {
			out = append(out, fmt.Sprintf("%d: %s %s mutex %s owner %d %s timed %t futex %s", tid, w.Kind,
				w.Object, w.Mutex, w.OwnerTID, w.OwnerState, w.Timed, w.Futex.Address))
		}
	}
	slices.Sort(out)
	for _, v := range r.Verdicts {
		var tids []int
		for _, t := range v.Threads {
			tids = append(tids, c.Threads[t].TID)
		}
		out = append(out, describeVerdict(string(v.ID), tids, unclear))
	}
	return out
}

// dead is a core that has been read.
type dead struct {
	core    *elfcore.Core
	process *nptl.Process
	set     *module.Set
}

func open(t testing.TB, path string, cfg module.Config) dead {
	t.Helper()
	c, err := elfcore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	set, err := module.Load(t.Context(), c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		set.Close()
		c.Close()
	})
	return dead{c, nptl.Read(c, nil), set}
}

func (d dead) analyze() *locks.Report { return locks.Analyze(d.core, d.process, d.set) }

// withAndWithoutFiles checks a core against its truth, with the files of this
// machine and with none.
func withAndWithoutFiles(t *testing.T, core string) {
	t.Helper()
	want, unclear := truthOf(t, core).lines()
	for name, cfg := range map[string]module.Config{"with files": {}, "without files": {NoHostFiles: true}} {
		d := open(t, core, cfg)
		r := d.analyze()
		got := described(d.core, r, unclear)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got:\n\t%s\n the program's own words:\n\t%s\n verdicts: %s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"), cmp.Or(summaries(r), "none"))
		}
		for _, w := range r.Waits {
			if w.Guess {
				t.Errorf("%s: the %s of thread %d is a guess", name, w.Kind, d.core.Threads[w.Thread].TID)
			}
		}
	}
}

func summaries(r *locks.Report) string {
	var out []string
	for _, v := range r.Verdicts {
		out = append(out, fmt.Sprintf("%s [%s]: %s", v.ID, v.Confidence, v.Summary))
	}
	return strings.Join(out, "\n\t")
}
