package tls_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// damaged spoils what leads to the block of a module with dynamic storage, and
// wants to be told that it cannot be found, and why: never another address.
func (m *modules) damaged(t *testing.T) {
	c := coretest.Crash(t, m.exe, coretest.Run{Args: append([]string{"5", "300"}, m.args...)})
	whole, err := os.ReadFile(c.Core)
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, c.Core, module.Config{})
	w := elfcore.Addr(d.core.Arch.WordSize())
	name, touched := d.dynamic(t, c.Truth, false)
	_, untouched := d.dynamic(t, c.Truth, true)
	x := d.thread(t, touched)
	v := d.variable(t, name)
	word := func(a elfcore.Addr) uint64 {
		value, err := d.core.Word(a)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	dtv := elfcore.Addr(word(x.Pointer + w)) // x86
	slot := func(id uint64) elfcore.Addr { return dtv + 2*w*elfcore.Addr(id) }
	list := slotList(t, d)

	for what, c := range map[string]struct {
		at    elfcore.Addr
		value uint64
		want  tls.Status
	}{
		"no dtv":                         {x.Pointer + w, 0, tls.NotInCore},
		"a dtv at an odd address":        {x.Pointer + w, uint64(dtv) + 1, tls.NotInCore},
		"a dtv where nothing is":         {x.Pointer + w, uint64(w), tls.NotInCore},
		"a dtv that was freed":           {dtv - 2*w, uint64(dtv), tls.NotInCore},
		"a generation that is a pointer": {dtv, 1 << 50, tls.NotInCore},
		"another thread's static block":  {slot(1), word(slot(1)) + 64, tls.Undecided},
		"a dtv that is too short":        {dtv - 2*w, v.Module.ID - 1, tls.NotAllocated},
		"a dtv that is too old":          {dtv, v.Module.Generation - 1, tls.NotAllocated},
		"an empty slot":                  {slot(v.Module.ID), 0, tls.NotAllocated},
		"a slot of another module":       {list + 2*w*elfcore.Addr(v.Module.ID+1) + w, 0, tls.Undecided},
	} {
		if w == 4 && what == "a generation that is a pointer" {
			continue // it cannot be told from a generation
		}
		spoilt := inspect(t, poke(t, d, whole, c.at, c.value), module.Config{})
		got := spoilt.resolver.Value(spoilt.thread(t, touched), spoilt.variable(t, name))
		if got.Status != c.want || got.Address != 0 || got.Bytes != nil || got.Why == "" {
			t.Errorf("%s: %s at %s (%s), and not %s", what, got.Status, got.Address, got.Why, c.want)
		}
	}

	// Without the list of slots a set slot may be out of date; an empty one
	// is empty all the same, and static storage needs no slot.
	spoilt := inspect(t, poke(t, d, whole, list, 0), module.Config{})
	if len(spoilt.resolver.Warnings()) == 0 {
		t.Error("the list of slots is gone, and no warning says so")
	}
	for _, want := range []struct {
		name   string
		thread coretest.TruthThread
		status tls.Status
	}{{name, touched, tls.Undecided}, {name, untouched, tls.NotAllocated}, {"own_value", touched, tls.OK}} {
		got := spoilt.resolver.Value(spoilt.thread(t, want.thread), spoilt.variable(t, want.name))
		if got.Status != want.status {
			t.Errorf("without the list of slots, %s of %s: %s (%s), and not %s", want.name, want.thread.Role, got.Status, got.Why, want.status)
		}
	}
}

// dynamic picks a variable with dynamic storage, and a thread that has touched it
// or not.
func (d *dead) dynamic(t *testing.T, truth coretest.Truth, untouched bool) (string, coretest.TruthThread) {
	t.Helper()
	for _, p := range plugs() {
		name := "value_" + p.name
		some, none := -1, -1
		for i, w := range truth.Threads {
			if want, ok := w.TLS[name]; ok && want.Addr != 0 {
				some = i
			} else if ok {
				none = i
			}
		}
		if some < 0 || none < 0 || d.variable(t, name).Module.Static {
			continue
		}
		if untouched {
			return name, truth.Threads[none]
		}
		return name, truth.Threads[some]
	}
	t.Fatal("no variable was touched by one thread and not by another")
	return "", coretest.TruthThread{}
}

// slotList finds the loader's list of slots, {len, next, {gen, map}[len]}, in
// memory: the slot of a known module holds its link map.
func slotList(t *testing.T, d *dead) elfcore.Addr {
	t.Helper()
	w := elfcore.Addr(d.core.Arch.WordSize())
	m := d.resolver.Modules()[1]
	for _, s := range d.core.Segments {
		b := make([]byte, s.FileSize)
		n, _ := d.core.ReadMemory(b, s.Start)
		for at := elfcore.Addr(0); at+w <= elfcore.Addr(n); at += w {
			list := s.Start + at - w - 2*w*elfcore.Addr(m.ID+1)
			if d.core.WordOf(b[at:]) != uint64(m.LinkMap) {
				continue
			}
			if n, err := d.core.Word(list); err == nil && n > 62 && n < 200 {
				return list
			}
		}
	}
	t.Fatal("there is no list of slots")
	return 0
}

// poke gives a core with one word changed.
func poke(t *testing.T, d *dead, whole []byte, at elfcore.Addr, value uint64) *elfcore.Core {
	t.Helper()
	offset, ok := d.core.Locate(at)
	if !ok {
		t.Fatalf("%s is not in the core", at)
	}
	b := bytes.Clone(whole)
	if d.core.Arch.WordSize() == 4 {
		d.core.ByteOrder.PutUint32(b[offset:], uint32(value))
	} else {
		d.core.ByteOrder.PutUint64(b[offset:], value)
	}
	c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(fmt.Errorf("the core with one word changed: %w", err))
	}
	return c
}
