package tls_test

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
)

// history crashes tlsmodules, started by the words before, and compares all of
// its threads and modules with its words.
func history(t *testing.T, start, args []string, env ...string) (*dead, coretest.Crashed) {
	t.Helper()
	words := slices.Concat(start[1:], []string{"7", "200"}, args)
	c := coretest.Crash(t, start[0], coretest.Run{Args: words, Env: env})
	d := open(t, c.Core, module.Config{})
	if n := d.checkAll(t, c.Truth); n < 20 {
		t.Errorf("only %d pairs of a thread and a module", n)
	}
	return d, c
}

// copies makes modules that all have the variable value_twin.
func copies(t *testing.T, mark string, n int) (args []string) {
	t.Helper()
	dir := t.TempDir()
	first := buildPlug(t, dir, plug{name: "twin", flags: []string{"-DINITIAL=9"}})
	b, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("twin_%d.so", i))
		if err := os.WriteFile(path, b, 0o700); err != nil {
			t.Fatal(err)
		}
		args = append(args, mark+path)
	}
	return args
}

// TestManyModules needs more slots than the first element of the list has, and
// dtvs that had to grow. All modules have the variable, and each uses its own,
// since dlopen keeps them apart.
func TestManyModules(t *testing.T) {
	exe := coretest.Compile(t, "tlsmodules.c")
	d, _ := history(t, []string{exe}, copies(t, "=", 80))
	found, err := d.resolver.Find(d.vars, "value_twin")
	if err != nil || len(found) != 80 {
		t.Fatalf("%d variables of the name, not 80 (%v)", len(found), err)
	}
	for _, v := range found {
		if !v.Bound {
			t.Errorf("the variable of %s is said to be unused", v.Module)
		}
	}
}

// TestPreloadedTwin has two modules at the start that define one variable: code
// of both uses that of the first.
func TestPreloadedTwin(t *testing.T) {
	exe := coretest.Compile(t, "tlsmodules.c")
	both := copies(t, "", 2)
	c := coretest.Crash(t, exe, coretest.Run{
		Args: []string{"7", "100", "=" + both[1]},
		Env:  []string{"LD_PRELOAD=" + both[0] + " " + both[1]},
	})
	d := open(t, c.Core, module.Config{})
	found, err := d.resolver.Find(d.vars, "value_twin")
	if err != nil || len(found) != 2 {
		t.Fatalf("%d variables of the name, not 2 (%v)", len(found), err)
	}
	if !found[0].Bound || found[1].Bound || found[0].Module.Path != both[0] {
		t.Errorf("%s is said to be used: %t; %s: %t", found[0].Module, found[0].Bound, found[1].Module, found[1].Bound)
	}
	// Asked for its variable, the second answered with the first's. What it
	// said of threads that had not touched that one does not hold here.
	touched := 0
	for _, w := range c.Truth.Threads {
		if want := w.TLS["value_twin_1"]; want.Addr != 0 {
			d.check(t, w, &found[0], want)
			touched++
		}
	}
	if touched == 0 {
		t.Error("no thread touched the variable")
	}
}

// TestHiddenTwin has a module that defines a variable which the program, in front
// of it, has too but does not export: each uses its own.
func TestHiddenTwin(t *testing.T) {
	exe := coretest.Compile(t, "tlsmodules.c")
	own := buildPlug(t, t.TempDir(), plug{name: "own", flags: []string{"-Dvalue_own=own_value"}})
	c := coretest.Crash(t, exe, coretest.Run{Args: []string{"7", "100", "=" + own}, Env: []string{"LD_PRELOAD=" + own}})
	d := open(t, c.Core, module.Config{})
	found, err := d.resolver.Find(d.vars, "own_value")
	if err != nil || len(found) != 2 || !found[0].Bound || !found[1].Bound {
		t.Fatalf("%d variables of the name, not 2 that are both used: %v (%v)", len(found), found, err)
	}
	for _, w := range c.Truth.Threads {
		d.check(t, w, &found[0], w.TLS["own_value"])
		// It is static, and the program does not know that.
		if want := w.TLS["value_own"]; want.Addr != 0 {
			d.check(t, w, &found[1], want)
		}
	}
}

// audited has a module of LD_AUDIT, which takes a number before libc does.
func (m *modules) audited(t *testing.T) {
	audit := buildPlug(t, t.TempDir(), plug{name: "audit", flags: []string{"-DAUDIT", "-DINITIAL=8"}}, m.bits)
	d, _ := history(t, []string{m.exe}, m.args, "LD_AUDIT="+audit)
	v := d.variable(t, "value_audit")
	if v.Module.Namespace == 0 || v.Module.ID != 2 {
		t.Errorf("the audit module is number %d in namespace %d", v.Module.ID, v.Module.Namespace)
	}
}

// startedByLoader runs the program as an argument of the loader, of which the
// auxiliary vector then speaks.
func (m *modules) startedByLoader(t *testing.T) {
	f, err := elf.Open(m.exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	interp, err := f.Section(".interp").Data()
	if err != nil {
		t.Fatal(err)
	}
	history(t, []string{string(interp[:len(interp)-1]), m.exe}, m.args)
}

// unaligned has initial images at addresses that are no multiples of the
// alignment, as linkers may make them.
func (m *modules) unaligned(t *testing.T) {
	dir := t.TempDir()
	var args []string
	raised := 0
	for i, arg := range m.args {
		from := strings.TrimPrefix(arg, m.list[i].mark)
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.Base(from))
		if err := os.WriteFile(to, b, 0o700); err != nil {
			t.Fatal(err)
		}
		raised += raiseAlignment(t, to)
		args = append(args, m.list[i].mark+to)
	}
	if raised < len(args)/2 {
		t.Fatalf("only %d images of %d were made unaligned", raised, len(args))
	}
	history(t, []string{m.exe}, args)
}

// raiseAlignment makes p_align of a file's PT_TLS larger, so that p_vaddr is no
// multiple of it. It gives 0 where that cannot be.
func raiseAlignment(t *testing.T, path string) int {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for i, p := range f.Progs {
		if p.Type != elf.PT_TLS {
			continue
		}
		align := p.Align
		for align < 512 && p.Vaddr%align == 0 {
			align *= 2
		}
		if p.Vaddr%align == 0 {
			return 0
		}
		// Elf64_Phdr: p_align is the last of eight words, behind 64 bytes of
		// header; Elf32_Phdr: the last of 8 words of 32 bits, behind 52.
		at, field := int64(64+56*i+48), make([]byte, 8)
		if f.Class == elf.ELFCLASS32 {
			at, field = int64(52+32*i+28), make([]byte, 4)
		}
		field[0], field[1] = byte(align), byte(align>>8)
		if _, err := file.WriteAt(field, at); err != nil {
			t.Fatal(err)
		}
		return 1
	}
	return 0
}
