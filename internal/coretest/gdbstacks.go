package coretest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// GDBFrame is one frame as gdb has it.
type GDBFrame struct {
	PC uint64 `json:"pc"`
	// Name is empty for unknown; File is the last part of the path, and Line 0
	// without debug information.
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	// Kind is normal, inline, tailcall or sigtramp.
	Kind string `json:"kind"`
}

// gdbStacks asks for the frames of every thread.
const gdbStacks = `
import gdb, json, os
kinds = {gdb.NORMAL_FRAME: "normal", gdb.INLINE_FRAME: "inline", gdb.TAILCALL_FRAME: "tailcall", gdb.SIGTRAMP_FRAME: "sigtramp"}
stacks = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames = []
    try:
        frame = gdb.newest_frame()
        while frame is not None and len(frames) < 2000:
            sal = frame.find_sal()
            frames.append({
                "pc": frame.pc(), "name": frame.name() or "", "kind": kinds.get(frame.type(), "?"),
                "file": os.path.basename(sal.symtab.filename) if sal.symtab else "", "line": sal.line if sal.symtab else 0})
            frame = frame.older()
    except gdb.error as e:
        print("stopped:", e)
    stacks[thread.ptid[1]] = frames
print("stacks " + json.dumps(stacks))
`

var gdbStacksLine = regexp.MustCompile(`(?m)^stacks (.*)$`)

// GDBStacks are the frames that gdb shows for each thread of a core, by LWP id,
// the innermost first. Commands come before the core is read.
func GDBStacks(t testing.TB, exe, core string, commands ...string) map[int][]GDBFrame {
	t.Helper()
	return stacksBy(t, GDB, exe, core, commands)
}

// GDBMultiarchStacks are those that the gdb for every architecture shows. With
// an exe of "" it gets no program.
func GDBMultiarchStacks(t testing.TB, exe, core string, commands ...string) map[int][]GDBFrame {
	t.Helper()
	return stacksBy(t, GDBMultiarch, exe, core, commands)
}

func stacksBy(t testing.TB, gdb func(testing.TB, ...string) string, exe, core string, commands []string) map[int][]GDBFrame {
	t.Helper()
	script := filepath.Join(t.TempDir(), "stacks.py")
	if err := os.WriteFile(script, []byte(gdbStacks), 0o600); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, c := range commands {
		args = append(args, "-ex", c)
	}
	if exe != "" {
		args = append(args, "-ex", "file "+exe)
	}
	out := gdb(t, append(args, "-ex", "core-file "+core, "-x", script)...)
	m := gdbStacksLine.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("gdb shows no stacks of %s:\n%s", core, out)
	}
	found := map[int][]GDBFrame{}
	if err := json.Unmarshal([]byte(m[1]), &found); err != nil {
		t.Fatal(err)
	}
	return found
}
