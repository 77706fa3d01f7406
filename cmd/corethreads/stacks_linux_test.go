package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// The contract's document of stacks.
var stacksKind = object{
	"schema": matches("corethreads/stacks/1"),
	"groups": listOf(object{"tids": listOf(number), "stop": text, "frames": listOf(object{
		"pc": address, "symbol": orNullKind(text), "offset": orNullKind(number), "module": orNullKind(text),
		"file": orNullKind(text), "line": orNullKind(number), "inlined": boolean, "signal": boolean,
	}.kind)}.kind),
}.kind

// TestFramesCountedAsByGDB asks gdb for the first frames of every thread, inlined
// functions among them, and the command for as many. The program is static, so
// that neither has debug information of the C library.
func TestFramesCountedAsByGDB(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "stacks")
	coretest.Output(t, coretest.Tool(t, "gcc", "gcc"), "-g", "-O1", "-fno-optimize-sibling-calls", "-pthread", "-static", "-o", exe, filepath.Join("..", "..", "unwind", "testdata", "stacks.c"))
	core := coretest.Dump(t, exe, coretest.Run{Args: []string{"waits"}})
	inlined := 0
	for n := 1; n <= 7; n++ {
		want := gdbBacktraces(t, exe, core, n)
		got, folded := map[string][]string{}, []string{}
		frames := fmt.Sprint("--frames=", n)
		d := document(t, stacksKind, exitDone, "stacks", core, "--exe", exe, frames)
		for _, g := range d["groups"].([]any) {
			var names, own []string
			for _, f := range at(t, g, "frames").([]any) {
				names = append(names, fmt.Sprint(at(t, f, "symbol")))
				own = append(own, "")
				if file := at(t, f, "file"); file != nil {
					own[len(own)-1] = names[len(names)-1]
				}
				if at(t, f, "inlined") == true {
					inlined++
				}
			}
			for _, tid := range at(t, g, "tids").([]any) {
				got[fmt.Sprint(tid)] = own
			}
			backwards := slices.Clone(names)
			slices.Reverse(backwards)
			folded = append(folded, fmt.Sprintf("%s %d", strings.Join(backwards, ";"), len(at(t, g, "tids").([]any))))
		}
		if len(want) < 5 || len(got) != len(want) {
			t.Fatalf("%d threads, gdb has %d", len(got), len(want))
		}
		for tid := range want {
			if !slices.Equal(got[tid], want[tid]) {
				t.Errorf("%d frames of thread %s: %q, gdb has %q", n, tid, got[tid], want[tid])
			}
		}
		if text, _ := corethreads(t, exitDone, "stacks", core, "--exe", exe, frames, "--folded"); text != strings.Join(folded, "\n")+"\n" {
			t.Errorf("folded: %q, want %q", text, folded)
		}
		text, _ := corethreads(t, exitDone, "stacks", core, "--exe", exe, frames)
		if strings.Contains(text, fmt.Sprintf("#%d ", n)) || !strings.Contains(text, fmt.Sprintf("#%d ", n-1)) || strings.Contains(text, "stopped: as many") {
			t.Errorf("--frames %d shows\n%s", n, text)
		}
	}
	if inlined == 0 {
		t.Error("no inlined function was among them")
	}
}

// gdbBacktraces are the first functions of each thread, by id: their names, empty
// for those without a place in a source, as gdb may know other aliases of them.
func gdbBacktraces(t *testing.T, exe, core string, n int) map[string][]string {
	t.Helper()
	said := coretest.GDB(t, "-ex", "set width 0", "-ex", fmt.Sprintf("thread apply all bt %d", n), exe, core)
	_, said, _ = strings.Cut(said, "\nThread ")
	lwp, frame, place := regexp.MustCompile(`\(LWP (\d+)\)`), regexp.MustCompile(`(?m)^#\d+ +(?:0x[0-9a-f]+ in )?\S+ \(.*$`), regexp.MustCompile(`(\w+) \(.*\) at `)
	out := map[string][]string{}
	for part := range strings.SplitSeq(said, "\nThread ") {
		id := lwp.FindStringSubmatch(part)
		if id == nil {
			t.Fatalf("no id in %q", part)
		}
		for _, line := range frame.FindAllString(part, -1) {
			name := ""
			if m := place.FindStringSubmatch(line); m != nil {
				name = m[1]
			}
			out[id[1]] = append(out[id[1]], name)
		}
	}
	return out
}
