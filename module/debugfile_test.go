package module

import (
	"os"
	"path/filepath"
	"testing"
)

// split strips a program as distributions do, and gives its debug file.
func split(t *testing.T, exe string, link bool) (debug string) {
	t.Helper()
	debug = filepath.Join(t.TempDir(), filepath.Base(exe)+".debug")
	run(t, "objcopy", "binutils", "--only-keep-debug", exe, debug)
	run(t, "strip", "binutils", exe)
	if link {
		run(t, "objcopy", "binutils", "--add-gnu-debuglink="+debug, exe)
	}
	return debug
}

func checkDebug(t *testing.T, d dead, cfg Config, path, how string, proof Proof) {
	t.Helper()
	m := load(t, d.core, cfg).Executable()
	f := m.DebugFile()
	if f == nil {
		t.Fatal("no debug file was found")
	}
	if f.Path != path || f.How != how || f.Proof != proof {
		t.Errorf("debug file %s, proof %s; not %s by %s, proof %s", f, f.Proof, path, how, proof)
	}
	at := d.symbols["own_hidden_function"]
	if sym, off, ok := m.Symbolize(at + 2); !ok || off != 2 || sym.Name != "own_hidden_function" {
		t.Errorf("%s is %s+%d", at+2, sym.Name, off)
	}
	if _, err := m.DWARF(); err != nil {
		t.Error(err)
	}
}

func TestDebugFileByBuildID(t *testing.T) {
	exe := build(t, "mapped.c", "mapped")
	debug := split(t, exe, false)
	d := crash(t, exe)
	m := load(t, d.core, Config{}).Executable()
	if m.DebugFile() != nil || len(m.Lookup("own_hidden_function")) > 0 {
		t.Fatal("the program is not stripped")
	}
	if _, err := m.DWARF(); err == nil {
		t.Error("a stripped program has debugging information")
	}
	id := m.BuildID.String()

	at := write(t, filepath.Join(t.TempDir(), "any-name"), contents(t, debug))
	checkDebug(t, d, Config{LibDirs: []string{filepath.Dir(at)}}, at, "--lib-dir, by build-id", ByBuildID)
	tree := t.TempDir()
	at = write(t, filepath.Join(tree, ".build-id", id[:2], id[2:]+".debug"), contents(t, debug))
	checkDebug(t, d, Config{LibDirs: []string{tree}}, at, "--lib-dir, by build-id", ByBuildID)
	root := t.TempDir()
	at = write(t, filepath.Join(root, "usr/lib/debug/.build-id", id[:2], id[2:]+".debug"), contents(t, debug))
	checkDebug(t, d, Config{Sysroots: []string{root}}, at, "build-id", ByBuildID)

	// Given as the program, it is not one, but still of use; also alone.
	s := load(t, d.core, Config{Exe: debug})
	if m := s.Executable(); m.File == nil || m.File.Path != exe || len(m.Rejected) != 1 || m.Rejected[0].Problem.Kind != DebugOnly {
		t.Errorf("file %v, rejected %+v", m.File, m.Rejected)
	}
	checkDebug(t, d, Config{Exe: debug}, debug, "--exe", ByBuildID)
	checkDebug(t, d, Config{Exe: debug, NoHostFiles: true}, debug, "--exe", ByBuildID)
}

func TestDebugFileByLink(t *testing.T) {
	exe := build(t, "mapped.c", "mapped", "-Wl,--build-id=none")
	debug := split(t, exe, true)
	name := filepath.Base(debug)
	d := crash(t, exe)
	dir, root := filepath.Dir(exe), t.TempDir()
	wrong := build(t, "mapped.c", "mapped", "-Wl,--build-id=none", "-O2")

	places := []struct {
		path string
		cfg  Config
	}{
		{filepath.Join(dir, name), Config{}},
		{filepath.Join(dir, ".debug", name), Config{}},
		{filepath.Join(root, "usr/lib/debug", dir, name), Config{Sysroots: []string{root}}},
	}
	for _, p := range places {
		write(t, p.path, contents(t, wrong))
	}
	if f := load(t, d.core, places[2].cfg).Executable().DebugFile(); f != nil {
		t.Errorf("%s has another checksum, and is used", f)
	}
	// Of each place, those before it hold a wrong file.
	for _, p := range places {
		write(t, p.path, contents(t, debug))
		checkDebug(t, d, p.cfg, p.path, ".gnu_debuglink", ByChecksum)
		if err := os.WriteFile(p.path, contents(t, wrong), 0); err != nil {
			t.Fatal(err)
		}
	}
}
