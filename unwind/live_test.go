package unwind_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/unwind"
)

// TestEqualsGDB holds the stacks of live-made cores against gdb's, frame for
// frame: addresses, functions, inlined ones among them, signal frames, and
// lines where there is debug information.
func TestEqualsGDB(t *testing.T) {
	plain := build(t, "gcc", "stacks.c", "-O2")
	unoptimized := build(t, "gcc", "stacks.c", "-O0")
	static := build(t, "gcc", "stacks.c", "-O2", "-static")
	narrow := build(t, "gcc", "stacks.c", "-O1", "-m32")
	cxx := build(t, "g++", "stacks.cc", "-O1")
	old := build(t, "gcc", "stacks.c", "-O1", "-gdwarf-4")
	for _, c := range []struct {
		name, exe, arg string
		threads        int
	}{
		{"waits", plain, "waits", 7},
		{"waits, not optimized", unoptimized, "waits", 7},
		{"waits, static", static, "waits", 7},
		{"waits, 32 bits", narrow, "waits", 7},
		{"waits, DWARF 4", old, "waits", 7},
		{"handlers on alternate stacks", plain, "signals", 2},
		{"handlers on alternate stacks, static", static, "signals", 2},
		{"handlers on alternate stacks, 32 bits", narrow, "signals", 2},
		{"a null pointer called", plain, "null", 1},
		{"a null pointer called, 32 bits", narrow, "null", 1},
		{"a null pointer called, then a handler", plain, "null-in-handler", 1},
		{"a null pointer called, then a handler, 32 bits", narrow, "null-in-handler", 1},
		{"vfork", plain, "vfork", 2},
		{"vfork, 32 bits", narrow, "vfork", 2},
		{"a thread that cannot begin", plain, "newborn", 2},
		{"vfork, static", static, "vfork", 2},
		{"an exception in a destructor", cxx, "", 4},
		{"an exception that is not caught", cxx, "throw", 4},
		{"an exception, optimized", build(t, "g++", "stacks.cc", "-O2"), "", 4},
		{"frame pointers", build(t, "gcc", "stacks.c", "-O2", "-fno-omit-frame-pointer"), "waits", 7},
		{"no position-independent code", build(t, "gcc", "stacks.c", "-O2", "-no-pie"), "signals", 2},
		{".debug_frame only", build(t, "gcc", "stacks.c", "-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"), "waits", 7},
		{"no search table", build(t, "gcc", "stacks.c", "-O2", "-Wl,--no-eh-frame-hdr"), "waits", 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			core := coretest.Dump(t, c.exe, run(c.arg))
			compare(t, c.exe, core, c.threads, nil)
		})
	}
}

// TestSeparateDebugFile finds lines and inlined functions in a debug file that
// a stripped program names, and walks without it just as far.
func TestSeparateDebugFile(t *testing.T) {
	exe := build(t, "gcc", "stacks.c", "-O2")
	debug := exe + ".debug"
	objcopy := coretest.Tool(t, "objcopy", "binutils")
	coretest.Output(t, objcopy, "--only-keep-debug", exe, debug)
	coretest.Output(t, objcopy, "--strip-all", "--add-gnu-debuglink="+debug, exe)
	core := coretest.Dump(t, exe, run("waits"))
	compare(t, exe, core, 7, func(f []unwind.Function) bool { return f[len(f)-1].Line > 0 })
	if err := os.Remove(debug); err != nil {
		t.Fatal(err)
	}
	compare(t, exe, core, 7, func(f []unwind.Function) bool { return f[len(f)-1].Line == 0 })
}

// TestPackedDebugInformation reads debug sections in all ways in which they are
// compressed, the first two of the ELF standard, the last one older.
func TestPackedDebugInformation(t *testing.T) {
	exe := build(t, "gcc", "stacks.c", "-O2")
	core := coretest.Dump(t, exe, run("waits"))
	for _, way := range []string{"zlib", "zstd", "zlib-gnu"} {
		t.Run(way, func(t *testing.T) {
			packed := filepath.Join(t.TempDir(), "stacks")
			coretest.Output(t, coretest.Tool(t, "objcopy", "binutils"), "--compress-debug-sections="+way, exe, packed)
			compare(t, packed, core, 7, func(f []unwind.Function) bool { return f[len(f)-1].Line > 0 })
		})
	}
}

// TestRustEqualsGDB compares the last part of the names only: gdb makes others
// of the parts in front of that.
func TestRustEqualsGDB(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "stacks")
	coretest.Output(t, coretest.Tool(t, "rustc", "rustc"), "-g", "-O", "-C", "panic=abort", "-o", exe, filepath.Join("testdata", "stacks.rs"))
	core := coretest.Dump(t, exe, coretest.Run{})
	compare(t, exe, core, 4, nil)
}

