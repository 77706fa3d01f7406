package module

import (
	"debug/dwarf"
	"debug/elf"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
)

// nmSymbol is a line of nm.
type nmSymbol struct {
	value, size         uint64
	kind, name, version string
}

// nm lists the defined symbols of a file that have a size. kind is the name of
// the symbol's type: FUNC, OBJECT, TLS, ….
func nm(t *testing.T, flags ...string) []nmSymbol {
	t.Helper()
	var out []nmSymbol
	for _, line := range strings.Split(run(t, "nm", "binutils", append([]string{"--defined-only", "--format=sysv"}, flags...)...), "\n") {
		f := strings.Split(line, "|")
		if len(f) < 7 || strings.TrimSpace(f[4]) == "" || strings.HasPrefix(f[0], "Name ") {
			continue
		}
		value, err1 := strconv.ParseUint(f[1], 16, 64)
		size, err2 := strconv.ParseUint(f[4], 16, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("nm printed %q", line)
		}
		name, version, _ := strings.Cut(strings.TrimSpace(f[0]), "@")
		out = append(out, nmSymbol{value, size, strings.TrimSpace(f[3]), name, strings.TrimPrefix(version, "@")})
	}
	if len(out) < 5 {
		t.Fatalf("nm %v shows only %d symbols", flags, len(out))
	}
	return out
}

// checkSymbolize asks for the first and the last byte of each function and
// variable that nm shows.
func checkSymbolize(t *testing.T, m *Module, all []nmSymbol) {
	t.Helper()
	checked := 0
	for _, want := range all {
		if want.kind == "TLS" || want.size == 0 {
			continue
		}
		for _, in := range []uint64{0, want.size - 1} {
			sym, off, ok := m.Symbolize(m.Bias + elfcore.Addr(want.value+in))
			if !ok {
				t.Errorf("%#x of %s has no symbol", in, want.name)
				continue
			}
			// A symbol that lies inside of another is the better answer.
			if at := sym.Value + off; at != want.value+in || sym.Value < want.value || sym.Value == want.value && !slices.ContainsFunc(all, func(n nmSymbol) bool {
				return n.value == want.value && n.name == sym.Name && n.version == sym.Version
			}) {
				t.Errorf("%#x of %s is %s@%s+%#x", in, want.name, sym.Name, sym.Version, off)
			}
			checked++
		}
	}
	if checked < 5 {
		t.Errorf("only %d addresses were checked", checked)
	}
}

// checkLookup finds each symbol that nm shows by its name and version.
func checkLookup(t *testing.T, m *Module, all []nmSymbol) {
	t.Helper()
	for i, want := range all {
		if i%17 != 0 && len(all) > 500 {
			continue
		}
		name := want.name
		if want.version != "" {
			name += "@" + want.version
		}
		found := m.Lookup(name)
		if !slices.ContainsFunc(found, func(s Symbol) bool {
			return s.Value == want.value && s.Size == want.size && s.Name == want.name && s.Version == want.version
		}) {
			t.Errorf("%s at %#x: found %v", name, want.value, found)
		}
	}
}

func TestSymbolsAsNMShowsThem(t *testing.T) {
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	d := crash(t, exe, "dlopen", library)
	s := load(t, d.core, Config{})
	for name, at := range d.symbols {
		m := s.At(at)
		sym, off, ok := s.Symbolize(at)
		if !ok || off != 0 || name != "fprintf" && sym.Name != name {
			t.Errorf("%s is %s of %s", name, sym.Name, m)
		}
		if !slices.ContainsFunc(s.Lookup(name), func(s Symbol) bool { a, ok := s.Address(); return ok && a == at }) {
			t.Errorf("%s is not at %s: %v", name, at, s.Lookup(name))
		}
	}
	for _, path := range []string{exe, library} {
		m := named(t, s, filepath.Base(path))
		checkSymbolize(t, m, nm(t, path))
		checkLookup(t, m, nm(t, path))
	}
	// What a distribution gives has dynamic symbols with versions only; where
	// its debug file is installed, that has more.
	libc := named(t, s, "libc.so.6")
	dynamic := nm(t, "-D", libc.File.Path)
	checkLookup(t, libc, dynamic)
	stripped := load(t, d.core, Config{LibDirs: []string{filepath.Dir(libc.File.Path)}, NoHostFiles: true})
	libc = named(t, stripped, "libc.so.6")
	checkSymbolize(t, libc, dynamic)
	checkLookup(t, libc, dynamic)
	if from, err := libc.SymbolsFrom(); err != nil || len(from) != 1 || !strings.HasPrefix(from[0], "dynamic symbols of") {
		t.Errorf("symbols from %v, %v", from, err)
	}
}

