package fixup

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// withoutPointers writes a copy of a core in which the notes of its threads, but
// for the first few, have garbage for a thread pointer. It tells how many do.
func withoutPointers(t *testing.T, path string, spared int, garbage uint64) (damaged string, n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for i := spared; i < len(c.Threads); i++ {
		_, offset, ok := c.Threads[i].ThreadPointer()
		if !ok {
			continue
		}
		n++
		if c.Arch.Name == "i386" {
			c.ByteOrder.PutUint32(b[offset:], uint32(garbage))
		} else {
			c.ByteOrder.PutUint64(b[offset:], garbage)
		}
	}
	damaged = filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(damaged, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return damaged, n
}

// TestCorrectPointers takes the thread pointers out of the notes of sound cores.
// The repair must give back the very file that the kernel wrote. Where the
// thread pointer is not the descriptor, one thread must be left to show how far
// they are apart.
func TestCorrectPointers(t *testing.T) {
	healthy, err := filepath.Glob("../testdata/cores/*-healthy")
	if err != nil || len(healthy) == 0 {
		t.Fatalf("no healthy cores in testdata: %v", err)
	}
	for _, dir := range healthy {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			core, _ := coretest.Unpack(t, filepath.Base(dir))
			spared := 1
			if diagnosed(t, core).Core.Arch.Descriptor.SelfPointers {
				spared = 0
			}
			for _, garbage := range []uint64{0, 0x41, 0xffffffff_00001f80} {
				damaged, n := withoutPointers(t, core, spared, garbage)
				if n == 0 {
					continue // these cores have no thread pointer at all
				}
				fixed, plan := repair(t, damaged, Options{})
				if len(plan.Patches) != n {
					t.Fatalf("%d patches for %d thread pointers of %#x", len(plan.Patches), n, garbage)
				}
				want, err := os.ReadFile(core)
				if err != nil {
					t.Fatal(err)
				}
				mustHold(t, fixed, want)
				for _, p := range plan.Patches {
					if p.Address != 0 || !strings.Contains(p.Reason, "its descriptor shows that it was") {
						t.Errorf("the patch at offset %#x says: address %s, %s", p.Offset, p.Address, p.Reason)
					}
				}
			}
		})
	}
}

// TestGDBReadsCorrectedPointers asks gdb for fs_base, after a repair that takes
// away a zombie, too. (lldb has that register since version 18.)
func TestGDBReadsCorrectedPointers(t *testing.T) {
	crashed := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}})
	damaged, _ := withoutPointers(t, crashed.Core, 0, 0x30)
	fixed, plan := repair(t, damaged, Options{})
	living := 0
	said := coretest.GDB(t, "-ex", "file "+crashed.Exe, "-ex", "core-file "+fixed,
		"-ex", "python [(t.switch(), print('fs_base', t.ptid[1], hex(int(gdb.parse_and_eval('$fs_base'))))) for t in gdb.selected_inferior().threads()]")
	for _, thread := range crashed.Truth.Threads {
		if !thread.Lives() {
			continue
		}
		living++
		if want := fmt.Sprintf("fs_base %d %#x\n", thread.TID, uint64(thread.Pthread)); !strings.Contains(said, want) {
			t.Errorf("gdb does not say %q:\n%s", want, said)
		}
	}
	if want := living + len(crashed.Truth.Zombies); len(plan.Patches) != want {
		t.Errorf("%d patches, and should be %d", len(plan.Patches), want)
	}
	gdbViewOf(t, crashed.Exe, fixed).mustBeRight(t, crashed.Truth, nil)
}
