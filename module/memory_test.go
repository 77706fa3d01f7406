package module

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
)

// The kernel dumps no code; the program wrote down some of its own.
func TestMemoryFromFiles(t *testing.T) {
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	d := crash(t, exe, "dlopen", library)
	s := load(t, d.core, Config{})
	at := d.symbols["own_function"]
	want, err := hex.DecodeString(d.code)
	if err != nil || len(want) < 16 {
		t.Fatal(d.code, err)
	}
	got := make([]byte, len(want))
	if n, _ := s.core.ReadMemory(got, at); n > 0 {
		t.Fatal("the core has the code: the test shows nothing")
	}
	n, from, err := s.ReadMemoryFrom(got, at)
	if err != nil || n != len(want) || !bytes.Equal(got, want) {
		t.Errorf("own_function is %x, %v; it was %x", got[:n], err, want)
	}
	if from.Core || len(from.Files) != 1 || from.Files[0] != s.Executable().File {
		t.Errorf("own_function comes from %+v", from)
	}

	// The header page is in the core, the code behind it in the file.
	im := s.Executable().image
	both := make([]byte, 0x1010)
	n, from, err = s.ReadMemoryFrom(both, im.base)
	if err != nil || n != len(both) || !bytes.Equal(both, contents(t, exe)[:len(both)]) {
		t.Errorf("the first pages of the program: %d bytes, %v", n, err)
	}
	if !from.Core || len(from.Files) != 1 {
		t.Errorf("they come from %+v", from)
	}

	// All that the loader left unchanged in libc: its constants.
	libc := named(t, s, "libc.so.6")
	for _, sec := range libc.File.Sections {
		if sec.Name != ".rodata" {
			continue
		}
		b := make([]byte, sec.Size)
		if n, err := s.ReadMemory(b, libc.Bias+elfcore.Addr(sec.Addr)); err != nil || n != len(b) || !bytes.Equal(b, contents(t, libc.File.Path)[sec.Offset:][:sec.Size]) {
			t.Errorf(".rodata of libc: %d of %d bytes, %v", n, len(b), err)
		}
	}
}

// What could be written is never taken from a file, nor anything that is not
// certain to have been mapped.
func TestMemoryThatNoFileHas(t *testing.T) {
	exe, library := build(t, "mapped.c", "mapped"), buildLibrary(t)
	d := crash(t, exe, "dlopen", library, "filter", "1")
	fault := func(s *Set, name string) {
		t.Helper()
		b := make([]byte, 4)
		n, from, err := s.ReadMemoryFrom(b, d.symbols[name])
		var f *elfcore.Fault
		if n != 0 || !errors.As(err, &f) || f.Addr != d.symbols[name] || from.Core || from.Files != nil {
			t.Errorf("%s: %d bytes, %v, from %+v", name, n, err, from)
		}
	}
	s := load(t, d.core, Config{})
	b := make([]byte, 4)
	if _, err := s.ReadMemory(b, d.symbols["own_constant"]); err != nil || !bytes.Equal(b, []byte{43, 0, 0, 0}) {
		t.Errorf("own_constant is %x, %v", b, err)
	}
	if _, err := s.ReadMemory(b, d.symbols["own_variable"]); err != nil || b[0] == 42 {
		t.Errorf("own_variable, which the program changed, is %x, %v", b, err)
	}
	// A core that lost the variable's bytes.
	whole := contents(t, d.core)
	offset, ok := s.core.Locate(d.symbols["own_variable"])
	if !ok {
		t.Fatal("own_variable is not in the core")
	}
	cut := load(t, write(t, filepath.Join(t.TempDir(), "core"), whole[:offset]), Config{})
	fault(cut, "own_variable")

	none := crash(t, exe, "dlopen", library, "filter", "0")
	d.symbols = none.symbols
	uncertain := load(t, none.core, Config{})
	for _, name := range []string{"own_variable", "own_constant", "own_function"} {
		fault(uncertain, name)
	}
	if err := os.Rename(exe, exe+".away"); err != nil {
		t.Fatal(err)
	}
	d = crash(t, exe+".away", "filter", "1")
	if err := os.Rename(exe+".away", exe); err != nil {
		t.Fatal(err)
	}
	fault(load(t, d.core, Config{}), "own_constant")
}

// Code with relocations in it is not what the file has.
func TestMemoryWithTextRelocations(t *testing.T) {
	library := buildLibrary(t, "-m32", "-fno-pic", "-Wl,-z,notext", "-Wl,--no-warnings", "-Wl,-w")
	d := crash(t, build(t, "mapped.c", "mapped", "-m32"), "dlopen", library)
	s := load(t, d.core, Config{})
	m := named(t, s, "liblibrary.so")
	found := m.Lookup("library_function")
	if len(found) != 1 {
		t.Fatalf("library_function is %v", found)
	}
	if !m.File.textRelocations() {
		t.Fatal("the library has no relocations of its code: the test shows nothing")
	}
	at, _ := found[0].Address()
	b := make([]byte, 16)
	if _, from, _ := s.ReadMemoryFrom(b, at); len(from.Files) > 0 {
		t.Errorf("code with relocations comes from %s", from.Files[0])
	}
}

// Some producers leave segments out that they do not dump, and NT_FILE alone
// tells that there was memory.
func TestMemoryWithoutSegment(t *testing.T) {
	d := crash(t, build(t, "mapped.c", "mapped"))
	at := d.symbols["own_function"]
	seg, ok := load(t, d.core, Config{}).core.Segment(at)
	if !ok {
		t.Fatal("there is no segment of the code")
	}
	core := contents(t, d.core)
	const ehdr, phdr = 64, 56
	clear(core[ehdr+seg.Index*phdr:][:4]) // p_type: PT_NULL
	s := load(t, write(t, filepath.Join(t.TempDir(), "core"), core), Config{})
	if _, ok := s.core.Segment(at); ok {
		t.Fatal("there still is a segment of the code")
	}
	want, err := hex.DecodeString(d.code)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := s.ReadMemory(got, at); err != nil || !bytes.Equal(got, want) {
		t.Errorf("own_function is %x, %v; it was %x", got, err, want)
	}
}