// The first page of a small library has its dynamic symbols, and the kernel
// dumps it: names without any file.
func TestSymbolsFromTheCoreAlone(t *testing.T) {
	library := buildLibrary(t)
	d := crash(t, build(t, "mapped.c", "mapped"), "dlopen", library)
	want := nm(t, "-D", library)
	// Otherwise the test would show nothing.
	hide := Config{NoHostFiles: true}
	s := load(t, d.core, hide)
	m := named(t, s, "liblibrary.so")
	if m.File != nil || m.Problem == nil || m.Problem.Kind != Missing {
		t.Fatalf("file %v, problem %v", m.File, m.Problem)
	}
	checkSymbolize(t, m, want)
	checkLookup(t, m, want)
	var variables []string
	for _, v := range m.TLSSymbols() {
		variables = append(variables, v.Demangled())
	}
	slices.Sort(variables)
	if len(variables) < 2 || !slices.Contains(variables, "shop::till") || !slices.Contains(variables, "shop::Basket::weight") {
		t.Errorf("thread-locals: %v", variables)
	}
	vdso := s.first(func(m *Module) bool { return m.IsVDSO })
	if vdso == nil || len(vdso.Lookup("__vdso_clock_gettime")) != 1 {
		t.Errorf("the vDSO %v has no __vdso_clock_gettime", vdso)
	}
	libc := named(t, s, "libc.so.6")
	if syms, err := libc.SymbolsFrom(); err == nil && len(libc.Lookup("printf")) > 0 {
		t.Errorf("libc's symbols do not fit its first page, and come from %v", syms)
	}
}

func TestThreadLocals(t *testing.T) {
	for _, flags := range [][]string{nil, {"-s"}} {
		library := buildLibrary(t, flags...)
		d := crash(t, build(t, "mapped.c", "mapped"), "dlopen", library)
		m := named(t, load(t, d.core, Config{}), "liblibrary.so")
		want := make(map[string]uint64)
		table := []string{library}
		if flags != nil {
			table = []string{"-D", library}
		}
		for _, n := range nm(t, table...) {
			if n.kind == "TLS" {
				want[n.name] = n.value
			}
		}
		for _, s := range m.TLSSymbols() {
			if s.Type != elf.STT_TLS || s.Size == 0 || want[s.Name] != s.Value {
				t.Errorf("%s at %#x, nm has %#x", s.Name, s.Value, want[s.Name])
			}
			if _, ok := s.Address(); ok {
				t.Errorf("%s has one address for all threads", s.Name)
			}
			delete(want, s.Name)
		}
		if len(want) > 0 {
			t.Errorf("not found: %v", want)
		}
		if m.TLS == nil || m.TLS.MemSize == 0 || m.TLS.Source != FromCore {
			t.Errorf("TLS segment: %+v", m.TLS)
		}
	}
}

// The truth is c++filt, whose option for no parameters is -p. It also shows the
// hashes that tell crates and copies of a Rust function apart.
func TestDemangled(t *testing.T) {
	hash := regexp.MustCompile(`::h[0-9a-f]{16}$|\[[0-9a-f]+\]`)
	for _, name := range []string{
		"_ZN4shop6Basket3addEiPKc", "_ZN4shop5twiceIlEET_S1_", "_ZN4shop4tillE", "_ZZN4shop6Basket3addEiPKcE5calls",
		"_ZNSt6vectorIiSaIiEE9push_backERKi", "_ZNK4shop6BasketcvbEv", "main", "_ZTW", "_ZN",
		"_ZN4core3ptr18real_drop_in_place17h0123456789abcdefE", "_RNvCs1234_7mycrate3foo",
		"_ZN3std3sys9backtrace28__rust_begin_short_backtrace17h0123456789abcdefE", "_ZN3lib5_kept4$LT$17h0123456789abcdefE",
		"_ZN3lib13_$LT$impl$GT$3run17h0123456789abcdefE",
	} {
		s := Symbol{Name: name}
		if got, want := s.Signature(), hash.ReplaceAllString(filt(t, name), ""); got != want {
			t.Errorf("%s: %q, c++filt has %q", name, got, want)
		}
		if got, want := s.Demangled(), hash.ReplaceAllString(filt(t, "-p", name), ""); got != want {
			t.Errorf("%s without parameters: %q, c++filt has %q", name, got, want)
		}
	}
	long := Symbol{Name: "_Z" + strings.Repeat("P", 1<<20) + "i"}
	if long.Demangled() != long.Name {
		t.Error("a name of a megabyte was demangled")
	}
}

