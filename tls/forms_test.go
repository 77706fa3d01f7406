package tls_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// TestForms has the thread_local variables of C++ in all their forms, by their
// names in source. In living threads gdb must say the same.
func TestForms(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "tlsforms.cc", "-std=c++17", "-lstdc++"), coretest.Run{})
	d := open(t, c.Core, module.Config{})
	if n := d.checkAll(t, c.Truth); n != 18*4 {
		t.Errorf("%d variables were compared", n)
	}
	for _, name := range []string{"app::plain", "app::shared", "app::narrow", "global"} {
		theirs := coretest.GDBThreadLocals(t, c.Exe, c.Core, name)
		for _, w := range c.Truth.Threads {
			if want := string(w.TLS[name].Value); w.Lives() && theirs[w.LWP()] != want {
				t.Errorf("%s of %s: gdb says %s, the program said %s", name, w.Role, theirs[w.LWP()], want)
			}
		}
	}
}

// TestStatics has static variables of one name in two source files: both are
// found, each with its file.
func TestStatics(t *testing.T) {
	dir := t.TempDir()
	source, err := os.ReadFile(filepath.Join("..", "testdata", "programs", "tlsplug.c"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []string
	for i, name := range []string{"one", "two"} {
		c, o := filepath.Join(dir, name+".c"), filepath.Join(dir, name+".o")
		if err := os.WriteFile(c, source, 0o600); err != nil {
			t.Fatal(err)
		}
		coretest.Output(t, coretest.Tool(t, "gcc", "gcc"), "-g", "-c", c, "-o", o, "-DNAME=same", fmt.Sprintf("-DINITIAL=%d", 31+i))
		// What is global in it becomes static.
		coretest.Output(t, coretest.Tool(t, "objcopy", "binutils"), "--keep-global-symbol=none", o)
		objects = append(objects, o)
	}
	c := coretest.Crash(t, coretest.Compile(t, "threads.c", objects...), coretest.Run{Args: []string{"healthy"}})
	d := open(t, c.Core, module.Config{})
	found, err := d.resolver.Find(d.vars, "value_same")
	if err != nil || len(found) != 2 {
		t.Fatalf("%d variables, not 2 (%v)", len(found), err)
	}
	got := make(map[string]uint64)
	for _, v := range found {
		got[filepath.Base(v.Unit)] = d.number(d.resolver.Value(d.resolver.Threads()[0], &v).Bytes)
	}
	if got["one.c"] != 31 || got["two.c"] != 32 {
		t.Errorf("the values by source file are %v", got)
	}
}

// TestMembers follows a pointer to an object, and says why it cannot.
func TestMembers(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "tlsforms.cc", "-std=c++17", "-lstdc++"), coretest.Run{})
	d := open(t, c.Core, module.Config{})
	for pointed, direct := range map[string]string{
		"app::current->id":                      "app::engine.id",
		"app::current->pair.second":             "app::engine.pair.second",
		"app::current->self->self->pair.second": "app::engine.pair.second",
		"app::engine.self->either":              "app::engine.either",
		"app::seen->pair.second":                "app::engine.pair.second",
	} {
		v := d.variable(t, pointed)
		for _, w := range c.Truth.Threads {
			if w.Role != "idle" {
				d.check(t, w, v, w.TLS[direct])
				continue
			}
			if got := d.resolver.Value(d.thread(t, w), v); got.Status != tls.NotInCore || got.Address != 0 || got.Why != "the pointer is null" {
				t.Errorf("%s of a thread whose pointer is null: %s at %s (%s)", pointed, got.Status, got.Address, got.Why)
			}
		}
	}
	for name, size := range map[string]uint64{"app::engine.parts": 24, "app::engine.pair": 4, "app::current->self": 8} {
		if v := d.variable(t, name); v.Size != size {
			t.Errorf("%s is said to have %d bytes, not %d", name, v.Size, size)
		}
	}
	for name, want := range map[string]string{
		"app::engine.none":     "type Engine has no member none",
		"app::engine->id":      "-> wants a pointer, but app::engine is of type Engine: use . instead",
		"app::current->id.x":   "type int has no member x",
		"app::plain.x":         "type int has no member x",
		"app::engine.parts.x":  "has no member x",
		"app::engine.self->no": "type Engine has no member no",
		"app::current.id":      "app::current is a pointer: use ->",
		"app::elsewhere->x":    "declares the type Elsewhere but does not define it",
		"app::engine.self.id":  "app::engine.self is a pointer: use ->",
	} {
		if found, err := d.resolver.Find(d.vars, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d found, error %v, and not one with %q", name, len(found), err, want)
		}
	}
}

// TestDefinedElsewhere has a member of a type that the variable's source file only
// declares, and another defines.
func TestDefinedElsewhere(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.cc")
	if err := os.WriteFile(other, []byte(`namespace app { struct Elsewhere { long before; int x; } here; }`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := coretest.Crash(t, coretest.Compile(t, "tlsforms.cc", "-std=c++17", other, "-lstdc++"), coretest.Run{})
	d := open(t, c.Core, module.Config{})
	main := d.thread(t, c.Truth.Threads[0])
	pointer, member := d.resolver.Value(main, d.variable(t, "app::elsewhere")), d.variable(t, "app::elsewhere->x")
	if at := d.number(pointer.Bytes) + 8; member.Size != 4 || d.resolver.Value(main, member).Address != elfcore.Addr(at) {
		t.Errorf("the member is at %s and has %d bytes, and should be at %#x and have 4", d.resolver.Value(main, member).Address, member.Size, at)
	}
}

// TestNames asks for variables in all the ways in which people may.
func TestNames(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "tlsforms.cc", "-std=c++17", "-lstdc++"), coretest.Run{})
	d := open(t, c.Core, module.Config{})
	for name, want := range map[string]int{
		"plain":               1,
		"app::plain":          1,
		"_ZN3app5plainE":      1,
		"instances":           1,
		"Widget::instances":   1,
		"Widget::Part::parts": 1,
		"Part::parts":         1,
		"tagged":              1,
		"app::tagged":         1,
		"tagged[abi:second]":  1,
		"tagged[abi:first]":   0,
		"dget::instances":     0,
		"calls":               2,
		"next()::calls":       1,
		"app::next()::calls":  1,
		"app::next::calls":    1,
		"previous::calls":     1,
		"hidden":              1,
		"app::hidden":         1,
		"last":                2,
		"Box<long>::last":     1,
		"in_c":                1,
		"IN_C":                0,
		"":                    0,
		"app::":               0,
		"::global":            1,
		"::app::plain":        1,
		"app::*":              17,
		"*::calls":            2,
		"app::Widget::*":      2,
		"glob??":              1,
		"[gi]*":               2,
		"[":                   0,
		"*nothing*":           0,
	} {
		found, err := d.resolver.Find(d.vars, name)
		if err != nil || len(found) != want {
			var got []string
			for _, v := range found {
				got = append(got, v.Name)
			}
			t.Errorf("%s: %d variables, not %d: %q (%v)", strconv.Quote(name), len(found), want, got, err)
		}
	}
}
