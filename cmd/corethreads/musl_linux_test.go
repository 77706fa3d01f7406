package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// muslProgram builds a program of testdata/programs with musl.
func muslProgram(t *testing.T, source string, flags ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c"))
	args := []string{"-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", exe, filepath.Join("..", "..", "testdata", "programs", source)}
	coretest.Output(t, coretest.Tool(t, "musl-gcc", "musl-tools"), append(args, flags...)...)
	return exe
}

var muslBuilds = map[string][]string{"dynamic": nil, "static": {"-static"}, "static-pie": {"-static-pie", "-fPIE"}, "stripped": {"-static", "-s"}}

// TestMuslThreads: a thread of musl that exits leaves no handle behind, joined or
// not, so that nothing can be taken for another. That is said, and every living
// thread is found where it is.
func TestMuslThreads(t *testing.T) {
	for name, flags := range muslBuilds {
		t.Run(name, func(t *testing.T) {
			crashed := coretest.Crash(t, muslProgram(t, "threads.c", flags...), coretest.Run{Args: []string{"zombie-user"}})
			out, _ := corethreads(t, exitDone, "check", "--json", crashed.Core)
			var d told
			parseInto(t, out, &d)
			if d.Verdict != "healthy" || d.Libc.Kind != "musl" || len(d.Handles) != 0 {
				t.Errorf("%s with %s and %d handles", d.Verdict, d.Libc.Kind, len(d.Handles))
			}
			got := map[int]string{}
			for _, x := range d.Threads {
				if x.Pthread != nil {
					got[x.TID] = *x.Pthread
				}
			}
			for _, x := range crashed.Truth.Threads {
				if x.Lives() && got[x.TID] != hexOf(x.Pthread) {
					t.Errorf("%s is said to be at %q, and is at %s", x.Role, got[x.TID], hexOf(x.Pthread))
				}
			}
			text, _ := corethreads(t, exitDone, "check", crashed.Core)
			if text = strings.Join(strings.Fields(text), " "); !strings.Contains(text, "musl (a thread that exits leaves no handle)") {
				t.Errorf("check does not say so:\n%s", text)
			}
			if name == "stripped" {
				return // its thread-locals have no names
			}
			wantMuslThreadLocals(t, crashed)
		})
	}
}

func wantMuslThreadLocals(t *testing.T, crashed coretest.Crashed) {
	t.Helper()
	var d struct {
		Variables []struct {
			Name   string
			Values []struct{ Pthread, Address, Status, Bytes string }
		}
	}
	out, _ := corethreads(t, exitDone, "tls", "--json", "--exe", crashed.Exe, crashed.Core, "tls_int", "tls_u64", "tls_str")
	parseInto(t, out, &d)
	got := map[string]string{}
	for _, v := range d.Variables {
		for _, x := range v.Values {
			got[v.Name+" at "+x.Pthread] = x.Address + " " + x.Status + " " + x.Bytes
		}
	}
	for _, x := range crashed.Truth.Threads {
		for variable, v := range x.TLS {
			want := hexOf(v.Addr) + " ok " + bytesOf(t, v, false)
			if got := got[variable+" at "+hexOf(x.Pthread)]; x.Lives() && got != want {
				t.Errorf("%s of %s is %q, and was %q", variable, x.Role, got, want)
			}
		}
	}
}

// TestMuslLocks: the kinds of waits are told, though musl's plain mutexes do not
// know who holds them.
func TestMuslLocks(t *testing.T) {
	exe := muslProgram(t, "deadlocks.c")
	for scenario, want := range map[string][]string{
		"deadlock": {"mutex", "mutex", "mutex"}, "self": {"mutex"}, "join-cycle": {"join", "mutex"}, "rwlock-cycle": {"mutex", "rwlock-read"}, "once-cycle": {"mutex", "once"},
	} {
		t.Run(scenario, func(t *testing.T) {
			crashed := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}})
			out, _ := corethreads(t, exitDone, "locks", "--json", "--exe", exe, crashed.Core)
			var d struct{ Waits []struct{ Kind string } }
			parseInto(t, out, &d)
			var kinds []string
			for _, w := range d.Waits {
				kinds = append(kinds, w.Kind)
			}
			if slices.Sort(kinds); !slices.Equal(kinds, want) {
				t.Errorf("the threads wait for %v, and should for %v", kinds, want)
			}
		})
	}
}

// TestMuslDeadlock: musl does not record who holds a normal mutex, so that two
// threads that wait for each other look like two that wait for a third. Neither
// is claimed, and that it cannot be told is.
func TestMuslDeadlock(t *testing.T) {
	core := coretest.Dump(t, muslProgram(t, "deadlocks.c"), coretest.Run{Args: []string{"deadlock"}})
	out, _ := corethreads(t, exitDone, "locks", "--json", core)
	var d struct {
		Waits []struct {
			Kind       string
			OwnerState string `json:"owner_state"`
		}
		Verdicts []struct{ ID string }
		Limits   []string
	}
	parseInto(t, out, &d)
	mutexes := 0
	for _, w := range d.Waits {
		if w.Kind == "mutex" && w.OwnerState == "unknown" {
			mutexes++
		}
	}
	if mutexes != 3 || len(d.Verdicts) != 0 {
		t.Errorf("%d waits for mutexes whose owner is unknown, verdicts %v", mutexes, d.Verdicts)
	}
	if len(d.Limits) != 1 || !strings.HasPrefix(d.Limits[0], "3 threads wait for a lock of musl's") {
		t.Errorf("limits %q", d.Limits)
	}
}
