package coretest_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// scenarios are those of testdata/programs. Where the program says that a
// thread is shadowed, shadowing is whose handle gdb takes for it; refused is
// why gdb, which then reads no thread-locals at all, says that it cannot.
var scenarios = []struct{ source, name, shadowing, refused string }{
	{source: "threads.c", name: "single"},
	{source: "threads.c", name: "healthy"},
	{source: "threads.c", name: "zombie-user", shadowing: "zombie-0"},
	{source: "threads.c", name: "zombie-default"},
	{source: "threads.c", name: "zombies-many", shadowing: "zombie-39"},
	{source: "threads.c", name: "detached-joined"},
	{source: "threads.c", name: "worker-crash", shadowing: "zombie-0"},
	{source: "threads.c", name: "unmapped-stack", refused: "Cannot find thread-local variables on this target"},
	{source: "threads.c", name: "undumped-stack", refused: "Cannot find thread-local variables on this target"},
	{source: "edges.c", name: "exit-keydtor"},
	{source: "edges.c", name: "exit-tlsdtor"},
	{source: "edges.c", name: "exit-syscall", shadowing: "exiting"}, // by glibc's version
	{source: "edges.c", name: "starting", shadowing: "starting"},
	{source: "edges.c", name: "main-exited"},
	{source: "forks.c", name: "fork-child"},
	{source: "forks.c", name: "fork-child-zombie", shadowing: "child-zombie"},
	{source: "forks.c", name: "_Fork-child", shadowing: "zombie-1"},
	{source: "forks.c", name: "rawclone-child", shadowing: "zombie-0"},
	{source: "forks.c", name: "rawclone-child-healthy", refused: "Cannot find user-level thread"},
}

// TestScenarios proves what the programs claim: the core has the threads that
// are said to live, and gdb is wrong about the thread that is said to be shadowed,
// in the way it is said to be, and about no other.
func TestScenarios(t *testing.T) {
	exes := map[string]string{}
	for _, s := range scenarios {
		if exes[s.source] == "" {
			exes[s.source] = coretest.Compile(t, s.source)
		}
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := coretest.Crash(t, exes[s.source], coretest.Run{Args: []string{s.name}})
			if s.shadowing != "" && c.Truth.ShadowedLWP == 0 && s.name != "exit-syscall" {
				t.Errorf("no thread is said to be shadowed by %s", s.shadowing)
			}
			judge(t, c, s.shadowing, s.refused)
		})
	}
}

// TestBuilds proves that gdb is misled in every kind of executable, and that
// lldb can read the core.
func TestBuilds(t *testing.T) {
	for _, flag := range []string{"-static", "-static-pie", "-no-pie", "-m32"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := coretest.Crash(t, coretest.Compile(t, "threads.c", flag), coretest.Run{Args: []string{"zombie-user"}})
			judge(t, c, "zombie-0", "")
			if got, want := coretest.LLDBThreads(t, c.Exe, c.Core), livingThreads(c.Truth); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				t.Errorf("lldb sees threads %v, the program said %v", got, want)
			}
		})
	}
}

// TestGcore proves that a dump of the living process has the bug as well.
func TestGcore(t *testing.T) {
	c := coretest.Gcore(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}})
	judge(t, c, "zombie-0", "")
}

// TestPIDNamespace proves that a core that the kernel writes has the ids of
// the process's own namespace.
func TestPIDNamespace(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}, PIDNamespace: true})
	if c.Truth.PID != 2 {
		t.Errorf("pid %d is not that of an init's first child", c.Truth.PID)
	}
	judge(t, c, "zombie-0", "")
}

// TestPIDNamespaceGcore proves that gdb outside of the namespace writes other
// ids than those in memory, which libthread_db then reports.
func TestPIDNamespaceGcore(t *testing.T) {
	c := coretest.Gcore(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}, PIDNamespace: true})
	if c.Truth.PID != 2 || c.Truth.OuterPID == 0 || c.Truth.ShadowedLWP != c.Truth.OuterPID {
		t.Errorf("pid %d, outside %d, shadowed %d", c.Truth.PID, c.Truth.OuterPID, c.Truth.ShadowedLWP)
	}
	wantThreads(t, c)
	handles := coretest.GDBHandles(t, c.Exe, c.Core)
	for _, thread := range c.Truth.Threads {
		if got := handles[thread.TID]; thread.Lives() && got != thread.Pthread {
			t.Errorf("gdb's handle for %s by its inner id %d is %#x, not %#x", thread.Role, thread.TID, got, thread.Pthread)
		}
	}
	if got, want := handles[c.Truth.OuterPID], c.Truth.Thread(t, "zombie-0").Pthread; got != want {
		t.Errorf("gdb's handle for the outer pid is %#x, not the zombie's %#x", got, want)
	}
}

// judge compares a core's truth with what elfutils and gdb see in it.
func judge(t *testing.T, c coretest.Crashed, shadowing, refused string) {
	wantThreads(t, c)
	values, handles := coretest.GDBThreadLocals(t, c.Exe, c.Core, "tls_int"), coretest.GDBHandles(t, c.Exe, c.Core)
	for _, thread := range c.Truth.Threads {
		if !thread.Lives() {
			continue
		}
		value, handle := values[thread.LWP()], handles[thread.LWP()]
		if refused != "" {
			if !strings.HasPrefix(value, "error: ") || !strings.Contains(value, refused) {
				t.Errorf("gdb reads %q for %s, and should say %q", value, thread.Role, refused)
			}
			continue
		}
		taken := thread
		if thread.LWP() == c.Truth.ShadowedLWP {
			taken = c.Truth.Thread(t, shadowing)
		}
		want := string(taken.TLS["tls_int"].Value)
		if taken.State == "starting" {
			want = "0" // nobody has set it yet
		}
		if value != want || handle != taken.Pthread {
			t.Errorf("for %s gdb reads %q by handle %#x, and should read %s by %s's handle %#x", thread.Role, value, handle, want, taken.Role, taken.Pthread)
		}
	}
}

// wantThreads checks that the threads said to live are those of the core.
func wantThreads(t *testing.T, c coretest.Crashed) {
	t.Helper()
	got := coreThreads(t, c.Core)
	if c.Truth.CrashTID != 0 && got[0] != c.Truth.CrashTID {
		t.Errorf("the core's first thread is %d, the program said that %d crashed", got[0], c.Truth.CrashTID)
	}
	if want := livingThreads(c.Truth); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("the core has threads %v, the program said %v", got, want)
	}
}

// livingThreads are the ids, in ascending order, of the threads said to live.
func livingThreads(truth coretest.Truth) []int {
	var ids []int
	for _, thread := range truth.Threads {
		if thread.Lives() {
			ids = append(ids, thread.LWP())
		}
	}
	slices.Sort(ids)
	return ids
}

var prstatusPID = regexp.MustCompile(`(?s)PRSTATUS.*?\bpid: (\d+),`)

// coreThreads are the ids of a core's threads as elfutils sees them.
func coreThreads(t *testing.T, core string) []int {
	t.Helper()
	var ids []int
	for _, m := range prstatusPID.FindAllStringSubmatch(coretest.Output(t, coretest.Tool(t, "eu-readelf", "elfutils"), "-n", core), -1) {
		id, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		t.Fatalf("eu-readelf sees no thread in %s", core)
	}
	return ids
}
