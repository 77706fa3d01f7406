package tls_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// TestKindsOfPrograms compares all thread-locals of programs of all kinds, an
// exited thread's among them, with their words.
func TestKindsOfPrograms(t *testing.T) {
	for _, flags := range [][]string{
		{"-pie"}, {"-no-pie"}, {"-static"}, {"-static-pie"}, {"-m32"}, {"-m32", "-static"}, {"-m32", "-no-pie"},
		{"-Wl,--build-id=none"}, {"-Wl,-z,noseparate-code"}, {"-Wl,--hash-style=sysv"}, {"-fsanitize=address"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			t.Parallel()
			c := coretest.Crash(t, coretest.Compile(t, "threads.c", flags...), coretest.Run{
				Args: []string{"zombies-many"},
				Env:  []string{"ASAN_OPTIONS=disable_coredump=0:detect_leaks=0"},
			})
			d := open(t, c.Core, module.Config{})
			if n := d.checkAll(t, c.Truth); n != 3*len(c.Truth.Threads) {
				t.Errorf("%d variables of %d threads were compared", n, len(c.Truth.Threads))
			}
		})
	}
}

// TestGcore reads a dump that gdb made of the living process.
func TestGcore(t *testing.T) {
	c := coretest.Gcore(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}})
	d := open(t, c.Core, module.Config{})
	if n := d.checkAll(t, c.Truth); n != 3*len(c.Truth.Threads) {
		t.Errorf("%d variables of %d threads were compared", n, len(c.Truth.Threads))
	}
}

// TestEdges has threads on their way in and out, and forked children.
func TestEdges(t *testing.T) {
	for source, scenarios := range map[string][]string{
		"edges.c": {"exit-keydtor", "exit-tlsdtor", "exit-syscall", "main-exited"},
		"forks.c": {"fork-child", "fork-child-zombie", "_Fork-child", "rawclone-child"},
	} {
		exe := coretest.Compile(t, source)
		for _, scenario := range scenarios {
			t.Run(scenario, func(t *testing.T) {
				t.Parallel()
				c := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}})
				if n := open(t, c.Core, module.Config{}).checkAll(t, c.Truth); n < 3 {
					t.Errorf("only %d variables were compared", n)
				}
			})
		}
	}
}

// stripped takes the symbols of a program into a file of their own, as
// distributions do.
func stripped(t *testing.T, exe, debug string, link bool) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(debug), 0o700); err != nil {
		t.Fatal(err)
	}
	objcopy := coretest.Tool(t, "objcopy", "binutils")
	coretest.Output(t, objcopy, "--only-keep-debug", exe, debug)
	coretest.Output(t, objcopy, "--strip-all", exe)
	if link {
		coretest.Output(t, objcopy, "--add-gnu-debuglink="+debug, exe)
	}
}

// TestSeparateDebugFiles has the names of a stripped program in another file.
func TestSeparateDebugFiles(t *testing.T) {
	run := coretest.Run{Args: []string{"zombie-user"}}
	t.Run("debuglink", func(t *testing.T) {
		exe := coretest.Compile(t, "threads.c")
		stripped(t, exe, exe+".debug", true)
		c := coretest.Crash(t, exe, run)
		d := open(t, c.Core, module.Config{})
		if n := d.checkAll(t, c.Truth); n != 3*len(c.Truth.Threads) {
			t.Errorf("%d variables were compared", n)
		}
	})
	t.Run("build-id", func(t *testing.T) {
		exe, lib := coretest.Compile(t, "threads.c"), t.TempDir()
		stripped(t, exe, filepath.Join(lib, "some.debug"), false)
		c := coretest.Crash(t, exe, run)
		d := open(t, c.Core, module.Config{LibDirs: []string{lib}})
		if n := d.checkAll(t, c.Truth); n != 3*len(c.Truth.Threads) {
			t.Errorf("%d variables were compared", n)
		}
	})
	t.Run("none", func(t *testing.T) {
		exe := coretest.Compile(t, "threads.c")
		stripped(t, exe, filepath.Join(t.TempDir(), "elsewhere"), false)
		c := coretest.Crash(t, exe, run)
		d := open(t, c.Core, module.Config{})
		found, err := d.resolver.Find(d.vars, "tls_int")
		if err != nil || len(found) != 0 {
			t.Errorf("%d variables are called tls_int without symbols (%v)", len(found), err)
		}
		// The blocks are there all the same.
		for _, w := range c.Truth.Threads {
			block := d.resolver.Block(d.thread(t, w), d.resolver.Modules()[0])
			want := w.TLS["tls_int"].Addr
			if at := coretest.Address(block.Address); block.Status != tls.OK || at > want || want-at > 64 {
				t.Errorf("the block of %s is said to be at %s (%s), and its tls_int was at %#x", w.Role, block.Address, block.Status, want)
			}
		}
	})
}

// TestHugeExecutable has a program of a gibibyte, of which no more is read than
// its headers and its symbols.
func TestHugeExecutable(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}})
	if err := os.Truncate(c.Exe, 1<<30); err != nil {
		t.Fatal(err)
	}
	before := bytesRead(t)
	d := open(t, c.Core, module.Config{NoHostFiles: true, Exe: c.Exe})
	if n := d.checkAll(t, c.Truth); n != 3*len(c.Truth.Threads) {
		t.Errorf("%d variables were compared", n)
	}
	const most = 16 << 20
	if n := bytesRead(t) - before; n > most {
		t.Errorf("%d bytes were read, of a core and symbols that have less than %d", n, most)
	}
}

// bytesRead is what this process has read from files so far (proc(5), rchar).
func bytesRead(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	if _, err := fmt.Sscanf(string(b), "rchar: %d", &n); err != nil {
		t.Fatalf("/proc/self/io says %q: %v", b, err)
	}
	return n
}
