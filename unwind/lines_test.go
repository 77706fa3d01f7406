package unwind_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestCodeWithoutLine has a call that belongs to no line: as in gdb, the one in
// front of it counts.
func TestCodeWithoutLine(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "noline")
	coretest.Output(t, coretest.Tool(t, "rustc", "rustc"), "-g", "-O", "-C", "panic=abort", "-o", exe, filepath.Join("testdata", "noline.rs"))
	readelf := coretest.Tool(t, "readelf", "binutils")
	if lines := coretest.Output(t, readelf, "--debug-dump=decodedline", exe); !strings.Contains(strings.Join(strings.Fields(lines), " "), "noline.rs 0 0x") {
		t.Fatal("the compiler gave every instruction a line")
	}
	core := coretest.Dump(t, exe, coretest.Run{})
	ours := stacks(t, exe, core)
	for tid, frames := range coretest.GDBStacks(t, exe, core) {
		n := 1 + slices.IndexFunc(frames, func(f coretest.GDBFrame) bool { return strings.HasSuffix(f.Name, "merged") })
		if n == 0 || n > len(ours[tid]) {
			t.Fatalf("%d frames, and gdb's are %+v", len(ours[tid]), frames)
		}
		compareFrames(t, tid, ours[tid][:n], frames[:n])
	}
}
