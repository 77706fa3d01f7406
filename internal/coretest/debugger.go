package coretest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// GDB runs gdb in batch mode, without anybody's configuration, and gives what
// it printed: standard output, then standard error.
func GDB(t testing.TB, args ...string) string {
	t.Helper()
	return debugger(t, Tool(t, "gdb", "gdb"), append([]string{"-nx", "-q", "-batch"}, args...)...)
}

// GDBMultiarch runs the gdb that reads cores of every architecture.
func GDBMultiarch(t testing.TB, args ...string) string {
	t.Helper()
	return debugger(t, Tool(t, "gdb-multiarch", "gdb-multiarch"), append([]string{"-nx", "-q", "-batch"}, args...)...)
}

// LLDB runs lldb in batch mode as GDB does gdb.
func LLDB(t testing.TB, args ...string) string {
	t.Helper()
	return debugger(t, Tool(t, "lldb", "lldb"), append([]string{"--no-lldbinit", "--batch"}, args...)...)
}

// debugger differs from Output in that an exit status other than 0 is no
// failure: a debugger's last command may well fail, and what it said then is
// what the test is about. That it was killed is a failure.
func debugger(t testing.TB, path string, args ...string) string {
	t.Helper()
	cmd, cancel := command(path, args...)
	defer cancel()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || !cmd.ProcessState.Exited() {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return stdout.String() + stderr.String()
}

// gdbThreadLocals asks for one variable in every thread; $variable is set by
// the caller. An error is one line, its first word "error:".
const gdbThreadLocals = `
import gdb
variable = gdb.convenience_variable("variable").string()
for thread in gdb.selected_inferior().threads():
    thread.switch()
    try:
        value = int(gdb.parse_and_eval(variable))
    except gdb.error as e:
        value = "error: " + " ".join(str(e).split())
    print("thread-local", thread.ptid[1], value)
`

var gdbThreadLocal = regexp.MustCompile(`(?m)^thread-local (-?\d+) (.*)$`)

// GDBThreadLocals is what gdb reads for an integer variable in each thread of
// a core, by LWP id: a decimal number, or "error: " and gdb's message.
func GDBThreadLocals(t testing.TB, exe, core, variable string) map[int]string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "thread-locals.py")
	if err := os.WriteFile(script, []byte(gdbThreadLocals), 0o600); err != nil {
		t.Fatal(err)
	}
	out := GDB(t, "-ex", "file "+exe, "-ex", "core-file "+core, "-ex", `set $variable = "`+variable+`"`, "-x", script)
	found := map[int]string{}
	for _, m := range gdbThreadLocal.FindAllStringSubmatch(out, -1) {
		found[number(t, m[1])] = m[2]
	}
	if len(found) == 0 {
		t.Fatalf("gdb shows no thread of %s:\n%s", core, out)
	}
	return found
}

var gdbHandle = regexp.MustCompile(`(?m)^[* ] +\d+ +Thread (0x[0-9a-f]+) \(LWP (\d+)\)`)

// GDBHandles are the thread handles (values of pthread_t) that gdb takes for
// the threads of a core, by LWP id, phantoms included. A thread is missing
// where gdb has none for it.
func GDBHandles(t testing.TB, exe, core string) map[int]Address {
	t.Helper()
	out := GDB(t, "-ex", "file "+exe, "-ex", "core-file "+core, "-ex", "info threads")
	found := map[int]Address{}
	for _, m := range gdbHandle.FindAllStringSubmatch(out, -1) {
		var handle Address
		if err := handle.UnmarshalText([]byte(m[1])); err != nil {
			t.Fatal(err)
		}
		found[number(t, m[2])] = handle
	}
	return found
}

var lldbThread = regexp.MustCompile(`(?m)^[* ] thread #\d+: tid = (\d+)`)

// LLDBThreads are the thread ids that lldb shows for a core, in its order.
func LLDBThreads(t testing.TB, exe, core string) []int {
	t.Helper()
	out := LLDB(t, "--core", core, exe, "-o", "thread list")
	var found []int
	for _, m := range lldbThread.FindAllStringSubmatch(out, -1) {
		found = append(found, number(t, m[1]))
	}
	if len(found) == 0 {
		t.Fatalf("lldb shows no thread of %s:\n%s", core, out)
	}
	return found
}

func number(t testing.TB, decimal string) int {
	t.Helper()
	n, err := strconv.Atoi(decimal)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
