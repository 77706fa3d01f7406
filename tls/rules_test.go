package tls_test

import (
	"fmt"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// rule finds a thread's block of a module, 0 for none.
type rule func(d *dead, tp elfcore.Addr, m *tls.Module) elfcore.Addr

func staticBlock(d *dead, tp elfcore.Addr, m *tls.Module) elfcore.Addr {
	if !m.Static {
		return 0
	}
	return tp - elfcore.Addr(m.Offset) // the tests run on x86: variant II
}

// fromDTV takes a block from the slot of a module; where generations count, not
// from a slot that is older than the module.
func fromDTV(d *dead, tp elfcore.Addr, id uint64, generation uint64) elfcore.Addr {
	w := elfcore.Addr(d.core.Arch.WordSize())
	word := func(a elfcore.Addr) uint64 {
		x, err := d.core.Word(a)
		if err != nil {
			return 0
		}
		return x
	}
	dtv := elfcore.Addr(word(tp + w))
	if id > word(dtv-2*w) || generation > word(dtv) {
		return 0
	}
	block := word(dtv + 2*w*elfcore.Addr(id))
	if block == 0 || block&0xffffffff == 0xffffffff {
		return 0
	}
	return elfcore.Addr(block)
}

// wrongRules shows that the histories tell rules apart: each of these ways to
// find a block, some of them those of debuggers, fails on them in the ways that
// it should.
func (m *modules) wrongRules(t *testing.T) {
	type failures struct{ missed, wrong, stale bool }
	rules := []struct {
		name  string
		find  rule
		fails failures
	}{
		{"static, else slot and generation", func(d *dead, tp elfcore.Addr, m *tls.Module) elfcore.Addr {
			if a := staticBlock(d, tp, m); a != 0 {
				return a
			}
			return fromDTV(d, tp, m.ID, m.Generation)
		}, failures{}},
		{"slot without generation", func(d *dead, tp elfcore.Addr, m *tls.Module) elfcore.Addr {
			return fromDTV(d, tp, m.ID, 0)
		}, failures{missed: true, wrong: true, stale: true}},
		{"slot and generation, not static", func(d *dead, tp elfcore.Addr, m *tls.Module) elfcore.Addr {
			return fromDTV(d, tp, m.ID, m.Generation)
		}, failures{missed: true}},
		{"static, else slot without generation", func(d *dead, tp elfcore.Addr, m *tls.Module) elfcore.Addr {
			if a := staticBlock(d, tp, m); a != 0 {
				return a
			}
			return fromDTV(d, tp, m.ID, 0)
		}, failures{stale: true}},
		{"numbers by the order of the link maps", func(d *dead, tp elfcore.Addr, m *tls.Module) elfcore.Addr {
			return fromDTV(d, tp, d.rank(m), 0)
		}, failures{missed: true, wrong: true, stale: true}},
	}
	count := make([]struct{ missed, wrong, stale int }, len(rules))
	pairs := 0
	for seed := range 8 {
		c := coretest.Crash(t, m.exe, coretest.Run{Args: append([]string{fmt.Sprint(100 + seed), "300"}, m.args...)})
		d := open(t, c.Core, module.Config{})
		for _, w := range c.Truth.Threads {
			tp := d.thread(t, w).Pointer
			for name, want := range w.TLS {
				v := d.variable(t, name)
				pairs++
				for i := range rules {
					block := rules[i].find(d, tp, v.Module)
					switch {
					case block == 0 && want.Addr != 0:
						count[i].missed++
					case block != 0 && want.Addr == 0:
						count[i].stale++
					case block != 0 && block+elfcore.Addr(v.Offset) != elfcore.Addr(want.Addr):
						count[i].wrong++
					}
				}
			}
		}
	}
	for i, r := range rules {
		t.Logf("%s: of %d pairs %d missed, %d at a wrong address, %d shown though never touched", r.name, pairs, count[i].missed, count[i].wrong, count[i].stale)
		n := count[i]
		if i == 0 && n.missed+n.wrong+n.stale > 0 {
			t.Errorf("the rule %q fails", r.name)
		}
		if r.fails.missed && n.missed == 0 || r.fails.wrong && n.wrong == 0 || r.fails.stale && n.stale == 0 {
			t.Errorf("the rule %q does not fail in all of these ways: %+v", r.name, r.fails)
		}
	}
}

// rank is the place of a module among those with thread-local storage, from 1.
func (d *dead) rank(m *tls.Module) uint64 {
	rank := uint64(0)
	for _, o := range d.set.Modules {
		if o.TLS != nil && o.Original == nil {
			rank++
		}
		if o == m.Module {
			break
		}
	}
	return rank
}