func filt(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSuffix(run(t, "c++filt", "binutils", args...), "\n")
}

// MiniDebugInfo is made as gdb's manual says: the functions that the dynamic
// symbols do not have, in an ELF file packed by xz.
func TestMiniDebugInfo(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	all := nm(t, exe)
	dir := t.TempDir()
	mini, stripped := filepath.Join(dir, "mini"), filepath.Join(dir, "stripped")
	run(t, "objcopy", "binutils", "--only-keep-debug", "--strip-debug", "--keep-file-symbols", exe, mini)
	run(t, "xz", "xz-utils", mini)
	run(t, "strip", "binutils", "-o", stripped, exe)
	run(t, "objcopy", "binutils", "--add-section", ".gnu_debugdata="+mini+".xz", stripped)

	d := crash(t, stripped)
	m := load(t, d.core, Config{}).Executable()
	if from, err := m.SymbolsFrom(); err != nil || len(from) != 2 || !strings.HasPrefix(from[1], "MiniDebugInfo") {
		t.Fatalf("symbols from %v, %v", from, err)
	}
	checkSymbolize(t, m, all)
	at := d.symbols["own_hidden_function"]
	if sym, off, ok := m.Symbolize(at + 3); !ok || sym.Name != "own_hidden_function" || off != 3 {
		t.Errorf("%s is %s+%d", at+3, sym.Name, off)
	}
}

// A label of assembler code has no size, and code behind the last symbol of a
// section is none of it.
func TestLabels(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	d := crash(t, exe)
	m := load(t, d.core, Config{}).Executable()
	init := m.Lookup("_init")
	if len(init) != 1 || init[0].Size != 0 {
		t.Fatalf("_init is %v", init)
	}
	if sym, off, ok := m.Symbolize(m.Bias + elfcore.Addr(init[0].Value) + 5); !ok || sym.Name != "_init" || off != 5 {
		t.Errorf("_init+5 is %s+%d", sym.Name, off)
	}
	for _, s := range m.File.Sections {
		if s.Name != ".plt" && s.Name != ".rodata" {
			continue
		}
		if sym, off, ok := m.Symbolize(m.Bias + elfcore.Addr(s.Addr) + elfcore.Addr(s.Size) - 1); ok && sym.Size == 0 {
			t.Errorf("the end of %s is %s+%#x", s.Name, sym.Name, off)
		}
	}
	if sym, _, ok := m.Symbolize(m.Bias + 1<<40); ok {
		t.Errorf("memory behind the program is of %s", sym.Name)
	}
}

func TestDWARF(t *testing.T) {
	for name, c := range map[string]struct{ version, compression string }{
		"version 4": {"4", "none"}, "version 5": {"5", "none"}, "zlib": {"5", "zlib"}, "zstd": {"5", "zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			exe := build(t, "mapped.c", "mapped", "-gdwarf-"+c.version)
			run(t, "objcopy", "binutils", "--compress-debug-sections="+c.compression, exe)
			m := load(t, crash(t, exe).core, Config{}).Executable()
			data, err := m.DWARF()
			if err != nil {
				t.Fatal(err)
			}
			r, found := data.Reader(), false
			for e, err := r.Next(); e != nil; e, err = r.Next() {
				if err != nil {
					t.Fatal(err)
				}
				found = found || e.Val(dwarf.AttrName) == "own_hidden_function"
			}
			if !found {
				t.Error("own_hidden_function is not in the debugging information")
			}
		})
	}
}
