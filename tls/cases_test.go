package tls_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/tls"
)

// verdict is what a variable of a thread came to, the best first. Untouched
// ones have no block, or their initial value where the block is static.
type verdict int

const (
	right verdict = iota
	unseen
	untouched
	initial
	wrong
	undecided
	verdicts
)

// tally counts verdicts.
type tally [verdicts]int

func (s tally) String() string {
	return fmt.Sprintf("%d right, %d right but not dumped, %d untouched, %d with the initial value, %d undecided, %d wrong",
		s[right], s[unseen], s[untouched], s[initial], s[undecided], s[wrong])
}

// TestCases looks at cores of many versions and architectures with known truth,
// where they are beside this repository: with all files, with the program's
// alone, and with none. Where a variable is in its block is taken from the files
// in every case; the blocks must be found without. No address may be wrong.
func TestCases(t *testing.T) {
	root := filepath.Join("..", "..", "shared", "cases")
	truths, err := filepath.Glob(filepath.Join(root, "*", "*", "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(truths) == 0 {
		t.Skip("NOT RUN: there are no cases in " + root)
	}
	var all [3]tally
	for _, path := range truths {
		for i, s := range judgeCase(t, root, filepath.Dir(path)) {
			for v, n := range s {
				all[i][v] += n
			}
			if s[wrong] > 0 {
				t.Errorf("%s: %d addresses are wrong (%s)", path, s[wrong], [3]string{"all files", "program only", "no file"}[i])
			}
		}
	}
	for i, mode := range []string{"all files", "program only", "no file"} {
		t.Logf("%s: %s", mode, all[i])
	}
	if all[2][right] < all[0][right]*9/10 {
		t.Errorf("without files only %d of %d are found", all[2][right], all[0][right])
	}
}

func judgeCase(t *testing.T, root, dir string) (out [3]tally) {
	set, tmp := filepath.Base(filepath.Dir(dir)), t.TempDir()
	var exe string
	for _, from := range []string{dir, filepath.Join(root, "libs", set)} {
		packed, _ := filepath.Glob(filepath.Join(from, "*.zst"))
		for _, path := range packed {
			if to := coretest.Unzstd(t, path, tmp); filepath.Base(to) == "exe" {
				exe = to
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth coretest.Truth
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatal(err)
	}
	c, err := elfcore.Open(filepath.Join(tmp, "core"))
	if err != nil {
		if strings.Contains(dir, "truncated") {
			return out
		}
		t.Fatal(err)
	}
	defer c.Close()
	p := nptl.Read(c, nil)
	var named *dead
	for i, cfg := range []module.Config{
		{NoHostFiles: true, Exe: exe, LibDirs: []string{tmp}},
		{NoHostFiles: true, Exe: exe},
		{NoHostFiles: true},
	} {
		set, err := module.Load(t.Context(), c, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		r := tls.New(c, p, set)
		d := &dead{core: c, process: p, set: set, resolver: r, vars: r.Variables()}
		if named == nil {
			named = d
		}
		out[i] = judgeTruth(t, d, named, truth)
	}
	return out
}

// judgeTruth compares the threads of a core with the truth. The variables are
// those of named, in the modules that d has.
func judgeTruth(t *testing.T, d, named *dead, truth coretest.Truth) (s tally) {
	threads := make(map[string]tls.Thread)
	for _, x := range d.resolver.Threads() {
		key := x.Pthread.String()
		if x.LWP >= 0 {
			key = fmt.Sprint(d.core.Threads[x.LWP].TID)
		}
		threads[key] = x
	}
	modules := make(map[elfcore.Addr]*tls.Module)
	for _, m := range d.resolver.Modules() {
		modules[m.LinkMap] = m
	}
	for _, w := range truth.Threads {
		if !w.Lives() && w.State != "zombie" || w.Pthread == 0 {
			continue
		}
		for name, want := range w.TLS {
			if want.Addr == 0 && want.Size == 0 || strings.ContainsAny(name, ".>") {
				continue // of another kind of truth; members
			}
			vars, err := named.resolver.Find(named.vars, name)
			if err != nil {
				t.Fatal(err)
			}
			// Of several variables of the name, one must be it.
			best := undecided
			for _, v := range vars {
				key := elfcore.Addr(w.Pthread).String()
				if w.Lives() {
					key = fmt.Sprint(w.LWP())
				}
				thread, ok := threads[key]
				m := modules[v.Module.LinkMap]
				if ok && m != nil {
					v.Module = m
					best = min(best, d.judgeValue(t, d.resolver.Value(thread, &v), want))
				}
			}
			if best == wrong {
				t.Logf("%s %s of %s", truth.Scenario, name, w.Role)
			}
			s[best]++
		}
	}
	return s
}

func (d *dead) judgeValue(t *testing.T, got tls.Value, want coretest.TruthTLS) verdict {
	switch {
	case got.Status == tls.NotAllocated && want.Addr == 0:
		return untouched
	case got.Status == tls.NotAllocated:
		return wrong
	case got.Status == tls.OK && want.Addr == 0 && d.number(got.Bytes) == wantNumber(t, want.Value, want.Size):
		return initial
	case got.Address != 0 && got.Address != elfcore.Addr(want.Addr):
		return wrong
	case got.Status == tls.OK:
		return right
	case got.Address != 0:
		return unseen
	}
	return undecided
}
