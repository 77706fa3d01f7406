package module

import (
	"bytes"
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
)

// away moves a file into a folder of its own, so that it is not found by its
// recorded path any more.
func away(t *testing.T, path, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), name)
	if err := os.Rename(path, to); err != nil {
		t.Fatal(err)
	}
	return to
}

// checkFound tells whether a module's file is the one at path, found by a rule.
func checkFound(t *testing.T, m *Module, path, how string, proof Proof) {
	t.Helper()
	if m.File == nil {
		t.Fatalf("%s was not found: %v", m, m.Problem)
	}
	if m.Problem != nil || m.File.Path != path || m.File.How != how || m.File.Proof != proof {
		t.Errorf("%s: found %s by %s, proof %s, problem %v; not %s by %s, proof %s", m, m.File.Path, m.File.How, m.File.Proof, m.Problem, path, how, proof)
	}
}

func TestFinders(t *testing.T) {
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	d := crash(t, exe, "dlopen", library)
	exe, moved := away(t, exe, "moved-program"), away(t, library, "liblibrary.so")

	s := load(t, d.core, Config{})
	for _, m := range []*Module{s.Executable(), named(t, s, "liblibrary.so")} {
		if m.File != nil || m.Problem == nil || m.Problem.Kind != Missing || !strings.Contains(m.Problem.Text, m.BuildID.String()) || len(m.Rejected) > 0 {
			t.Errorf("%s: file %v, problem %v, rejected %v", m, m.File, m.Problem, m.Rejected)
		}
	}

	t.Run("exe", func(t *testing.T) {
		s := load(t, d.core, Config{Exe: exe})
		checkFound(t, s.Executable(), exe, "--exe", ByBuildID)
	})
	t.Run("lib-dir by name", func(t *testing.T) {
		s := load(t, d.core, Config{LibDirs: []string{t.TempDir(), filepath.Dir(moved)}})
		checkFound(t, named(t, s, "liblibrary.so"), moved, "--lib-dir", ByBuildID)
	})
	t.Run("lib-dir by build-id", func(t *testing.T) {
		dir := t.TempDir()
		if err := syscall.Mkfifo(filepath.Join(dir, "a-pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "empty"), nil)
		write(t, filepath.Join(dir, "text"), []byte("not an ELF file"))
		write(t, filepath.Join(dir, "folder", "file"), nil)
		under := write(t, filepath.Join(dir, "z-other-name"), contents(t, moved))
		s := load(t, d.core, Config{LibDirs: []string{dir}, Exe: exe})
		checkFound(t, named(t, s, "liblibrary.so"), under, "--lib-dir, by build-id", ByBuildID)
		if len(s.Warnings) > 0 {
			t.Errorf("warnings: %v", s.Warnings)
		}
	})
	t.Run("sysroot", func(t *testing.T) {
		root := t.TempDir()
		at := write(t, filepath.Join(root, library), contents(t, moved))
		s := load(t, d.core, Config{Sysroots: []string{t.TempDir(), root}})
		checkFound(t, named(t, s, "liblibrary.so"), at, "--sysroot", ByBuildID)
	})
	t.Run("map", func(t *testing.T) {
		from := filepath.Dir(filepath.Dir(library))
		to := t.TempDir()
		at := write(t, filepath.Join(to, strings.TrimPrefix(library, from)), contents(t, moved))
		s := load(t, d.core, Config{PathMap: []PathMapping{{from[:len(from)-1], "/nowhere"}, {from + "/", to}, {from, "/too-late"}}})
		checkFound(t, named(t, s, "liblibrary.so"), at, "--map", ByBuildID)
	})
	t.Run("build-id", func(t *testing.T) {
		root := t.TempDir()
		id := named(t, s, "liblibrary.so").BuildID.String()
		at := write(t, filepath.Join(root, "usr/lib/debug/.build-id", id[:2], id[2:]), contents(t, moved))
		s := load(t, d.core, Config{Sysroots: []string{root}})
		checkFound(t, named(t, s, "liblibrary.so"), at, "build-id", ByBuildID)
	})
	t.Run("no such folder", func(t *testing.T) {
		s := load(t, d.core, Config{LibDirs: []string{"/no/such/folder"}})
		if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Text, "/no/such/folder") {
			t.Errorf("warnings: %v", s.Warnings)
		}
	})
}

// Each wrong program is named with what is wrong, and never used; the right one
// behind it is.
func TestWrongFiles(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	d := crash(t, exe)
	right := contents(t, exe)
	dir := t.TempDir()
	cut := bytes.Clone(right[:len(right)*2/3])
	for name, c := range map[string]struct {
		path string
		kind ProblemKind
		says string
	}{
		"other build":  {build(t, "mapped.c", "mapped", "-O2"), BuildIDDiffers, "it is another build"},
		"no build-id":  {build(t, "mapped.c", "mapped", "-Wl,--build-id=none"), BuildIDDiffers, "it has no build-id"},
		"32-bit":       {build(t, "mapped.c", "mapped", "-m32"), WrongMachine, "EM_386"},
		"missing":      {filepath.Join(dir, "missing"), Missing, "no such file"},
		"text":         {write(t, filepath.Join(dir, "text"), []byte("#!/bin/sh\nexec /usr/bin/prog\n")), NotELF, "not an ELF file"},
		"empty":        {write(t, filepath.Join(dir, "empty"), nil), NotELF, "not an ELF file"},
		"folder":       {dir, NotELF, "not an ELF file"},
		"half":         {write(t, filepath.Join(dir, "half"), right[:0x2000]), Damaged, "cut"},
		"header only":  {write(t, filepath.Join(dir, "header"), right[:40]), Damaged, "ends inside its ELF header"},
		"core itself":  {d.core, WrongMachine, "ET_CORE"},
		"object file":  {build(t, "mapped.c", "mapped.o", "-c"), WrongMachine, "ET_REL"},
		"damaged note": {write(t, filepath.Join(dir, "note"), bytes.ReplaceAll(right, []byte("GNU\x00"), []byte("XXX\x00"))), BuildIDDiffers, "it has no build-id"},
	} {
		t.Run(name, func(t *testing.T) {
			s := load(t, d.core, Config{Exe: c.path})
			m := s.Executable()
			checkFound(t, m, exe, "recorded path", ByBuildID)
			if len(m.Rejected) != 1 || m.Rejected[0].Path != c.path || m.Rejected[0].Problem.Kind != c.kind || !strings.Contains(m.Rejected[0].Problem.Text, c.says) {
				t.Errorf("rejected: %+v", m.Rejected)
			}
			if len(s.Warnings) != 1 || s.Warnings[0].Module != m || !strings.Contains(s.Warnings[0].Text, c.path) {
				t.Errorf("warnings: %v", s.Warnings)
			}
			s = load(t, d.core, Config{Exe: c.path, NoHostFiles: true})
			if m := s.Executable(); m.File != nil || m.Problem == nil || m.Problem.Kind != c.kind || !strings.Contains(m.Problem.Text, c.path) {
				t.Errorf("file %v, problem %v", m.File, m.Problem)
			}
		})
	}
	// Behind the segments there are only sections: the file serves.
	s := load(t, d.core, Config{Exe: write(t, filepath.Join(dir, "cut"), cut)})
	if m := s.Executable(); m.File == nil || m.File.How != "--exe" || len(m.File.Sections) > 0 || len(m.Lookup("printf")) > 0 || len(m.Lookup("main")) > 0 {
		t.Errorf("file %v without section headers, rejected %+v", m.File, m.Rejected)
	}
}

func TestUnreadableFile(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	d := crash(t, exe)
	if err := os.Chmod(exe, 0); err != nil {
		t.Fatal(err)
	}
	c, err := elfcore.Open(d.core)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// Nothing keeps root from reading, so this thread gives that up for files;
	// it ends with the goroutine.
	result := make(chan *Module)
	go func() {
		runtime.LockOSThread()
		const nobody = 65534
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0); errno != 0 {
			panic(errno)
		}
		s, err := Load(context.Background(), c, Config{})
		if err != nil {
			panic(err)
		}
		defer s.Close()
		result <- s.Executable()
	}()
	if m := <-result; m.File != nil || m.Problem == nil || m.Problem.Kind != NoPermission {
		t.Errorf("file %v, problem %v", m.File, m.Problem)
	}
}

