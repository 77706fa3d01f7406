package tls_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/tls"
)

// dead is a core with all that is known of it.
type dead struct {
	core     *elfcore.Core
	process  *nptl.Process
	set      *module.Set
	resolver *tls.Resolver
	vars     []tls.Variable
}

// open reads a core. Files are looked for where the core says, and where cfg
// does.
func open(t testing.TB, path string, cfg module.Config) *dead {
	t.Helper()
	c, err := elfcore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return inspect(t, c, cfg)
}

// inspect finds what there is to know of a core.
func inspect(t testing.TB, c *elfcore.Core, cfg module.Config) *dead {
	t.Helper()
	set, err := module.Load(t.Context(), c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	p := nptl.Read(c, nil)
	r := tls.New(c, p, set)
	return &dead{core: c, process: p, set: set, resolver: r, vars: r.Variables()}
}

// thread finds the thread, or what it left, by its descriptor.
func (d *dead) thread(t testing.TB, w coretest.TruthThread) tls.Thread {
	t.Helper()
	for _, x := range d.resolver.Threads() {
		if x.Pthread == elfcore.Addr(w.Pthread) {
			if (x.LWP >= 0) != w.Lives() || w.Lives() && d.core.Threads[x.LWP].TID != w.LWP() {
				t.Errorf("%s at %s: is thread %d of the core, should be %d (%s)", w.Role, x.Pthread, x.LWP, w.LWP(), w.State)
			}
			return x
		}
	}
	t.Fatalf("no thread has the descriptor %#x of %s", w.Pthread, w.Role)
	return tls.Thread{}
}

// variable finds the variable of a name in a truth. Of several it is the one in
// the module for which tlsmodules.c made up the name.
func (d *dead) variable(t testing.TB, name string) *tls.Variable {
	t.Helper()
	found, err := d.resolver.Find(d.vars, name)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 1 {
		return &found[0]
	}
	for i := range d.vars {
		if file := filepath.Base(d.vars[i].Module.String()); "value_"+strings.TrimSuffix(file, ".so") == name && strings.HasPrefix(d.vars[i].Name, "value_") {
			return &d.vars[i]
		}
	}
	t.Fatalf("%d variables are called %s, and none is in a module of that name", len(found), name)
	return nil
}

// number decodes an integer as the program's byte order has it.
func (d *dead) number(b []byte) uint64 {
	b = slices.Clone(b)
	if d.core.ByteOrder.String() == "BigEndian" {
		slices.Reverse(b)
	}
	var x uint64
	for i, c := range b {
		x |= uint64(c) << (8 * i)
	}
	return x
}

// wantNumber is a number of a truth: decimal, or hexadecimal with 0x.
func wantNumber(t testing.TB, s coretest.Text, size int) uint64 {
	t.Helper()
	x, err := strconv.ParseInt(string(s), 0, 64)
	if err != nil {
		u, uerr := strconv.ParseUint(string(s), 0, 64)
		if uerr != nil {
			t.Fatal(err)
		}
		x = int64(u)
	}
	return uint64(x) & (1<<(8*size-1)<<1 - 1)
}

// check compares a variable of one thread with the program's words; it tells
// whether they agree.
func (d *dead) check(t testing.TB, w coretest.TruthThread, v *tls.Variable, want coretest.TruthTLS) bool {
	t.Helper()
	got := d.resolver.Value(d.thread(t, w), v)
	if want.Addr == 0 {
		if got.Status != tls.NotAllocated || got.Address != 0 || got.Bytes != nil {
			t.Errorf("%s of %s (%s): %s at %s (%s %s), but it was never touched", v.Name, w.Role, w.State, got.Status, got.Address, got.How, got.Why)
			return false
		}
		return true
	}
	if got.Status != tls.OK || got.Address != elfcore.Addr(want.Addr) {
		t.Errorf("%s of %s (%s): %s at %s (%s %s), the program said %#x", v.Name, w.Role, w.State, got.Status, got.Address, got.How, got.Why, want.Addr)
		return false
	}
	if len(got.Bytes) != want.Size {
		t.Errorf("%s of %s: %d bytes, the program said %d", v.Name, w.Role, len(got.Bytes), want.Size)
		return false
	}
	x := d.number(got.Bytes)
	if want.Kind == "cstr" {
		s, err := d.core.CString(elfcore.Addr(x), 4096)
		if coretest.Address(x) != want.Ptr || err != nil || s != string(want.Value) {
			t.Errorf("%s of %s: %#x %q (%v), the program said %#x %q", v.Name, w.Role, x, s, err, want.Ptr, want.Value)
			return false
		}
		return true
	}
	if x != wantNumber(t, want.Value, want.Size) {
		t.Errorf("%s of %s: %#x, the program said %s", v.Name, w.Role, x, want.Value)
		return false
	}
	return true
}

// checkAll compares all variables of all threads and zombies with the truth,
// and gives how many comparisons that were.
func (d *dead) checkAll(t testing.TB, truth coretest.Truth) int {
	t.Helper()
	n := 0
	for _, w := range truth.Threads {
		if !w.Lives() && w.State != "zombie" {
			continue
		}
		for name, want := range w.TLS {
			d.check(t, w, d.variable(t, name), want)
			n++
		}
	}
	return n
}

// plug is a module made of testdata/programs/tlsplug.c.
type plug struct {
	name string
	// mark is what tlsmodules wants to be told of it.
	mark  string
	flags []string
}

// plugs are of all kinds of storage that a module can have.
func plugs() []plug {
	const ie, desc = "-ftls-model=initial-exec", "-mtls-dialect=gnu2"
	out := []plug{
		{"data", "", []string{"-DINITIAL=101"}},
		{"bss", "", nil},
		{"large", "", []string{"-DBYTES=8192"}},
		{"page", "", []string{"-DINITIAL=102", "-DALIGN=4096"}},
		{"line", "", []string{"-DALIGN=64", "-DBYTES=3"}},
		{"static_data", "?", []string{ie, "-DINITIAL=103"}},
		{"static_bss", "?", []string{ie}},
		{"static_line", "?", []string{ie, "-DALIGN=64", "-DINITIAL=104"}},
		{"desc_data", "?", []string{desc, "-DINITIAL=105"}},
		{"desc_bss", "?", []string{desc, "-DBYTES=40"}},
		{"desc_large", "?", []string{desc, "-DBYTES=8192", "-DINITIAL=106"}},
		{"space", "@", []string{"-DINITIAL=107"}},
	}
	for i := range 4 {
		out = append(out, plug{fmt.Sprintf("more_%d", i), "", []string{fmt.Sprintf("-DINITIAL=%d", 200+i)}})
	}
	return out
}

// modules is testdata/programs/tlsmodules.c with modules of all kinds.
type modules struct {
	exe  string
	list []plug
	// args are the modules as tlsmodules wants them.
	args []string
	bits string
}

func buildModules(t testing.TB, bits string) *modules {
	t.Helper()
	m := &modules{exe: coretest.Compile(t, "tlsmodules.c", bits), list: plugs(), bits: bits}
	dir := t.TempDir()
	for _, p := range m.list {
		m.args = append(m.args, p.mark+buildPlug(t, dir, p, bits))
	}
	return m
}

func buildPlug(t testing.TB, dir string, p plug, flags ...string) string {
	t.Helper()
	path := filepath.Join(dir, p.name+".so")
	all := slices.Concat([]string{"-shared", "-fPIC", "-DNAME=" + p.name}, p.flags, flags)
	if err := os.Rename(coretest.Compile(t, "tlsplug.c", all...), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// gdbAddresses is where gdb finds variables in each thread, by LWP id: an
// address, or "error: " and gdb's message.
func gdbAddresses(t testing.TB, exe, core string, names []string) map[int]map[string]string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "addresses.py")
	text := fmt.Sprintf(`
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    for name in %q.split():
        try:
            value = hex(int(gdb.parse_and_eval("&" + name)))
        except gdb.error as e:
            value = "error: " + " ".join(str(e).split())
        print("address", thread.ptid[1], name, value)
`, strings.Join(names, " "))
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := coretest.GDB(t, "-ex", "file "+exe, "-ex", "core-file "+core, "-x", script)
	found := make(map[int]map[string]string)
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(f) != 4 || f[0] != "address" {
			continue
		}
		tid, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		if found[tid] == nil {
			found[tid] = make(map[string]string)
		}
		found[tid][f[2]] = f[3]
	}
	if len(found) == 0 {
		t.Fatalf("gdb shows no thread of %s:\n%s", core, out)
	}
	return found
}
