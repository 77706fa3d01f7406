package unwind_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/unwind"
)

// buildTailCalls compiles one of the programs of tail calls, which consist of
// several files and a library.
func buildTailCalls(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	flags = append([]string{"-g", "-Wall", "-Wextra", "-Werror", "-fno-stack-protector", "-pthread"}, flags...)
	cc := coretest.Tool(t, "gcc", "gcc (and gcc-multilib for -m32)")
	other, library, exe := filepath.Join(dir, "other.o"), filepath.Join(dir, "libtail.so"), filepath.Join(dir, "tailcalls")
	coretest.Output(t, cc, append(flags, "-c", "-o", other, filepath.Join("testdata", "tailcalls_other.c"))...)
	coretest.Output(t, cc, append(flags, "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "tailcalls_library.c"))...)
	coretest.Output(t, coretest.Tool(t, compiler, compiler),
		append(flags, "-rdynamic", "-Xlinker", "-rpath", "-Xlinker", dir, "-o", exe, filepath.Join("testdata", source), other, library)...)
	return exe
}

// TestTailCallsEqualGDB holds the frames of functions that left by a jump against
// gdb's: chains of up to three, several ways, pointers, other files and
// libraries, inlined code. The numbers are those of the frames that there must
// be at least, so that gdb without any would be seen.
func TestTailCallsEqualGDB(t *testing.T) {
	for _, c := range []struct {
		name, compiler, source string
		flags                  []string
		threads, jumps         int
	}{
		{"C", "gcc", "tailcalls.c", []string{"-O2"}, 31, 20},
		{"C, DWARF 4", "gcc", "tailcalls.c", []string{"-O2", "-gdwarf-4"}, 31, 20},
		{"C, 32 bits", "gcc", "tailcalls.c", []string{"-O2", "-m32"}, 31, 0},
		{"C, optimized more", "gcc", "tailcalls.c", []string{"-O3", "-fno-pie", "-no-pie"}, 31, 20},
		{"C, functions in sections", "gcc", "tailcalls.c", []string{"-O2", "-ffunction-sections", "-Wl,--gc-sections"}, 31, 20},
		{"C, optimized when it is linked", "gcc", "tailcalls.c", []string{"-O2", "-flto"}, 31, 3},
		{"C, optimized for size", "gcc", "tailcalls.c", []string{"-Os", "-fno-plt"}, 31, 20},
		{"C, no jumps", "gcc", "tailcalls.c", []string{"-O2", "-fno-optimize-sibling-calls"}, 31, 0},
		{"C, not optimized", "gcc", "tailcalls.c", []string{"-O0"}, 31, 0},
		{"C++", "g++", "tailcalls.cc", []string{"-O2"}, 12, 14},
		{"C++, DWARF 4", "g++", "tailcalls.cc", []string{"-O2", "-gdwarf-4"}, 12, 14},
		{"C++, optimized when it is linked", "g++", "tailcalls.cc", []string{"-O2", "-flto"}, 12, 3},
		{"C++, no jumps", "g++", "tailcalls.cc", []string{"-O2", "-fno-optimize-sibling-calls"}, 12, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe := buildTailCalls(t, c.compiler, c.source, c.flags...)
			core := coretest.Dump(t, exe, coretest.Run{})
			compare(t, exe, core, c.threads, nil)
			jumps := 0
			for _, frames := range stacks(t, exe, core) {
				for _, f := range frames {
					if f.frame.Found == unwind.FromTailCall && f.module.IsExecutable {
						jumps++
					}
				}
			}
			if jumps < c.jumps || c.jumps == 0 && c.name != "C, 32 bits" && jumps > 0 {
				t.Errorf("%d functions of the program left by a jump, not %d", jumps, c.jumps)
			}
		})
	}
}

// TestTailCallsAreTrue builds the same programs without jumps, so that every
// function has its frame: what is said of functions that left must be among
// those, in that order.
func TestTailCallsAreTrue(t *testing.T) {
	for _, c := range []struct{ compiler, source, arg string }{{"gcc", "tailcalls.c", "ping"}, {"g++", "tailcalls.cc", ""}} {
		t.Run(c.source, func(t *testing.T) {
			jumping := namesByStart(t, buildTailCalls(t, c.compiler, c.source, "-O2"), c.arg)
			calling := namesByStart(t, buildTailCalls(t, c.compiler, c.source, "-O2", "-fno-optimize-sibling-calls"), c.arg)
			compared := 0
			for start, names := range jumping {
				truth := calling[start]
				for _, name := range names {
					i := slices.Index(truth, name)
					if i < 0 {
						t.Errorf("%s: %s is not where it should be in %s", start, strings.Join(names, " "), strings.Join(calling[start], " "))
						break
					}
					truth = truth[i+1:]
				}
				compared++
			}
			if compared < 10 {
				t.Errorf("%d stacks were compared", compared)
			}
		})
	}
}

// namesByStart gives the names of the program's own functions on each stack, by
// that of the outermost two.
func namesByStart(t *testing.T, exe, arg string) map[string][]string {
	t.Helper()
	out := make(map[string][]string)
	for _, frames := range stacks(t, exe, coretest.Dump(t, exe, run(arg))) {
		var names []string
		for _, f := range frames {
			if f.function().Line > 0 && !strings.Contains(f.module.String(), "libc") {
				names = append(names, f.function().Demangled())
			}
		}
		if n := len(names); n > 2 {
			out[strings.Join(names[n-2:], " ")] = names
		}
	}
	return out
}

// TestTailCallsOfFewerJumps has a function that left to one which comes back to
// it: whether that happened is not known, but gdb shows it once, the longer of
// two ways. Only the last jump is on both.
func TestTailCallsOfFewerJumps(t *testing.T) {
	exe := buildTailCalls(t, "gcc", "tailcalls.c", "-O2")
	core := coretest.Dump(t, exe, run("ping"))
	theirs := coretest.GDBStacks(t, exe, core)
	for tid, frames := range stacks(t, exe, core) {
		if !slices.ContainsFunc(frames, func(n named) bool { return n.function().Name == "call_ping" }) {
			continue
		}
		var names []string
		for _, f := range frames {
			if f.module.IsExecutable {
				names = append(names, f.function().Name)
			}
		}
		if got := strings.Join(names, " "); got != "hold ping call_ping start_ping" {
			t.Errorf("the functions are %s", got)
		}
		for _, f := range frames {
			if !slices.ContainsFunc(theirs[tid], func(g coretest.GDBFrame) bool { return g.PC == f.pc && g.Line == f.function().Line }) {
				t.Errorf("gdb does not have %s at line %d", f.function().Name, f.function().Line)
			}
		}
		return
	}
	t.Error("no thread is in ping")
}

// TestTailCallsWithinLimit gives no more frames than were asked for.
func TestTailCallsWithinLimit(t *testing.T) {
	exe := buildTailCalls(t, "gcc", "tailcalls.c", "-O2")
	u := open(t, exe, coretest.Dump(t, exe, coretest.Run{}))
	longer := 0
	for i := range u.core.Threads {
		plain, all := u.Stack(i, 0), u.WithTailCalls(u.Stack(i, 0), 0)
		if all.Stop != plain.Stop || all.Whole != plain.Whole || len(all.Frames) < len(plain.Frames) {
			t.Errorf("%d frames, then %d: %q, then %q", len(plain.Frames), len(all.Frames), plain.Stop, all.Stop)
		}
		n := len(plain.Frames)
		short := u.WithTailCalls(plain, n)
		if len(short.Frames) != n || short.Whole != (len(all.Frames) == n) {
			t.Errorf("%d frames where %d were asked for, whole %v", len(short.Frames), n, short.Whole)
		}
		if len(all.Frames) > n {
			longer++
		}
		for j, f := range all.Frames {
			if f.Found == unwind.FromTailCall && f.CFA != all.Frames[j-1].CFA {
				t.Errorf("the CFA of a function that left is %s, behind it %s", f.CFA, all.Frames[j-1].CFA)
			}
		}
	}
	if longer < 15 {
		t.Errorf("%d stacks have functions that left", longer)
	}
}