func TestRemovedFile(t *testing.T) {
	library := buildLibrary(t)
	bytes := contents(t, library)
	d := crash(t, build(t, "mapped.c", "mapped"), "dlopen", library, "unlink", library)
	s := load(t, d.core, Config{})
	m := named(t, s, "liblibrary.so (deleted)")
	if m.File != nil || m.Problem.Kind != Missing || !strings.Contains(m.Problem.Text, "removed or replaced") {
		t.Errorf("file %v, problem %v", m.File, m.Problem)
	}
	// A package's new build in its place is not taken for it.
	write(t, library, contents(t, buildLibrary(t, "-DVARIANT=2")))
	s = load(t, d.core, Config{})
	m = named(t, s, "liblibrary.so (deleted)")
	if m.File != nil || m.Problem.Kind != BuildIDDiffers || len(s.Warnings) != 1 {
		t.Errorf("file %v, problem %v, warnings %v", m.File, m.Problem, s.Warnings)
	}
	at := write(t, filepath.Join(t.TempDir(), "liblibrary.so"), bytes)
	s = load(t, d.core, Config{LibDirs: []string{filepath.Dir(at)}})
	checkFound(t, named(t, s, "liblibrary.so (deleted)"), at, "--lib-dir", ByBuildID)
}

// Without a build-id, headers and layout decide.
func TestNoBuildID(t *testing.T) {
	exe := build(t, "mapped.c", "mapped", "-Wl,--build-id=none")
	library := buildLibrary(t, "-Wl,--build-id=none")
	other := buildLibrary(t, "-Wl,--build-id=none", "-DVARIANT=2", "-O3")
	stripped := filepath.Join(t.TempDir(), "liblibrary.so")
	run(t, "strip", "binutils", "-o", stripped, library)
	for bits, proof := range map[string]Proof{"0x33": ByHeaderBytes, "0x1": ByLayout, "0x0": ByMappings} {
		t.Run(bits, func(t *testing.T) {
			d := crash(t, exe, "dlopen", library, "filter", bits)
			s := load(t, d.core, Config{})
			checkFound(t, s.Executable(), exe, "recorded path", proof)
			checkFound(t, named(t, s, "liblibrary.so"), library, "recorded path", proof)
			s = load(t, d.core, Config{LibDirs: []string{filepath.Dir(stripped)}})
			checkFound(t, named(t, s, "liblibrary.so"), stripped, "--lib-dir", proof)
			s = load(t, d.core, Config{LibDirs: []string{filepath.Dir(other)}})
			m := named(t, s, "liblibrary.so")
			if proof == ByMappings {
				// Both builds are mapped alike, and nothing else is there.
				checkFound(t, m, filepath.Join(filepath.Dir(other), "liblibrary.so"), "--lib-dir", proof)
				if !strings.Contains(warnings(s, m), "names only") || m.ProgramsFrom != FromNowhere {
					t.Errorf("warnings: %v, program headers from %q", s.Warnings, m.ProgramsFrom)
				}
				return
			}
			checkFound(t, m, library, "recorded path", proof)
			if len(m.Rejected) != 1 || m.Rejected[0].Problem.Kind != LayoutDiffers {
				t.Errorf("rejected: %+v", m.Rejected)
			}
		})
	}
}

