package coretest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Run says how to run a program of testdata/programs.
type Run struct {
	// Args follow the program's name; the scenario is the first.
	Args []string
	// Env is what the environment holds beside PATH.
	Env []string
	// PIDNamespace runs it in a pid namespace of its own, not as its init.
	PIDNamespace bool
}

// Crashed is a core and what is known of it.
type Crashed struct {
	Core, Exe string
	Truth     Truth
}

// Crash runs a program until it, or a child that it forked, dumps core.
func Crash(t testing.TB, exe string, run Run) Crashed {
	t.Helper()
	core := Dump(t, exe, run)
	return Crashed{Core: core, Exe: exe, Truth: LoadTruth(t, filepath.Join(filepath.Dir(core), "truth.json"))}
}

// Dump runs a program, which need not write a truth, until it dumps core, and
// gives the path of that.
func Dump(t testing.TB, exe string, run Run) string {
	t.Helper()
	needCoresInPlace(t)
	dir := t.TempDir()
	cmd, cancel := run.command(t, exe, dir)
	defer cancel()
	said, err := cmd.CombinedOutput()
	core := onlyOtherFile(t, dir, "truth.json")
	if core == "" {
		t.Fatalf("%s left no core (%v):\n%s", strings.Join(cmd.Args, " "), err, said)
	}
	return core
}

// needCoresInPlace fails the test where the kernel hands cores to a program,
// or puts them elsewhere than in the dying process's working directory.
func needCoresInPlace(t testing.TB) {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	if pattern := strings.TrimSpace(string(b)); strings.ContainsAny(pattern, "|/") || pattern == "" {
		t.Fatalf("this test needs cores in the working directory, and kernel.core_pattern is %q: sysctl -w kernel.core_pattern=core", pattern)
	}
}

// allowCore lifts the soft limit on cores, which is 0 on most machines. The
// shell stays, so that it is the init of a pid namespace: a namespace's init
// would not die of its own signals.
const allowCore = `ulimit -c unlimited || exit 3; "$0" "$@"; exit $?`

func (r Run) command(t testing.TB, exe, dir string) (*exec.Cmd, func()) {
	t.Helper()
	path := Tool(t, "sh", "dash")
	args := append([]string{"-c", allowCore, exe}, r.Args...)
	if r.PIDNamespace {
		// A /proc of its own, since the outer one knows other ids.
		unshare := []string{"--pid", "--fork", "--mount-proc"}
		if os.Geteuid() != 0 {
			unshare = append(unshare, "--map-root-user")
		}
		args = append(append(unshare, path), args...)
		path = Tool(t, "unshare", "util-linux")
	}
	cmd, cancel := command(path, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, r.Env...)
	return cmd, cancel
}

// onlyOtherFile gives the one file in dir that is not known, whatever
// kernel.core_pattern calls it, or "" where there is none.
func onlyOtherFile(t testing.TB, dir, known string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if e.Name() != known {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	if len(found) > 1 {
		t.Fatalf("more than one core: %s", strings.Join(found, " "))
	}
	return strings.Join(found, "")
}
