package module

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
)

// checkMaps compares the modules with the link maps that the program walked.
func checkMaps(t *testing.T, s *Set, d dead) {
	t.Helper()
	var got []truthMap
	for _, m := range s.Modules {
		if m.LinkMap != 0 {
			got = append(got, truthMap{m.Namespace, m.LinkMap, m.Bias, m.Dynamic, m.Name})
		}
	}
	if !slices.Equal(got, d.maps) {
		t.Errorf("modules\n%v\nthe program's link maps\n%v", got, d.maps)
	}
}

// checkMappings compares the modules' memory with /proc/self/maps.
func checkMappings(t *testing.T, s *Set, d dead) {
	t.Helper()
	checked := 0
	for _, e := range d.mapped {
		if !strings.HasPrefix(e.path, "/") {
			continue
		}
		m := s.At(e.Start)
		if m == nil || m.Path != e.path || s.At(e.End-1) != m {
			t.Errorf("%s is of %s, not of %v", e.Range, e.path, m)
		}
		checked++
	}
	if checked < 5 {
		t.Errorf("only %d mappings in maps", checked)
	}
}

// checkBuildIDs compares where modules are and their build-ids with what
// elfutils finds in the core.
func checkBuildIDs(t *testing.T, s *Set, core string) {
	t.Helper()
	line := regexp.MustCompile(`^0x([0-9a-f]+)\+0x[0-9a-f]+ ([0-9a-f]+)@`)
	found := 0
	for _, l := range strings.Split(run(t, "eu-unstrip", "elfutils", "-n", "--core", core), "\n") {
		f := line.FindStringSubmatch(l)
		if f == nil {
			continue
		}
		m := s.At(number(t, "0x"+f[1]))
		if m == nil || m.BuildID.String() != f[2] {
			t.Errorf("eu-unstrip says %q, the module is %v", l, m)
		}
		found++
	}
	if found < 3 {
		t.Errorf("eu-unstrip shows only %d modules", found)
	}
}