// warnings are the texts of the warnings about a module.
func warnings(s *Set, m *Module) string {
	var out []string
	for _, w := range s.Warnings {
		if w.Module == m {
			out = append(out, w.Text)
		}
	}
	return strings.Join(out, "\n")
}

// A file that is larger than memory opens by what is asked of it.
func TestLargeFileIsNotReadWhole(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	large := &sparse{start: contents(t, exe)}
	f, err := newFile(large, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if f.findBuildID() == nil || f.debugOnly() || f.cut() > 0 || f.symtab() == nil {
		t.Errorf("file %+v", f)
	}
	names := 0
	f.symtab().each(func(entry) bool { names++; return true })
	if want := 1 << 20; names == 0 || large.read > want {
		t.Errorf("read %d bytes for %d symbols", large.read, names)
	}
}

// sparse is a file that goes on with zeroes.
type sparse struct {
	start []byte
	read  int
}

func (s *sparse) ReadAt(p []byte, at int64) (int, error) {
	clear(p)
	if at < int64(len(s.start)) {
		copy(p, s.start[at:])
	}
	s.read += len(p)
	return len(p), nil
}

func TestSections(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	f, err := openFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	truth, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer truth.Close()
	if len(f.Sections) != len(truth.Sections) || len(f.Programs) != len(truth.Progs) {
		t.Fatalf("%d sections and %d program headers, not %d and %d", len(f.Sections), len(f.Programs), len(truth.Sections), len(truth.Progs))
	}
	for i, s := range truth.Sections {
		if f.Sections[i] != s.SectionHeader {
			t.Errorf("section %d is %+v, not %+v", i, f.Sections[i], s.SectionHeader)
		}
		if s.Type == elf.SHT_NULL || s.Type == elf.SHT_NOBITS {
			continue
		}
		want, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Section(s.Name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("section %s: %v", s.Name, err)
		}
	}
	for i, p := range truth.Progs {
		if f.Programs[i] != p.ProgHeader {
			t.Errorf("program header %d is %+v, not %+v", i, f.Programs[i], p.ProgHeader)
		}
	}
	if _, err := f.Section(".nosuch"); err == nil {
		t.Error("there is a section .nosuch")
	}
}
