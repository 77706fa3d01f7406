package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// corethreads runs the command in this process and wants an exit status of it.
func corethreads(t *testing.T, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	t.Setenv("DEBUGINFOD_URLS", "")
	var out, errs bytes.Buffer
	if got := run(context.Background(), args, strings.NewReader(""), &out, &errs); got != status {
		t.Fatalf("corethreads %s: status %d, not %d\n%s%s", strings.Join(args, " "), got, status, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// batch are arguments that keep gdb from asking anybody, and from anybody's
// configuration.
var batch = []string{"-nx", "-q", "-batch"}

// withoutThreadDB keeps gdb from its libthread_db.
var withoutThreadDB = []string{"-iex", "set auto-load libthread-db off", "-iex", "set libthread-db-search-path /nonexistent"}

// eachThread has gdb print an expression in every thread, a line each that
// starts with "value LWP ".
func eachThread(expression string) []string {
	return []string{"-ex", "python\nfor t in gdb.selected_inferior().threads():\n  t.switch()\n  print('value', t.ptid[1], int(gdb.parse_and_eval('" + expression + "')))\n"}
}

// wantValues wants the value that each living thread saw in tls_int.
func wantValues(t *testing.T, out string, truth coretest.Truth) {
	t.Helper()
	living := 0
	for _, thread := range truth.Threads {
		if !thread.Lives() {
			continue
		}
		living++
		want := fmt.Sprintf("value %d %s\n", thread.LWP(), thread.TLS["tls_int"].Value)
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if got := strings.Count(out, "value "); got != living || living < 2 {
		t.Errorf("gdb printed %d values for %d threads:\n%s", got, living, out)
	}
}

// misleading makes a core whose main thread gdb gets wrong, and sees that it
// does.
func misleading(t *testing.T) coretest.Crashed {
	t.Helper()
	crashed := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}})
	main := crashed.Truth.Thread(t, "main")
	said := coretest.GDB(t, append([]string{"-c", crashed.Core, crashed.Exe}, eachThread("tls_int")...)...)
	if right := fmt.Sprintf("value %d %s\n", main.TID, main.TLS["tls_int"].Value); strings.Contains(said, right) || !strings.Contains(said, fmt.Sprintf("value %d ", main.TID)) {
		t.Fatalf("gdb is not wrong about this core, so that nothing can be shown on it:\n%s", said)
	}
	return crashed
}

func wantUntouched(t *testing.T, core string, before []byte) {
	t.Helper()
	after, err := os.ReadFile(core)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Error("the core is not as it was")
	}
	entries, err := os.ReadDir(filepath.Dir(core))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != filepath.Base(core) && name != "truth.json" {
			t.Errorf("%s was left beside the core", name)
		}
	}
}

func TestDebugGDB(t *testing.T) {
	crashed := misleading(t)
	before, err := os.ReadFile(crashed.Core)
	if err != nil {
		t.Fatal(err)
	}
	debug := func(t *testing.T, flags []string, gdb ...string) string {
		out, _ := corethreads(t, exitDone, append(append(append([]string{"debug", crashed.Core}, flags...), "--"), append(batch, gdb...)...)...)
		wantUntouched(t, crashed.Core, before)
		return out
	}
	t.Run("copy", func(t *testing.T) {
		wantValues(t, debug(t, nil, eachThread("tls_int")...), crashed.Truth)
	})
	t.Run("in place", func(t *testing.T) {
		wantValues(t, debug(t, []string{"--in-place"}, eachThread("tls_int")...), crashed.Truth)
	})
	t.Run("without libthread_db", func(t *testing.T) {
		out := debug(t, nil, append(withoutThreadDB, eachThread(`$tls("tls_int")`)...)...)
		wantValues(t, out, crashed.Truth)
	})
	t.Run("tmp-dir", func(t *testing.T) {
		dir := t.TempDir()
		wantValues(t, debug(t, []string{"--tmp-dir", dir}, eachThread("tls_int")...), crashed.Truth)
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v was left in --tmp-dir (%v)", left, err)
		}
	})
}

