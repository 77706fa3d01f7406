package tls_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
)

// TestModules is about processes that load and unload modules, start threads,
// and touch some variables.
func TestModules(t *testing.T) {
	for _, bits := range []string{"-m64", "-m32"} {
		m := buildModules(t, bits)
		t.Run(bits, func(t *testing.T) {
			t.Run("histories", m.histories)
			t.Run("shot", m.shot)
			t.Run("rules", m.wrongRules)
			t.Run("damaged", m.damaged)
			t.Run("audited", m.audited)
			t.Run("by-loader", m.startedByLoader)
			t.Run("unaligned", m.unaligned)
		})
	}
}

// histories compares every thread and module with what the process wrote down,
// and with gdb.
func (m *modules) histories(t *testing.T) {
	for seed := range 6 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			steps := 100 + 50*seed
			c := coretest.Crash(t, m.exe, coretest.Run{Args: append([]string{fmt.Sprint(seed), fmt.Sprint(steps)}, m.args...)})
			d := open(t, c.Core, module.Config{})
			if n := d.checkAll(t, c.Truth); n < 20 {
				t.Errorf("only %d pairs of a thread and a module", n)
			}
			for _, x := range d.resolver.Modules() {
				if x.Moving || x.ID == 0 {
					t.Errorf("module %d, %s, is said to be on the move", x.ID, x)
				}
			}
			for _, w := range d.resolver.Warnings() {
				t.Errorf("warning: %s", w)
			}
			compareWithGDB(t, d, c, m.bits == "-m32")
		})
	}
}

// compareWithGDB compares addresses in living threads with those that gdb and
// libthread_db find: all in a core that misleads nobody, and in another those
// of all threads but the shadowed one.
func compareWithGDB(t *testing.T, d *dead, c coretest.Crashed, is32 bool) {
	var names []string
	for name := range c.Truth.Threads[0].TLS {
		if !strings.HasPrefix(name, "value_space") { // gdb 13 reads one namespace
			names = append(names, name)
		}
	}
	theirs := gdbAddresses(t, c.Exe, c.Core, names)
	agreed, misled := 0, 0
	for _, w := range c.Truth.Threads {
		if !w.Lives() {
			continue
		}
		for _, name := range names {
			ours, gdb := d.resolver.Value(d.thread(t, w), d.variable(t, name)), theirs[w.LWP()][name]
			switch {
			case w.LWP() == c.Truth.ShadowedLWP:
				if gdb != ours.Address.String() {
					misled++
				}
			case ours.Address != 0 && gdb == ours.Address.String(), ours.Address == 0 && strings.HasPrefix(gdb, "error: "):
				agreed++
			case ours.Address == 0 && is32:
				// A 64-bit libthread_db takes the -1 of an unset slot for an
				// address.
			default:
				t.Errorf("%s of %s: gdb says %s, we say %s at %s", name, w.Role, gdb, ours.Status, ours.Address)
			}
		}
	}
	if agreed == 0 {
		t.Error("gdb agrees about nothing")
	}
	if c.Truth.ShadowedLWP != 0 && misled == 0 {
		t.Errorf("thread %d is said to be shadowed, but gdb is right about it", c.Truth.ShadowedLWP)
	}
}