// TestCGOEqualsGDB compares as far as gdb gets: behind the frame in which Go
// changes stacks, it takes words of the other stack for frames.
func TestCGOEqualsGDB(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "cgo")
	coretest.Output(t, coretest.Tool(t, "go", "golang"), "build", "-o", exe, "./testdata/cgo")
	core := coretest.Dump(t, exe, coretest.Run{Env: []string{"GOTRACEBACK=crash"}})
	theirs, ours := coretest.GDBStacks(t, exe, core), stacks(t, exe, core)
	whole, compared := 0, 0
	for tid, frames := range theirs {
		for i, f := range frames {
			if f.Name == "" {
				frames = frames[:i]
				break
			}
		}
		if len(frames) == len(theirs[tid]) {
			whole++
		}
		compareFrames(t, tid, ours[tid][:min(len(frames), len(ours[tid]))], frames)
		compared += len(frames)
	}
	if whole == 0 || compared < 20 {
		t.Errorf("gdb has %d whole stacks and %d frames to compare with", whole, compared)
	}
}

// TestFirstInstructionOfThread stops a new thread at its first instruction,
// where nothing but a register tells it from its parent.
func TestFirstInstructionOfThread(t *testing.T) {
	exe := build(t, "gcc", "stacks.c", "-O1")
	core := filepath.Join(t.TempDir(), "core")
	script := filepath.Join(t.TempDir(), "newborn.py")
	if err := os.WriteFile(script, []byte(`
import gdb
gdb.execute("break main")
gdb.execute("run waits")
code = gdb.selected_inferior().architecture().disassemble(int(gdb.parse_and_eval("(long)&clone3")), count=60)
behind = [b["addr"] for a, b in zip(code, code[1:]) if a["asm"].startswith("syscall")][0]
gdb.execute("break *%d if $rax == 0" % behind)
gdb.execute("continue")
gdb.execute("generate-core-file `+core+`")
gdb.execute("kill")
`), 0o600); err != nil {
		t.Fatal(err)
	}
	said := coretest.GDB(t, "-ex", "set breakpoint pending on", exe, "-x", script)
	if _, err := os.Stat(core); err != nil {
		t.Fatalf("gdb made no core: %v\n%s", err, said)
	}
	// gdb takes the word at the new thread's stack pointer for its caller.
	theirs, ours := coretest.GDBStacks(t, exe, core), stacks(t, exe, core)
	for tid, frames := range theirs {
		if name := frames[len(frames)-1].Name; name != "" {
			compareFrames(t, tid, ours[tid], frames)
		}
	}
	found := false
	u := open(t, exe, core)
	for i := range u.core.Threads {
		s := u.Stack(i, 0)
		name := u.Functions(s.Frames[0])[0].Name
		found = found || len(s.Frames) == 1 && s.Whole && strings.Contains(name, "clone3")
	}
	if !found {
		t.Errorf("no stack consists of clone3 alone")
	}
}

// TestStackOverflow walks a stack of more than 20000 frames to its start.
func TestStackOverflow(t *testing.T) {
	exe := build(t, "gcc", "stacks.c", "-O1", "-fno-optimize-sibling-calls")
	u := open(t, exe, coretest.Dump(t, exe, run("overflow")))
	s := u.Stack(0, 0)
	if len(s.Frames) < 20000 || !s.Whole {
		t.Fatalf("%d frames: %s", len(s.Frames), s.Stop)
	}
	for _, f := range s.Frames[:20000] {
		if name := u.Functions(f)[0].Name; name != "overflow" {
			t.Fatalf("a frame of %s", name)
		}
	}
	if short := u.Stack(0, 10); len(short.Frames) != 10 || short.Whole {
		t.Errorf("%d frames where 10 were asked for", len(short.Frames))
	}
}

// TestSmashedReturnAddress tells a return address that was written over, and
// finds by guesses what called the function.
func TestSmashedReturnAddress(t *testing.T) {
	exe := build(t, "gcc", "stacks.c", "-O1", "-fno-omit-frame-pointer")
	for _, c := range []struct {
		arg  string
		bad  int // the frame with the bad return address
		name string
	}{
		{"smash", 1, "smash"},
		{"smash-return", 0, ""},
	} {
		t.Run(c.arg, func(t *testing.T) {
			u := open(t, exe, coretest.Dump(t, exe, run(c.arg)))
			s := u.Stack(0, 0)
			bad := s.Frames[c.bad]
			if c.name == "" && bad.PC != 0x41414140 || c.name != "" && (bad.BadReturn == nil || *bad.BadReturn != 0x41414140) {
				t.Fatalf("frame %d is %+v", c.bad, bad)
			}
			if name := u.Functions(bad)[0].Name; name != c.name {
				t.Errorf("it is of %q", name)
			}
			if len(s.Frames) <= c.bad+1 || !s.Frames[c.bad+1].Found.Guessed() {
				t.Errorf("nothing was guessed behind it: %+v", s)
			}
		})
	}
}

// TestStates says what threads were doing.
func TestStates(t *testing.T) {
	exe := build(t, "gcc", "stacks.c", "-O2")
	u := open(t, exe, coretest.Dump(t, exe, run("waits")))
	want := map[string]string{"waiter": "futex wait", "reader": "read", "spinner": "running", "sorter": "pause", "allocator": "read"}
	seen := 0
	for i := range u.core.Threads {
		for _, f := range u.Stack(i, 0).Frames {
			fns := u.Functions(f)
			if state := want[fns[len(fns)-1].Name]; state != "" {
				seen++
				if got := u.State(i); got != state {
					t.Errorf("%s is said to be in %q, not %q", fns[len(fns)-1].Name, got, state)
				}
			}
		}
	}
	if seen != 6 {
		t.Errorf("%d threads were recognised, not 6", seen)
	}
}
