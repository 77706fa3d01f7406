package locks_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
)

// builds are the kinds of program that each scenario is tried as: the layouts of
// the objects differ with the size of a word, and in a static program no file
// and no loader tells where libc is.
var builds = map[string][]string{
	"dynamic": nil,
	"static":  {"-static"},
	"32-bit":  {"-m32"},
}

// TestWaits has a thread in each wait of the C library.
func TestWaits(t *testing.T) {
	scenarios := []string{
		"mutexes", "ceiling", "mutexes-timed", "gave-up", "conds", "cond-groups", "cond-again",
		"rwlocks", "sems", "barriers", "once", "joins", "main-joins", "file-locks",
	}
	tryAll(t, "waits.c", scenarios)
}

// TestDeadlocks has threads that will never go on.
func TestDeadlocks(t *testing.T) {
	scenarios := []string{
		"deadlock", "deadlock-timed", "ring", "self", "rwlock-cycle", "join-cycle", "once-cycle", "file-cycle",
		"owner-exited", "owner-in-parent", "malloc-in-handler", "destroy-in-use",
	}
	tryAll(t, "deadlocks.c", scenarios)
}

// TestStripped has programs whose files tell little.
func TestStripped(t *testing.T) {
	exe := coretest.Compile(t, "deadlocks.c", "-s")
	for _, scenario := range []string{"deadlock", "malloc-in-handler"} {
		c := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}})
		withAndWithoutFiles(t, c.Core)
	}
}

func tryAll(t *testing.T, source string, scenarios []string) {
	for build, flags := range builds {
		exe := coretest.Compile(t, source, flags...)
		for _, scenario := range scenarios {
			t.Run(build+"/"+scenario, func(t *testing.T) {
				t.Parallel()
				c := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}})
				withAndWithoutFiles(t, c.Core)
			})
		}
	}
}

// TestBroken has objects in impossible states, and sound ones that look alike.
func TestBroken(t *testing.T) {
	scenarios := []string{
		"waiters-bit", "zeroed", "overwritten", "pi-died-before", "pi-died-while", "pi-self", "robust-died", "robust-mended",
	}
	tryAll(t, "brokenlocks.c", scenarios)
	dynamic := coretest.Compile(t, "brokenlocks.c")
	for _, scenario := range []string{"mix-1", "mix-2", "mix-3", "mix-4", "mix-5", "mix-6", "mix-7", "mix-8", "mix-9", "first-abi", "second-abi", "misaligned"} {
		t.Run("dynamic/"+scenario, func(t *testing.T) {
			t.Parallel()
			c := coretest.Crash(t, dynamic, coretest.Run{Args: []string{scenario}})
			withAndWithoutFiles(t, c.Core)
		})
	}
	narrow := coretest.Compile(t, "brokenlocks.c", "-m32")
	for _, scenario := range []string{"first-abi", "second-abi", "misaligned"} {
		t.Run("32-bit/"+scenario, func(t *testing.T) {
			t.Parallel()
			c := coretest.Crash(t, narrow, coretest.Run{Args: []string{scenario}})
			withAndWithoutFiles(t, c.Core)
		})
	}
}

// TestLoader has deadlocks through the dynamic loader's lock, and a library that
// was loaded without one.
func TestLoader(t *testing.T) {
	for build, flags := range map[string][]string{"64-bit": nil, "32-bit": {"-m32"}} {
		exe := coretest.Compile(t, "loaderlocks.c", append([]string{"-rdynamic"}, flags...)...)
		plug := coretest.Compile(t, "loaderplug.c", append([]string{"-shared", "-fPIC"}, flags...)...)
		for _, scenario := range []string{"constructor-sem", "constructor-cond", "constructor-join", "callback", "loaded"} {
			t.Run(build+"/"+scenario, func(t *testing.T) {
				t.Parallel()
				c := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}, Env: []string{"PLUGIN=" + plug}})
				withAndWithoutFiles(t, c.Core)
			})
		}
	}
}

// TestCXX has the waits of libstdc++, whose words are no objects of the C library.
func TestCXX(t *testing.T) {
	library := coretest.Compile(t, "cxxwaits.cc", "-shared", "-fPIC", "-std=c++20", "-lstdc++")
	dir, file := filepath.Split(library)
	exe := coretest.Compile(t, "cxxwaits.c", "-L"+dir, "-l:"+file, "-Wl,-rpath,"+dir)
	c := coretest.Crash(t, exe, coretest.Run{Args: []string{"cxx"}})
	withAndWithoutFiles(t, c.Core)
}

// TestGo has the idle threads of a Go program, which are in futex waits of Go's
// own and no deadlock.
func TestGo(t *testing.T) {
	dir := t.TempDir()
	exe := filepath.Join(dir, "gowaits")
	source := filepath.Join("..", "testdata", "programs", "gowaits.go")
	if out, err := exec.Command(coretest.Tool(t, "go", "golang"), "build", "-o", exe, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The program says nothing of its threads: it does not know them.
	cmd := exec.Command(coretest.Tool(t, "sh", "dash"), "-c", `ulimit -c unlimited || exit 3; "$0"; exit 0`, exe)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cores, err := filepath.Glob(filepath.Join(cmd.Dir, "*"))
	if err != nil || len(cores) != 1 {
		t.Fatalf("no core, or several: %q (%v)", cores, err)
	}
	for _, cfg := range []module.Config{{}, {NoHostFiles: true}} {
		d := open(t, cores[0], cfg)
		r := d.analyze()
		if len(r.Verdicts) > 0 {
			t.Errorf("%s", summaries(r))
		}
		if len(r.Waits) == 0 {
			t.Error("no thread is in a futex wait")
		}
		for _, w := range r.Waits {
			if w.Kind != locks.RawFutex {
				t.Errorf("thread %d waits for a %s, by %q", d.core.Threads[w.Thread].TID, w.Kind, w.Evidence())
			}
		}
	}
}
