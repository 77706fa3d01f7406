package unwind_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
)

// alone keeps gdb from this machine's files.
var alone = []string{"set auto-load no", "set libthread-db-search-path /nonexistent", "set sysroot /nonexistent", "set debug-file-directory /nonexistent"}

// endsEarly are cases in which gdb does not get to the end of every stack, though
// what it shows is right: it has no symbol for start_thread of a stripped C
// library without call-frame information, cannot read the registers of all cores
// of qemu-user, and ends at a main of Rust's.
var endsEarly = []string{"armhf-2.36/", "riscv64-2.36/", "quser-s390x-2.36/", "amd64-2.36/rust"}

// goesAstray are cases in which gdb takes arbitrary words for frames behind a
// function that it does not know: where the memory or the file that says more is
// missing, the code has no call-frame information, or the stack was changed.
var goesAstray = []string{"amd64-2.36/filter-0x", "amd64-2.36/truncated-", "amd64-2.36/go-cgo", "amd64-musl/", "quser-arm64-2.36/"}

// TestCasesEqualGDB holds the stacks of all cores beside the project, of all
// architectures, against gdb's, frame for frame. Those without a program are
// left out: gdb then finds no library.
func TestCasesEqualGDB(t *testing.T) {
	dir := filepath.Join("..", "..", "shared", "cases")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("NOT RUN: there is no ../shared/cases beside the project")
	}
	programs, err := filepath.Glob(filepath.Join(dir, "*", "*", "exe.zst"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	libs := make(map[string]string)
	var mu sync.Mutex
	whole, early, astray := 0, 0, 0
	t.Run("all", func(t *testing.T) {
		for _, program := range programs {
			packed := filepath.Dir(program)
			set := filepath.Base(filepath.Dir(packed))
			if libs[set] == "" {
				libs[set] = filepath.Join(root, set)
				unpackAll(t, filepath.Join(dir, "libs", set), libs[set])
			}
			name := set + "/" + filepath.Base(packed)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				here := t.TempDir()
				unpackAll(t, packed, here)
				exe, core := filepath.Join(here, "exe"), filepath.Join(here, "core")
				theirs := coretest.GDBMultiarchStacks(t, exe, core, append(slices.Clone(alone), "set solib-search-path "+here+":"+libs[set])...)
				ours := stacksOf(openWith(t, core, module.Config{Exe: exe, LibDirs: []string{here, libs[set]}, NoHostFiles: true}))
				isOne := func(of []string) bool {
					return slices.ContainsFunc(of, func(s string) bool { return strings.HasPrefix(name, s) })
				}
				mu.Lock()
				defer mu.Unlock()
				for tid, frames := range theirs {
					shown, mine := onStack(frames), ours[tid]
					switch {
					case differences(mine, frames) == nil:
						whole++
						continue
					case isOne(endsEarly):
						early++
					case isOne(goesAstray):
						shown = known(shown)
						astray++
					}
					if isOne(endsEarly) || isOne(goesAstray) {
						mine = mine[:min(len(shown), len(mine))]
					}
					compareFrames(t, tid, mine, shown)
				}
			})
		}
	})
	t.Logf("%d stacks are equal, of %d gdb shows the first frames, of %d those that have a name", whole, early, astray)
	if whole < 2000 {
		t.Errorf("only %d stacks are equal to gdb's", whole)
	}
}

// known are the frames in front of the first that gdb has no name for.
func known(frames []coretest.GDBFrame) []coretest.GDBFrame {
	for i, f := range frames {
		if f.Name == "" {
			return frames[:i]
		}
	}
	return frames
}

// unpackAll unpacks all files of a folder into another.
func unpackAll(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.zst"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		coretest.Output(t, coretest.Tool(t, "zstd", "zstd"), "-dqf", "--sparse", f, "-o", filepath.Join(to, strings.TrimSuffix(filepath.Base(f), ".zst")))
	}
}
