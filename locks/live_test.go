package locks_test

import (
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
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