// The truth is what the dying program wrote of its own link maps and mappings,
// and elfutils.
func TestModulesOfALivingProgram(t *testing.T) {
	library := buildLibrary(t)
	for name, flags := range map[string][]string{
		"pie":        nil,
		"no-pie":     {"-no-pie"},
		"sysv-hash":  {"-Wl,--hash-style=sysv", "-Wl,-z,noseparate-code"},
		"relro":      {"-Wl,-z,now"},
		"large-page": {"-Wl,-z,max-page-size=0x200000"},
	} {
		t.Run(name, func(t *testing.T) {
			exe := build(t, "mapped.c", "mapped", flags...)
			d := crash(t, exe, "dlopen", library, "dlmopen", library, "dlmopen", library)
			s := load(t, d.core, Config{})
			checkMaps(t, s, d)
			checkMappings(t, s, d)
			checkBuildIDs(t, s, d.core)
			for _, m := range s.Modules {
				switch {
				case m.IsVDSO:
				case m.File == nil || m.File.Proof != ByBuildID || m.Problem != nil:
					t.Errorf("%s: file %v, problem %v", m, m.File, m.Problem)
				case !os.SameFile(stat(t, m.File.Path), stat(t, m.Path)):
					t.Errorf("%s was found at %s", m, m.File.Path)
				}
				if m.ProgramsFrom != FromCore {
					t.Errorf("%s: program headers from %q", m, m.ProgramsFrom)
				}
			}
			if len(s.Warnings) > 0 {
				t.Errorf("warnings: %v", s.Warnings)
			}
			if m := s.Executable(); m == nil || m.Path != exe || m != s.Modules[0] {
				t.Errorf("the program is %v", m)
			}
			if m := s.Loader(); m == nil || !strings.HasPrefix(filepath.Base(m.Path), "ld-linux") {
				t.Errorf("the loader is %v", m)
			}
		})
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func Test32Bit(t *testing.T) {
	exe := build(t, "mapped.c", "mapped", "-m32")
	library := buildLibrary(t, "-m32")
	d := crash(t, exe, "dlopen", library, "dlmopen", library)
	s := load(t, d.core, Config{})
	checkMaps(t, s, d)
	checkMappings(t, s, d)
	checkBuildIDs(t, s, d.core)
}

// A library that is mapped twice, in two namespaces, is two modules; the loader,
// mapped once, is one module with two link maps.
func TestNamespaces(t *testing.T) {
	library := buildLibrary(t)
	d := crash(t, build(t, "mapped.c", "mapped"), "dlopen", library, "dlmopen", library)
	s := load(t, d.core, Config{})
	libraries, repeats := 0, 0
	for _, m := range s.Modules {
		if m.Path == library {
			libraries++
			if m.Original != nil || s.At(m.Ranges[0].Start) != m {
				t.Errorf("%s in namespace %d: original %v", m, m.Namespace, m.Original)
			}
		}
		if m.Original != nil {
			repeats++
			if m.Original != s.Loader() || m.Namespace != 1 || m.File != s.Loader().File {
				t.Errorf("%s in namespace %d repeats %v", m, m.Namespace, m.Original)
			}
		}
	}
	if libraries != 2 || repeats != 1 {
		t.Errorf("%d libraries, %d repeated link maps", libraries, repeats)
	}
	if found := s.Lookup("library_function"); len(found) != 2 || found[0].Module == found[1].Module {
		t.Errorf("library_function is %v", found)
	}
}

// AT_PHDR and AT_ENTRY are of the loader then, and AT_BASE is 0.
func TestLoaderRunByHand(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	interpreter := regexp.MustCompile(`interpreter: (\S+)\]`).FindStringSubmatch(run(t, "readelf", "binutils", "-lW", exe))
	if interpreter == nil {
		t.Fatal("readelf shows no interpreter")
	}
	d := crash(t, interpreter[1], exe)
	s := load(t, d.core, Config{})
	checkMaps(t, s, d)
	checkMappings(t, s, d)
	if m := s.Executable(); m == nil || m.Path != exe || m.File == nil || m.TLS == nil {
		t.Errorf("the program is %v", m)
	}
	if m := s.Loader(); m == nil || !isLoaderName(m.Path) || m.File == nil {
		t.Errorf("the loader is %v", m)
	}
}

func TestStatic(t *testing.T) {
	for _, flag := range []string{"-static", "-static-pie"} {
		t.Run(flag, func(t *testing.T) {
			exe := build(t, "mapped.c", "mapped", flag, "-DSTATIC", "-Wno-unused", "-Wl,-w")
			d := crash(t, exe)
			s := load(t, d.core, Config{})
			checkProgramMapping(t, s, d)
			m := s.Executable()
			if m == nil || m.Path != exe || m.File == nil || m.File.Proof != ByBuildID {
				t.Fatalf("the program is %v", m)
			}
			if s.Loader() != nil {
				t.Errorf("the loader of a static program is %v", s.Loader())
			}
			for name, at := range d.symbols {
				if sym, off, ok := s.Symbolize(at); !ok || off != 0 || sym.Name != name && name != "fprintf" {
					t.Errorf("%s at %s is %q+%d", name, at, sym.Name, off)
				}
			}
			if v := s.first(func(m *Module) bool { return m.IsVDSO }); v == nil {
				t.Error("there is no vDSO")
			}
		})
	}
}

// checkProgramMapping compares a static program with /proc/self/maps.
func checkProgramMapping(t *testing.T, s *Set, d dead) {
	t.Helper()
	for _, e := range d.mapped {
		if strings.HasPrefix(e.path, "/") {
			if m := s.At(e.Start); m == nil || m.Path != e.path {
				t.Errorf("%s is of %s, not of %v", e.Range, e.path, m)
			}
		}
	}
}

// poke changes a word of the dead process in its core.
func poke(t *testing.T, path string, at elfcore.Addr, word uint64) {
	t.Helper()
	c, err := elfcore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	offset, ok := c.Locate(at)
	if !ok {
		t.Fatalf("%s is not in the core", at)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 8)
	c.ByteOrder.PutUint64(b, word)
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
}

// A chain that is broken in the middle is reported; what lies behind the break
// is found by NT_FILE, each module once.
func TestBrokenChain(t *testing.T) {
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	const next = 24 // offsetof(struct link_map, l_next)
	for name, word := range map[string]func(d dead) uint64{
		"cycle":    func(d dead) uint64 { return uint64(d.maps[0].at) },
		"itself":   func(d dead) uint64 { return uint64(d.maps[2].at) },
		"unmapped": func(dead) uint64 { return 0x1000 },
		"ends":     func(dead) uint64 { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			d := crash(t, exe, "dlopen", library)
			poke(t, d.core, d.maps[2].at+next, word(d))
			s := load(t, d.core, Config{})
			if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Text, "chain of link maps") {
				t.Errorf("warnings: %v", s.Warnings)
			}
			d.maps = d.maps[:3]
			checkMaps(t, s, d)
			checkMappings(t, s, d)
			if s.Loader() == nil {
				t.Error("the loader was not found")
			}
		})
	}
}

