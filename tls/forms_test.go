package tls_test

import (
	"strconv"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
)

// TestForms has the thread_local variables of C++ in all their forms, by their
// names in source. In living threads gdb must say the same.
func TestForms(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "tlsforms.cc", "-std=c++17", "-lstdc++"), coretest.Run{})
	d := open(t, c.Core, module.Config{})
	if n := d.checkAll(t, c.Truth); n != 14*4 {
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
		"app::*":              12,
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
