package module

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// build compiles a source of testdata and gives the path of the result.
func build(t testing.TB, source, name string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), name)
	compiler := coretest.Tool(t, "gcc", "gcc g++ gcc-multilib")
	args := []string{"-g", "-O1", "-Wall", "-Wextra", "-Werror", "-o", out, filepath.Join("testdata", source)}
	coretest.Output(t, compiler, append(args, flags...)...)
	return out
}

func buildLibrary(t testing.TB, flags ...string) string {
	t.Helper()
	return build(t, "library.cc", "liblibrary.so", append([]string{"-shared", "-fPIC"}, flags...)...)
}

// dead is a core of testdata/mapped.c and what the program wrote down.
type dead struct {
	dir, core string
	maps      []truthMap
	symbols   map[string]elfcore.Addr
	code      string
	glibc     string
	// mapped are the lines of /proc/self/maps that have a path.
	mapped []truthMapping
}

type truthMap struct {
	namespace         int
	at, addr, dynamic elfcore.Addr
	name              string
}

type truthMapping struct {
	elfcore.Range
	perms, path string
}

// crash runs a program until it dumps core in a folder of its own.
func crash(t testing.TB, command ...string) dead {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(string(pattern), "|/") {
		t.Fatalf("this test needs cores in the working directory, and kernel.core_pattern is %q: sysctl -w kernel.core_pattern=core", pattern)
	}
	d := dead{dir: t.TempDir(), symbols: make(map[string]elfcore.Addr)}
	script := fmt.Sprintf(`cd '%s' && ulimit -c unlimited && { "$@"; [ $? -eq 134 ]; }`, d.dir)
	coretest.Output(t, coretest.Tool(t, "sh", "dash"), append([]string{"-c", script, "sh"}, command...)...)
	cores, err := filepath.Glob(filepath.Join(d.dir, "core*"))
	if err != nil || len(cores) != 1 {
		t.Fatalf("%v left no core (%v, %v)", command, cores, err)
	}
	d.core = cores[0]
	d.readTruth(t)
	d.readMaps(t)
	return d
}

func (d *dead) readTruth(t testing.TB) {
	t.Helper()
	for _, line := range lines(t, filepath.Join(d.dir, "truth")) {
		kind, rest, _ := strings.Cut(line, " ")
		f := strings.Split(rest, " ")
		switch kind {
		case "map":
			n, err := strconv.Atoi(f[0])
			if err != nil {
				t.Fatal(err)
			}
			d.maps = append(d.maps, truthMap{n, number(t, f[1]), number(t, f[2]), number(t, f[3]), f[4]})
		case "symbol":
			d.symbols[f[0]] = number(t, f[1])
		case "code":
			d.code = f[0]
		case "glibc":
			d.glibc = f[0]
		}
	}
}

func (d *dead) readMaps(t testing.TB) {
	t.Helper()
	for _, line := range lines(t, filepath.Join(d.dir, "maps")) {
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		start, end, _ := strings.Cut(f[0], "-")
		d.mapped = append(d.mapped, truthMapping{elfcore.Range{Start: number(t, "0x"+start), End: number(t, "0x"+end)}, f[1], strings.Join(f[5:], " ")})
	}
}

func number(t testing.TB, text string) elfcore.Addr {
	t.Helper()
	if text == "(nil)" {
		return 0
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return elfcore.Addr(n)
}

func lines(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// load opens a core and loads its modules.
func load(t testing.TB, core string, cfg Config) *Set {
	t.Helper()
	c, err := elfcore.Open(core)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(context.Background(), c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		c.Close()
	})
	return s
}

// named finds the module whose file has a name.
func named(t testing.TB, s *Set, name string) *Module {
	t.Helper()
	for _, m := range s.Modules {
		if filepath.Base(m.Path) == name {
			return m
		}
	}
	t.Fatalf("there is no module %s among %v", name, s.Modules)
	return nil
}

// run gives what a tool prints.
func run(t testing.TB, tool, debianPackage string, args ...string) string {
	t.Helper()
	return coretest.Output(t, coretest.Tool(t, tool, debianPackage), args...)
}

func contents(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t testing.TB, path string, b []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