// Whatever is left of a core, the modules are those of the whole one, or fewer.
func TestCutCore(t *testing.T) {
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	d := crash(t, exe, "dlopen", library)
	whole := contents(t, d.core)
	bias := make(map[string]elfcore.Addr)
	for _, m := range load(t, d.core, Config{}).Modules {
		bias[m.Path] = m.Bias
	}
	found := 0
	for i := range 24 {
		cut := write(t, filepath.Join(t.TempDir(), "core"), whole[:4096+i*(len(whole)-4096)/24])
		for _, m := range load(t, cut, Config{}).Modules {
			if m.Path == "" || !m.BiasKnown {
				continue
			}
			if b, ok := bias[m.Path]; !ok && filepath.IsAbs(m.Path) || ok && b != m.Bias {
				t.Errorf("cut %d: %s has bias %s", i, m, m.Bias)
			}
			found++
		}
	}
	if found < 24 {
		t.Errorf("only %d modules were found in 24 cut cores", found)
	}
}

// hideNotes gives the notes of a type another, unknown one.
func hideNotes(t *testing.T, path string, typ elf.NType) {
	t.Helper()
	core := contents(t, path)
	head := binary.LittleEndian.AppendUint32(nil, uint32(typ))
	head = append(head, "CORE\x00"...)
	hidden := bytes.ReplaceAll(core, head, append([]byte{0, 0, 0, 0x7f}, "CORE\x00"...))
	if bytes.Equal(hidden, core) {
		t.Fatalf("the core has no note of type %d", typ)
	}
	write(t, path, hidden)
}

// Without the auxiliary vector, names and headers lead to the link maps; without
// NT_FILE, the link maps do alone; without both nothing does, and that is said.
func TestMissingNotes(t *testing.T) {
	const auxv, file = 6, 0x46494c45 // NT_AUXV, NT_FILE
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	t.Run("auxv", func(t *testing.T) {
		d := crash(t, exe, "dlopen", library)
		hideNotes(t, d.core, auxv)
		s := load(t, d.core, Config{})
		checkMaps(t, s, d)
		checkMappings(t, s, d)
		if s.Loader() == nil || s.Executable() == nil || s.Executable().File == nil {
			t.Errorf("loader %v, program %v", s.Loader(), s.Executable())
		}
	})
	t.Run("file", func(t *testing.T) {
		d := crash(t, exe, "dlopen", library)
		hideNotes(t, d.core, file)
		s := load(t, d.core, Config{})
		checkMaps(t, s, d)
		for _, m := range s.Modules {
			if !m.IsVDSO && (m.File == nil || m.File.Proof != ByBuildID) {
				t.Errorf("%s: file %v, problem %v", m, m.File, m.Problem)
			}
		}
	})
	t.Run("both", func(t *testing.T) {
		d := crash(t, exe, "dlopen", library)
		hideNotes(t, d.core, auxv)
		hideNotes(t, d.core, file)
		if s := load(t, d.core, Config{}); len(s.Modules) > 0 || len(s.Warnings) != 1 {
			t.Errorf("modules %v, warnings %v", s.Modules, s.Warnings)
		}
	})
}

// Neither headers nor, in the first, link maps are in these cores.
func TestFilteredCore(t *testing.T) {
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	for _, bits := range []string{"0", "1"} {
		t.Run(bits, func(t *testing.T) {
			d := crash(t, exe, "dlopen", library, "filter", bits)
			s := load(t, d.core, Config{})
			checkMappings(t, s, d)
			if bits == "1" {
				checkMaps(t, s, d)
			}
			for _, m := range s.Modules {
				if m.IsVDSO {
					continue
				}
				proof, from := ByLayout, FromFile
				if bits == "0" {
					proof, from = ByMappings, FromNowhere
				}
				if m.File == nil || m.File.Proof != proof || m.BuildID != nil || m.ProgramsFrom != from {
					t.Errorf("%s: file %v, problem %v, program headers from %q", m, m.File, m.Problem, m.ProgramsFrom)
				}
				for _, l := range d.maps {
					if l.name == m.Name && bits == "1" && l.addr != m.Bias || l.name == m.Path && l.addr != m.Bias {
						t.Errorf("%s has bias %s", m, m.Bias)
					}
				}
			}
		})
	}
}