// TestDebugStatus has the debugger end with a status of its own.
func TestDebugStatus(t *testing.T) {
	crashed := misleading(t)
	corethreads(t, 7, append(append([]string{"debug", crashed.Core, "--"}, batch...), "-ex", "quit 7")...)
	corethreads(t, exitFailed, "debug", crashed.Core, "--debugger", filepath.Join(t.TempDir(), "none"))
}

// TestDebugSignal ends the debugger, which would go on for ever, by a signal to
// us while the core is patched.
func TestDebugSignal(t *testing.T) {
	crashed := misleading(t)
	before, err := os.ReadFile(crashed.Core)
	if err != nil {
		t.Fatal(err)
	}
	ours := strconv.Itoa(os.Getpid())
	copied := filepath.Join(t.TempDir(), "while")
	args := append([]string{"debug", crashed.Core, "--in-place", "--"}, batch...)
	args = append(args,
		"-ex", "shell cp "+crashed.Core+" "+copied+"; kill -TERM "+ours,
		"-ex", "python\nwhile True: gdb.execute('print 1', to_string=True)\n")
	// gdb's status then depends on what it was doing.
	run(context.Background(), args, strings.NewReader(""), io.Discard, io.Discard)
	wantUntouched(t, crashed.Core, before)
	if patched, err := os.ReadFile(copied); err != nil || bytes.Equal(before, patched) {
		t.Errorf("the core was not patched meanwhile (%v)", err)
	}
}

