package nptl_test

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// overlay is a file with some bytes that are not the file's.
type overlay struct {
	file  io.ReaderAt
	edits []edit
}

type edit struct {
	at    int64
	bytes []byte
}

func (o *overlay) ReadAt(b []byte, at int64) (int, error) {
	n, err := o.file.ReadAt(b, at)
	end := at + int64(n)
	for _, e := range o.edits {
		if e.at < end && at < e.at+int64(len(e.bytes)) {
			from, to := max(e.at, at), min(e.at+int64(len(e.bytes)), end)
			copy(b[from-at:to-at], e.bytes[from-e.at:])
		}
	}
	return n, err
}

// victim is a real core that edits are made to.
type victim struct {
	*elfcore.Core
	*overlay
	whole *nptl.Process // what is said of it without edits
	word  uint64
}

// write puts bytes at an address of the dead process.
func (v *victim) write(t *testing.T, a elfcore.Addr, b []byte) {
	t.Helper()
	at, ok := v.Locate(a)
	last, ok2 := v.Locate(a + elfcore.Addr(len(b)-1))
	if !ok || !ok2 || last-at != int64(len(b)-1) {
		t.Fatalf("the core does not hold %d bytes at %s in one piece", len(b), a)
	}
	v.edits = append(v.edits, edit{at, b})
}

func (v *victim) pokeWord(t *testing.T, a, value elfcore.Addr) {
	t.Helper()
	b := make([]byte, v.word)
	if v.word == 4 {
		v.ByteOrder.PutUint32(b, uint32(value))
	} else {
		v.ByteOrder.PutUint64(b, uint64(value))
	}
	v.write(t, a, b)
}

// read gives what is said of the edited core.
func (v *victim) read(t *testing.T) *nptl.Process {
	t.Helper()
	c, err := elfcore.New(v.overlay, v.Size)
	if err != nil {
		t.Fatal(err)
	}
	return nptl.Read(c, nil)
}

func (v *victim) states() map[uint64]nptl.State {
	out := make(map[uint64]nptl.State)
	for _, h := range v.whole.Handles {
		out[uint64(h.Pthread)] = h.State
	}
	return out
}

// edit makes every edit at some members of a list.
func (v *victim) edit(t *testing.T, l *nptl.List, sites []int) int {
	made := 0
	for _, at := range sites {
		node := l.Nodes[at]
		if _, inFile := v.Mapping(node); inFile {
			continue // zeroes there could be anybody's
		}
		for name, e := range edits {
			v.edits = nil
			e.do(t, v, l, at)
			made++
			t.Run(fmt.Sprintf("%s/%d/%s", l.Kind, at, name), func(t *testing.T) {
				p := v.read(t)
				want := v.states()
				if e.change != nil {
					e.change(v, want, l.Nodes[at])
				}
				wantStates(t, p, want)
				got := p.List(l.Kind)
				switch {
				case got == nil && len(l.Nodes) > 1:
					t.Fatalf("no list %s any more: %+v", l.Kind, p.Lists)
				case got != nil && got.End != e.end:
					t.Errorf("%s ends %s, should be %s", l.Kind, got.End, e.end)
				case e.end == nptl.Closed && e.change == nil:
					if diff := cmp.Diff(told(v.Core, v.whole.Handles), told(v.Core, p.Handles)); diff != "" {
						t.Errorf("handles (- before, + after the edit):\n%s", diff)
					}
				}
			})
		}
	}
	return made
}

// sites are the first, a middle and the last of n members of a list, or of many
// cores only a middle one.
func (c *realCore) sites(n int) []int {
	switch {
	case n == 0:
		return nil
	case !c.own:
		return []int{n / 2}
	}
	return slices.Compact([]int{0, n / 2, n - 1})
}

// edits are what can happen to a member of a list: how the list then ends, and
// how the states of the handles change, if they do.
var edits = map[string]struct {
	do     func(t *testing.T, v *victim, l *nptl.List, at int)
	end    nptl.EndReason
	change func(v *victim, states map[uint64]nptl.State, node elfcore.Addr)
}{
	"next is 0": {
		do:  func(t *testing.T, v *victim, l *nptl.List, at int) { v.pokeWord(t, l.Nodes[at], 0) },
		end: nptl.Zero,
	},
	"next is itself": {
		do:  func(t *testing.T, v *victim, l *nptl.List, at int) { v.pokeWord(t, l.Nodes[at], l.Nodes[at]) },
		end: nptl.Cycle,
	},
	"next is first": {
		do:  func(t *testing.T, v *victim, l *nptl.List, at int) { v.pokeWord(t, l.Nodes[at], l.Nodes[0]) },
		end: nptl.Cycle,
	},
	"next is nowhere": {
		do:  func(t *testing.T, v *victim, l *nptl.List, at int) { v.pokeWord(t, l.Nodes[at], 0x10) },
		end: nptl.Unreadable,
	},
	"memory is zeroes": {
		do: func(t *testing.T, v *victim, l *nptl.List, at int) {
			v.write(t, l.Nodes[at], make([]byte, 0x400))
		},
		end:    nptl.Zeroes,
		change: func(v *victim, states map[uint64]nptl.State, node elfcore.Addr) { delete(states, v.pthread(node)) },
	},
	"prev is nowhere": {
		do: func(t *testing.T, v *victim, l *nptl.List, at int) {
			v.pokeWord(t, l.Nodes[at]+elfcore.Addr(v.word), 0x10)
		},
	},
	"head's next is nowhere": {
		do:  func(t *testing.T, v *victim, l *nptl.List, _ int) { v.pokeWord(t, l.Head, 0x10) },
		end: nptl.Unreadable,
	},
	"head's prev is nowhere": {
		do: func(t *testing.T, v *victim, l *nptl.List, _ int) { v.pokeWord(t, l.Head+elfcore.Addr(v.word), 0x10) },
	},
	"no robust list": {
		do: func(t *testing.T, v *victim, l *nptl.List, at int) {
			v.pokeWord(t, l.Nodes[at]+elfcore.Addr(v.whole.Layout.RobustHead), 0)
		},
	},
	"unlinked": {
		do: func(t *testing.T, v *victim, l *nptl.List, at int) {
			ring := append([]elfcore.Addr{l.Head}, l.Nodes...)
			prev, next := ring[at], ring[(at+2)%len(ring)]
			v.pokeWord(t, prev, next)
			v.pokeWord(t, next+elfcore.Addr(v.word), prev)
		},
		change: func(v *victim, states map[uint64]nptl.State, node elfcore.Addr) { delete(states, v.pthread(node)) },
	},
	"skipped by its predecessor": {
		do: func(t *testing.T, v *victim, l *nptl.List, at int) {
			ring := append([]elfcore.Addr{l.Head}, l.Nodes...)
			v.pokeWord(t, ring[at], ring[(at+2)%len(ring)])
		},
		change: func(v *victim, states map[uint64]nptl.State, node elfcore.Addr) { delete(states, v.pthread(node)) },
	},
	"id is -1": {
		do: func(t *testing.T, v *victim, l *nptl.List, at int) {
			v.write(t, l.Nodes[at]+elfcore.Addr(2*v.word), []byte{0xff, 0xff, 0xff, 0xff})
		},
		change: func(v *victim, states map[uint64]nptl.State, node elfcore.Addr) {
			if states[v.pthread(node)] != nptl.Live {
				states[v.pthread(node)] = nptl.Retired
			}
		},
	},
}

func (v *victim) pthread(node elfcore.Addr) uint64 {
	return uint64(node) - v.whole.Layout.Header
}
