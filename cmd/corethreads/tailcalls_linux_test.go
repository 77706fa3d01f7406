package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// lineOf gives the number of the line in a file that begins with a text.
func lineOf(t *testing.T, path, text string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(b), "\n"+text)
	if !found {
		t.Fatalf("%s has no line %q", path, text)
	}
	return strings.Count(before, "\n") + 2
}

// tailCallStack gives the frames of the one stack that has a function, up to it.
func tailCallStack(t *testing.T, function string, args ...string) []frameDocument {
	t.Helper()
	code, stdout, stderr := play(t, nil, append([]string{"stacks", "--json"}, args...)...)
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var d stacksDocument
	parseInto(t, stdout, &d)
	for _, g := range d.Groups {
		for i, f := range g.Frames {
			if f.Symbol != nil && *f.Symbol == function {
				return g.Frames[:i+1]
			}
		}
	}
	t.Fatalf("%s is on no stack", function)
	return nil
}

// TestStacksOfTailCalls shows functions that left by a jump: what they were found
// by, no registers, and those of the frames behind them in their places.
func TestStacksOfTailCalls(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "tailcalls")
	args := []string{"-g", "-O2", "-fno-stack-protector", "-pthread", "-o", exe}
	for _, name := range []string{"tailcalls.c", "tailcalls_other.c", "tailcalls_library.c"} {
		args = append(args, filepath.Join("..", "..", "unwind", "testdata", name))
	}
	coretest.Output(t, coretest.Tool(t, "gcc", "gcc"), args...)
	core := coretest.Dump(t, exe, coretest.Run{})

	var names []string
	frames := tailCallStack(t, "call_first", core, "--exe", exe, "-v")
	for i, f := range frames {
		names = append(names, *f.Symbol)
		if jumped := slices.Contains([]string{"last", "second", "first"}, *f.Symbol); jumped != (f.Found == "tail-call") || jumped != (len(f.Registers) == 0) || f.Guess || f.Inlined {
			t.Errorf("frame %d: %+v", i, f)
		}
		if pc, ok := f.Registers["rip"]; ok && pc != f.PC {
			t.Errorf("frame %d at %s has the registers of one at %s", i, f.PC, pc)
		}
	}
	if got := strings.Join(names[1:], " "); got != "hold last second first call_first" {
		t.Errorf("the stack is %s", got)
	}
	if f := tailCallStack(t, "last", core, "--exe", exe, "--frames", "3"); len(f) != 3 {
		t.Errorf("%d frames where 3 were asked for", len(f))
	}
	inlined := tailCallStack(t, "call_around_inlined", core, "--exe", exe)
	if f := inlined[len(inlined)-2]; *f.Symbol != "inlined_twice" || f.Inlined {
		t.Errorf("in front of the caller is %+v", f)
	}
	outer := tailCallStack(t, "call_around_inlined", core, "--exe", exe, "--no-inline")
	if f := outer[len(outer)-2]; *f.Symbol != "around_inlined" || *f.Line != lineOf(t, filepath.Join("..", "..", "unwind", "testdata", "tailcalls.c"), "static STEP int around_inlined")+3 {
		t.Errorf("without inlined functions, in front of the caller is %+v", f)
	}
	_, text, _ := play(t, nil, "stacks", core, "--exe", exe)
	if got := strings.Count(text, " (tail call)\n"); got < 20 {
		t.Errorf("%d functions are marked in:\n%s", got, text)
	}
	_, text, _ = play(t, nil, "stacks", core, "--exe", exe, "-v")
	if blank := regexp.MustCompile(`(?m)[ \t]+$`).FindString(text); blank != "" {
		t.Errorf("-v has a line that ends in %q:\n%s", blank, text)
	}
	_, folded, _ := play(t, nil, "stacks", core, "--exe", exe, "--folded")
	if !strings.Contains(folded, "start_first;call_first;first;second;last;hold;") {
		t.Errorf("the chain is missing in:\n%s", folded)
	}
}
