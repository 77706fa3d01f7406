package unwind_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/unwind"
)

// build compiles a program of testdata with debug information.
func build(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), strings.TrimSuffix(source, filepath.Ext(source)))
	args := []string{"-g", "-Wall", "-Wextra", "-Werror", "-fno-stack-protector", "-pthread", "-o", exe, filepath.Join("testdata", source)}
	coretest.Output(t, coretest.Tool(t, compiler, compiler+" (and "+compiler+"-multilib for -m32)"), append(args, flags...)...)
	return exe
}

func run(arg string) coretest.Run {
	if arg == "" {
		return coretest.Run{}
	}
	return coretest.Run{Args: []string{arg}}
}

// opened is a core with its unwinder.
type opened struct {
	*unwind.Unwinder
	core *elfcore.Core
	set  *module.Set
}

func open(t *testing.T, exe, core string) opened {
	t.Helper()
	return openWith(t, core, module.Config{Exe: exe})
}

func openWith(t *testing.T, core string, cfg module.Config) opened {
	t.Helper()
	c, err := elfcore.Open(core)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	set, err := module.Load(context.Background(), c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return opened{unwind.New(c, set), c, set}
}

// named is one function on a stack.
type named struct {
	pc     uint64
	frame  unwind.Frame
	all    []unwind.Function
	which  int
	module *module.Module
}

func (n named) function() *unwind.Function { return &n.all[n.which] }

// stacks are ours, up to main as gdb shows them. What is read ahead must not make
// a difference.
func stacks(t *testing.T, exe, core string) map[int][]named {
	t.Helper()
	ahead := open(t, exe, core)
	ahead.ReadAhead()
	out, early := stacksOf(open(t, exe, core)), stacksOf(ahead)
	for tid := range out {
		if !slices.EqualFunc(out[tid], early[tid], func(a, b named) bool {
			x, y := a.function(), b.function()
			return a.pc == b.pc && x.Name == y.Name && x.File == y.File && x.Line == y.Line && x.Inlined == y.Inlined
		}) {
			t.Errorf("thread %d: the functions are others when debug information is read ahead", tid)
		}
	}
	return out
}

func stacksOf(u opened) map[int][]named {
	out := make(map[int][]named)
	for i := range u.core.Threads {
		tid := u.core.Threads[i].TID
	frames:
		for _, f := range u.WithTailCalls(u.Stack(i, 2000), 2000).Frames {
			fns := u.Functions(f)
			if f.Found == unwind.FromTailCall {
				// Of a jump from inlined code, gdb shows the innermost function.
				fns = slices.Clone(fns[:1])
				fns[0].Inlined = false
			}
			for j := range fns {
				out[tid] = append(out[tid], named{uint64(f.PC), f, fns, j, fns[j].Module})
			}
			if fns[len(fns)-1].Name == "main" {
				break frames
			}
		}
	}
	return out
}

// compare holds the stacks of a core against gdb's. lines, where it is not nil,
// says of each frame of the program whether its lines are as they should be.
func compare(t *testing.T, exe, core string, threads int, lines func([]unwind.Function) bool) {
	t.Helper()
	theirs, ours := coretest.GDBStacks(t, exe, core), stacks(t, exe, core)
	if len(theirs) != threads || len(ours) != threads {
		t.Errorf("%d threads, gdb has %d, and there were %d", len(ours), len(theirs), threads)
	}
	for tid, frames := range theirs {
		compareFrames(t, tid, ours[tid], frames)
		for _, f := range ours[tid] {
			if lines != nil && f.module != nil && f.module.IsExecutable && f.all[len(f.all)-1].Name != "_start" && !lines(f.all) {
				t.Errorf("thread %d: %s is at line %d of %q", tid, f.function().Name, f.function().Line, f.function().File)
			}
		}
	}
}

func compareFrames(t *testing.T, tid int, ours []named, theirs []coretest.GDBFrame) {
	t.Helper()
	for _, d := range differences(ours, theirs) {
		t.Errorf("thread %d%s", tid, d)
	}
}

// onStack are the frames of gdb's up to main. Where another language has a main
// of its own, gdb goes on behind C's.
func onStack(theirs []coretest.GDBFrame) []coretest.GDBFrame {
	var want []coretest.GDBFrame
	for _, f := range theirs {
		want = append(want, f)
		if f.Name == "main" && f.Kind == "normal" {
			break
		}
	}
	return want
}

// differences compares a stack with gdb's, frame for frame.
func differences(ours []named, theirs []coretest.GDBFrame) []string {
	var found []string
	differ := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	want := onStack(theirs)
	if len(ours) != len(want) {
		var names []string
		for _, n := range ours {
			names = append(names, n.function().Demangled())
		}
		differ(": %d frames, gdb has %d\n%s\n%+v", len(ours), len(want), strings.Join(names, "\n"), want)
	}
	for i := range min(len(ours), len(want)) {
		n, g := ours[i], want[i]
		f := n.function()
		if n.pc != g.PC || n.frame.Signal != (g.Kind == "sigtramp") || f.Inlined != (g.Kind == "inline") || (n.frame.Found == unwind.FromTailCall) != (g.Kind == "tailcall") {
			differ(", frame %d: %#x %s (by %s, signal %v, inlined %v), gdb has %+v", i, n.pc, f.Name, n.frame.Found, n.frame.Signal, f.Inlined, g)
			return found
		}
		if n.frame.Signal {
			continue
		}
		if !sameName(f, g) {
			differ(", frame %d: %s, gdb has %+v", i, f.Demangled(), g)
		}
		if f.Line != g.Line || g.Line > 0 && filepath.Base(f.File) != g.File {
			differ(", frame %d: %s at %s:%d, gdb has %+v", i, f.Name, f.File, f.Line, g)
		}
	}
	return found
}

// brackets are template arguments, parameters and Rust's implementations.
var brackets = regexp.MustCompile(`<[^<>]*>|\([^()]*\)|\{[^{}]*\}`)

// bare is a name without what demanglers write differently: arguments, the
// number of a clone, and for Rust all but the last part.
func bare(name string, last bool) string {
	name = strings.ReplaceAll(name, "(anonymous namespace)", "anonymous")
	name = strings.ReplaceAll(name, "operator()", "operator_call")
	for before := ""; before != name; {
		before = name
		name = brackets.ReplaceAllString(name, "")
	}
	name = regexp.MustCompile(`\.(part|cold|constprop|isra)(\.\d+)?$`).ReplaceAllString(name, "")
	name = strings.TrimRight(strings.TrimSpace(strings.TrimSuffix(name, " const")), ":")
	if last {
		parts := strings.Split(name, "::")
		name = strings.TrimLeft(parts[len(parts)-1], "_")
	}
	return name
}

// sameName compares names. gdb does not say which function a lambda or a local
// class is in. Of several symbols at one address, and without debug information,
// both may pick another.
func sameName(f *unwind.Function, g coretest.GDBFrame) bool {
	rust := strings.HasSuffix(g.File, ".rs")
	if bare(f.Demangled(), rust) == bare(g.Name, rust) || rust && bare(g.Name, rust) == "panic_handler" {
		return true
	}
	if strings.Contains(f.Demangled(), ")::") && strings.HasSuffix(bare(f.Demangled(), false), "::"+bare(g.Name, false)) {
		return true
	}
	if g.Line > 0 || f.Module == nil {
		return false
	}
	for _, s := range f.Module.Lookup(g.Name) {
		if s.Value == f.ModuleOffset-f.Offset {
			return true
		}
	}
	return false
}
