package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// wantTold holds check and the repair of a misleading core against what its
// process wrote down, and gives the repaired core.
func wantTold(t *testing.T, crashed coretest.Crashed) (fixed string) {
	t.Helper()
	out, _ := corethreads(t, exitFindings, "check", "--json", crashed.Core)
	var d told
	parseInto(t, out, &d)
	if d.Verdict != "misleading" {
		t.Errorf("the verdict is %s", d.Verdict)
	}
	d.compare(t, crashed.Truth)
	fixed = filepath.Join(t.TempDir(), "fixed")
	corethreads(t, exitDone, "fix", crashed.Core, "-o", fixed)
	out, _ = corethreads(t, exitDone, "check", "--json", fixed)
	parseInto(t, out, &d)
	if d.Verdict != "healthy" {
		t.Errorf("after the repair the verdict is %s", d.Verdict)
	}
	return fixed
}

// wantGDBRight wants gdb to read the variable of each living thread.
func wantGDBRight(t *testing.T, crashed coretest.Crashed, fixed string) {
	t.Helper()
	values := coretest.GDBThreadLocals(t, crashed.Exe, fixed, "tls_int")
	for _, x := range crashed.Truth.Threads {
		if want := string(x.TLS["tls_int"].Value); x.Lives() && values[x.LWP()] != want {
			t.Errorf("gdb reads %q for %s, whose tls_int is %s", values[x.LWP()], x.Role, want)
		}
	}
}

// TestBuilds repairs cores of programs linked in every way. Without symbols gdb
// cannot tell threads at all.
func TestBuilds(t *testing.T) {
	for _, flags := range []string{"", "-no-pie", "-static", "-static-pie", "-s", "-static -s", "-static-pie -s", "-m32", "-m32 -static"} {
		t.Run(flags, func(t *testing.T) {
			exe := coretest.Compile(t, "threads.c", strings.Fields(flags)...)
			crashed := coretest.Crash(t, exe, coretest.Run{Args: []string{"zombie-user"}})
			fixed := wantTold(t, crashed)
			if !strings.HasSuffix(flags, "-s") {
				wantGDBRight(t, crashed, fixed)
			}
		})
	}
}

// TestOrigins repairs cores that gdb's gcore wrote of a living process, and those
// of pid namespaces: a kernel writes the ids within, gcore those without.
func TestOrigins(t *testing.T) {
	exe := coretest.Compile(t, "threads.c")
	run := coretest.Run{Args: []string{"zombie-user"}}
	inNamespace := run
	inNamespace.PIDNamespace = true
	for name, dump := range map[string]func() coretest.Crashed{
		"kernel, pid namespace": func() coretest.Crashed { return coretest.Crash(t, exe, inNamespace) },
		"gcore":                 func() coretest.Crashed { return coretest.Gcore(t, exe, run) },
		"gcore, pid namespace":  func() coretest.Crashed { return coretest.Gcore(t, exe, inNamespace) },
	} {
		t.Run(name, func(t *testing.T) {
			crashed := dump()
			wantGDBRight(t, crashed, wantTold(t, crashed))
		})
	}
}
