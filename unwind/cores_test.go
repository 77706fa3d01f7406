package unwind_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestCoresEqualGDB holds the stacks of cores of other architectures, which
// ../testdata/regen makes under real kernels, against gdb's, frame for frame.
func TestCoresEqualGDB(t *testing.T) {
	for _, arch := range []string{"aarch64", "armhf", "ppc64le", "riscv64", "s390x"} {
		for scenario, threads := range map[string]int{"signals": 2, "vfork": 2, "null-in-handler": 1} {
			t.Run(arch+"/"+scenario, func(t *testing.T) {
				t.Parallel()
				exe, core := unpackCore(t, arch, scenario)
				theirs, ours := coretest.GDBMultiarchStacks(t, exe, core, alone...), stacks(t, exe, core)
				if len(theirs) != threads || len(ours) != threads {
					t.Errorf("%d threads, gdb has %d, and there were %d", len(ours), len(theirs), threads)
				}
				for tid, frames := range theirs {
					mine := ours[tid]
					// gdb ends in front of clone, whose symbol does not reach there.
					if last := len(frames); arch == "armhf" && last < len(mine) && frames[last-1].Name == "start_thread" {
						mine = mine[:last]
					}
					compareFrames(t, tid, mine, frames)
				}
			})
		}
		t.Run(arch+"/unborn", func(t *testing.T) {
			t.Parallel()
			exe, core := unpackCore(t, arch, "unborn")
			theirs := coretest.GDBMultiarchStacks(t, exe, core, alone...)
			if arch == "riscv64" {
				// The function has no call-frame information, and gdb has it twice.
				theirs = nil
			}
			checkUnborn(t, exe, core, theirs)
		})
	}
}

func unpackCore(t *testing.T, arch, scenario string) (exe, core string) {
	t.Helper()
	dir := t.TempDir()
	unpackAll(t, filepath.Join("testdata", "cores", arch), dir)
	return filepath.Join(dir, "exe"), filepath.Join(dir, scenario)
}

// TestUnborn makes such cores of this machine.
func TestUnborn(t *testing.T) {
	for _, flags := range [][]string{{"-O2"}, {"-O1", "-m32"}, {"-O2", "-static"}, {"-O2", "-m32", "-static"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			exe := build(t, "gcc", "stacks.c", flags...)
			core := coretest.Dump(t, exe, run("unborn"))
			checkUnborn(t, exe, core, coretest.GDBStacks(t, exe, core))
		})
	}
}

// checkUnborn, where the C library's clone3 has a name or none, wants a stack of main, in the middle of making a thread, and one of
// a thread at its first instruction, whose registers are still its parent's: gdb
// takes them, or a word of the new stack, for a caller. Where gdb's stacks are
// given, that of main must be equal.
func checkUnborn(t *testing.T, exe, core string, theirs map[int][]coretest.GDBFrame) {
	t.Helper()
	u := open(t, exe, core)
	if len(u.core.Threads) != 2 {
		t.Fatalf("%d threads, and there were 2", len(u.core.Threads))
	}
	ours := stacksOf(u)
	parent, child := u.core.Threads[0].TID, u.core.Threads[1].TID
	var names []string
	for _, f := range ours[parent] {
		names = append(names, f.function().Name)
	}
	if n := len(names); n < 4 || !slices.Equal(names[n-3:], []string{"start", "unborn", "main"}) {
		t.Errorf("the parent is in %q", names)
	}
	if frames, ok := theirs[parent]; ok {
		compareFrames(t, parent, ours[parent], frames)
	} else if theirs != nil {
		t.Errorf("gdb has no thread %d", parent)
	}
	s := u.Stack(1, 0)
	if name := u.Functions(s.Frames[0])[0].Name; len(s.Frames) != 1 || !s.Whole || name != "" && !strings.Contains(name, "clone") {
		t.Errorf("the stack of thread %d begins in %q and has %d frames: %s", child, name, len(s.Frames), s.Stop)
	}
}