// TestDebugPrint pastes what --print says into a shell.
func TestDebugPrint(t *testing.T) {
	crashed := misleading(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", mainEnv, self)
	if err := os.WriteFile(filepath.Join(bin, "corethreads"), []byte(wrapper), 0o700); err != nil {
		t.Fatal(err)
	}
	lines, _ := corethreads(t, exitDone, "debug", crashed.Core, "--print", "--", "-nx", "-q")
	shell := exec.Command("sh", "-ec", lines)
	shell.Env = append(os.Environ(), "DEBUGINFOD_URLS=", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	shell.Stdin = strings.NewReader("print tls_int\nprint $tls(\"tls_int\")\n")
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, lines, out)
	}
	value := string(crashed.Truth.Thread(t, "main").TLS["tls_int"].Value)
	for _, want := range []string{"$1 = " + value + "\n", "$2 = " + value + "\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}

func TestDebugLLDB(t *testing.T) {
	crashed := misleading(t)
	coretest.Tool(t, "lldb", "lldb")
	args := []string{"debug", "--debugger", "lldb", crashed.Core, "--", "--no-lldbinit", "--batch"}
	var want []string
	for _, thread := range crashed.Truth.Threads {
		id := fmt.Sprintf("%#x", uint64(thread.Pthread))
		if thread.Lives() {
			id = strconv.Itoa(thread.LWP())
		}
		args = append(args, "-o", "tls tls_int "+id)
		want = append(want, "= "+string(thread.TLS["tls_int"].Value))
	}
	out, _ := corethreads(t, exitDone, args...)
	for i, w := range want {
		if _, rest, found := strings.Cut(out, w+"\n"); found {
			out = rest
		} else {
			t.Errorf("%q (the value of %s) is not next in:\n%s", w, crashed.Truth.Threads[i].Role, out)
		}
	}
}

// TestDebugPacked debugs a packed core of another machine, of whose files only
// the program is here.
func TestDebugPacked(t *testing.T) {
	const name = "x86_64-glibc2.36-zombie-user"
	_, truth := coretest.Unpack(t, name)
	dir := t.TempDir()
	packed, err := os.ReadFile(filepath.Join("..", "..", "testdata", "cores", name, "core.zst"))
	if err != nil {
		t.Fatal(err)
	}
	core := filepath.Join(dir, "core.zst")
	if err := os.WriteFile(core, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"debug", core, "--exe", coretest.UnpackExe(t, name), "--"}, batch...)
	out, _ := corethreads(t, exitDone, append(append(args, withoutThreadDB...), eachThread(`$tls("tls_int")`)...)...)
	wantValues(t, out, truth)
	wantUntouched(t, core, packed)
}

// TestDebugHidesWrongFiles has another build of a library where the process had
// its own.
func TestDebugHidesWrongFiles(t *testing.T) {
	plugin := coretest.Compile(t, "plugin.c", "-shared", "-fPIC")
	crashed := coretest.Crash(t, coretest.Compile(t, "plugins.c"), coretest.Run{Args: []string{"plugin-late"}, Env: []string{"PLUGIN=" + plugin}})
	lib := t.TempDir()
	right := filepath.Join(lib, filepath.Base(plugin))
	if err := os.Rename(plugin, right); err != nil {
		t.Fatal(err)
	}
	wrong := coretest.Compile(t, "plugin.c", "-shared", "-fPIC", "-O2", "-Wl,--build-id=0x1234")
	if err := os.Rename(wrong, plugin); err != nil {
		t.Fatal(err)
	}
	out, _ := corethreads(t, exitDone, append(append([]string{"debug", crashed.Core, "--lib-dir", lib, "--"}, batch...), "-ex", "info sharedlibrary")...)
	if !strings.Contains(out, right) || strings.Contains(out, plugin+"\n") || !strings.Contains(out, "libc.so") {
		t.Errorf("gdb does not have %s, or has %s, or lost libc:\n%s", right, plugin, out)
	}
}

// TestDebugTakesCopies has a library of the process in two copies, as lib and
// usr/lib of a root folder have them.
func TestDebugTakesCopies(t *testing.T) {
	plugin := coretest.Compile(t, "plugin.c", "-shared", "-fPIC")
	crashed := coretest.Crash(t, coretest.Compile(t, "plugins.c"), coretest.Run{Args: []string{"plugin-late"}, Env: []string{"PLUGIN=" + plugin}})
	root, lib := t.TempDir(), t.TempDir()
	b, err := os.ReadFile(plugin)
	if err != nil {
		t.Fatal(err)
	}
	under := filepath.Join(root, plugin)
	if err := os.MkdirAll(filepath.Dir(under), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{under, filepath.Join(lib, filepath.Base(plugin))} {
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := corethreads(t, exitDone, "debug", crashed.Core, "--print", "--lib-dir", lib, "--sysroot", root)
	if !strings.Contains(out, "set sysroot "+root+"'") {
		t.Errorf("the sysroot, which has a copy of the right file, is not used:\n%s", out)
	}
}

// TestDebugWithoutLinkMap leaves all pages of files out of a core, and has the files
// at other places than the process had: gdb, which reads the loader's list in the
// pages of the loader and else goes by the recorded paths, then knows no library.
func TestDebugWithoutLinkMap(t *testing.T) {
	exe := coretest.Compile(t, "threads.c")
	filter := filepath.Join(t.TempDir(), "filter")
	script := "#!/bin/sh\necho 1 >/proc/self/coredump_filter || exit 3\nexec " + exe + " \"$@\"\n"
	if err := os.WriteFile(filter, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	crashed := coretest.Crash(t, filter, coretest.Run{Args: []string{"zombie-user"}})
	truth := coretest.GDBStacks(t, exe, crashed.Core)

	lib, nothing := t.TempDir(), t.TempDir()
	for _, m := range strings.Fields(coretest.Output(t, coretest.Tool(t, "ldd", "libc-bin"), exe)) {
		if !strings.HasPrefix(m, "/") {
			continue
		}
		b, err := os.ReadFile(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(lib, filepath.Base(m)), b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(exe, moved); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"debug", crashed.Core, "--exe", moved, "--lib-dir", lib, "--sysroot", nothing, "--"}, batch...)
	out, _ := corethreads(t, exitDone, append(args, "-ex", "thread apply all bt")...)
	if !strings.Contains(out, "has got their symbols now: elsewhere, libc.so.6") {
		t.Errorf("gdb needed no help, which makes this no test:\n%s", out)
	}
	for tid, frames := range truth {
		_, stack, _ := strings.Cut(out, fmt.Sprintf("(LWP %d)):\n", tid))
		if stack == "" {
			_, stack, _ = strings.Cut(out, fmt.Sprintf("(LWP %d):\n", tid))
		}
		stack, _, _ = strings.Cut(stack, "\n\n")
		for i, f := range frames {
			if line := regexp.MustCompile(fmt.Sprintf(`(?m)^#%d +(0x[0-9a-f]+ in )?%s \(`, i, regexp.QuoteMeta(f.Name))); f.Name != "" && !line.MatchString(stack) {
				t.Errorf("thread %d: frame %d is not %s:\n%s", tid, i, f.Name, stack)
			}
		}
	}
}

func TestGDBScript(t *testing.T) {
	crashed := misleading(t)
	script := filepath.Join(t.TempDir(), "script.gdb")
	corethreads(t, exitDone, "gdb-script", crashed.Core, "-o", script)
	args := append(append([]string{}, withoutThreadDB...), "-x", script, "-ex", "info corethreads")
	args = append(args, eachThread(`$tls("tls_int")`)...)
	for _, zombie := range crashed.Truth.Zombies {
		args = append(args, "-ex", fmt.Sprintf(`print $tls_of("%#x", "tls_int")`, uint64(zombie)))
	}
	args = append(args, "-ex", `print $tls("tls_nothing")`, "-ex", `print $tls("tls_str")`)
	out := coretest.GDB(t, args...)
	wantValues(t, out, crashed.Truth)
	for _, thread := range crashed.Truth.Threads {
		if thread.State != "zombie" {
			continue
		}
		for _, want := range []string{fmt.Sprintf("%#x", uint64(thread.Pthread)), " zombie ", "= " + string(thread.TLS["tls_int"].Value) + "\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in:\n%s", want, out)
			}
		}
	}
	// It has a type, or gdb would not show the text.
	for _, want := range []string{"no thread-local variable tls_nothing", "\"" + string(crashed.Truth.Thread(t, "main").TLS["tls_str"].Value) + "\"\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}

// TestGDBScriptTags asks for a variable whose symbol has an ABI tag by its name in
// source.
func TestGDBScriptTags(t *testing.T) {
	crashed := coretest.Crash(t, coretest.Compile(t, "tlsforms.cc", "-std=c++17", "-lstdc++"), coretest.Run{})
	script := filepath.Join(t.TempDir(), "script.gdb")
	corethreads(t, exitDone, "gdb-script", crashed.Core, "-o", script)
	out := coretest.GDB(t, "-x", script, "-ex", `print $tls("app::tagged")`, "-ex", `print $tls("tagged")`)
	want := fmt.Sprintf("= %s\n", crashed.Truth.Thread(t, "main").TLS["app::tagged"].Value)
	if strings.Count(out, want) != 2 {
		t.Errorf("%q is not in it twice:\n%s", want, out)
	}
}

// TestGDBScriptWithoutTypes strips the program of its debug information: values
// then come by their size.
func TestGDBScriptWithoutTypes(t *testing.T) {
	exe := coretest.Compile(t, "threads.c", "-g0")
	crashed := coretest.Crash(t, exe, coretest.Run{Args: []string{"zombie-default"}})
	script := filepath.Join(t.TempDir(), "script.gdb")
	corethreads(t, exitDone, "gdb-script", crashed.Core, "-o", script)
	out := coretest.GDB(t, append(append(append([]string{}, withoutThreadDB...), "-x", script), eachThread(`$tls("tls_int")`)...)...)
	wantValues(t, out, crashed.Truth)
}
