package tls_test

import (
	"fmt"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// shot looks at processes that died at a random moment, while modules were being
// loaded, unloaded and touched. What they claim is in their memory.
func (m *modules) shot(t *testing.T) {
	pairs, undecided := 0, 0
	// On a busy machine many die before they have loaded much.
	for seed := 0; seed < 12 || pairs < 300 && seed < 60; seed++ {
		c := coretest.Crash(t, m.exe, coretest.Run{Args: append([]string{fmt.Sprint(1000 + seed), "0"}, m.args...)})
		n, u := checkClaims(t, open(t, c.Core, module.Config{}), m.list)
		pairs, undecided = pairs+n, undecided+u
	}
	if pairs < 100 || undecided > pairs/10 {
		t.Errorf("%d pairs of a thread and a module, %d undecided", pairs, undecided)
	}
}

// checkClaims compares with the arrays claims and handles of tlsmodules.c. It
// gives the number of claims, and for how many the answer was that it cannot be
// decided.
func checkClaims(t *testing.T, d *dead, list []plug) (pairs, undecided int) {
	const maxPlugs, untouched = 96, 1 // of tlsmodules.c
	handles, claims := d.array(t, "handles"), d.array(t, "claims")
	for i, handle := range handles {
		if handle == 0 {
			continue
		}
		thread, ok := tls.Thread{}, false
		for _, x := range d.resolver.Threads() {
			if x.Pthread == elfcore.Addr(handle) {
				thread, ok = x, true
			}
		}
		for j, p := range list {
			claim := claims[i*maxPlugs+j]
			if claim == 0 {
				continue
			}
			if !ok {
				t.Errorf("no thread has the descriptor %#x", handle)
				break
			}
			pairs++
			got := d.resolver.Value(thread, d.variable(t, "value_"+p.name))
			switch {
			case got.Status == tls.Undecided:
				undecided++
			case claim == untouched && got.Status == tls.NotAllocated:
			case claim != untouched && got.Status == tls.OK && got.Address == elfcore.Addr(claim):
			default:
				t.Errorf("value_%s of thread %d, %#x: %s at %s (%s %s), claimed %#x", p.name, i, handle, got.Status, got.Address, got.How, got.Why, claim)
			}
		}
	}
	return pairs, undecided
}

// array reads an array of words of the program.
func (d *dead) array(t *testing.T, name string) []uint64 {
	t.Helper()
	s := d.set.Lookup(name)
	if len(s) != 1 {
		t.Fatalf("%d symbols are called %s", len(s), name)
	}
	at, _ := s[0].Address()
	b := make([]byte, s[0].Size)
	if _, err := d.core.ReadMemory(b, at); err != nil {
		t.Fatal(err)
	}
	var out []uint64
	for w := d.core.Arch.WordSize(); len(b) >= w; b = b[w:] {
		out = append(out, d.core.WordOf(b))
	}
	return out
}
