package unwind

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/module"
)

// Where the functions of jumpInfo are, and how long each is.
const (
	jumpCode = 0x1000
	jumpSize = 0x100
)

// jumpAbbreviations are those of jumpInfo: a unit (1), a function all of whose
// calls are listed (2), one that lists some (3), a jump (4), and one through a
// pointer (5).
var jumpAbbreviations = []byte{
	1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0x13, 0x05, 0, 0,
	2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0x7a, 0x19, 0, 0,
	3, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0, 0,
	4, 0x48, 0, 0x7d, 0x01, 0x82, 0x01, 0x19, 0x7f, 0x13, 0, 0,
	5, 0x48, 0, 0x7d, 0x01, 0x82, 0x01, 0x19, 0, 0,
	0,
}

// jumpInfo makes .debug_info of functions that jump to each other: for each,
// those that it jumps to, -1 for a pointer. From the one with the number some
// on, not all calls are listed.
func jumpInfo(functions [][]int, some int) []byte {
	const header, unit, function, jump, pointer = 11, 1 + 8 + 8 + 2, 1 + 8 + 8, 1 + 8 + 4, 1 + 8
	entries := make([]uint32, len(functions))
	at := uint32(header + unit)
	for i, to := range functions {
		entries[i] = at
		at += function + 1
		for _, t := range to {
			if t < 0 {
				at += pointer
			} else {
				at += jump
			}
		}
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, at+1-4)
	b = append(le.AppendUint32(le.AppendUint16(b, 4), 0), 8)
	b = le.AppendUint64(le.AppendUint64(append(b, 1), jumpCode), uint64(len(functions)*jumpSize))
	b = le.AppendUint16(b, 0x0c)
	for i, to := range functions {
		low := uint64(jumpCode + i*jumpSize)
		kind := byte(2)
		if i >= some {
			kind = 3
		}
		b = le.AppendUint64(le.AppendUint64(append(b, kind), low), jumpSize)
		for j, t := range to {
			back := low + uint64(j) + 1
			if t < 0 {
				b = le.AppendUint64(append(b, 5), back)
			} else {
				b = le.AppendUint32(le.AppendUint64(append(b, 4), back), entries[t])
			}
		}
		b = append(b, 0)
	}
	return append(b, 0)
}

// searchJumps looks for the ways from the first function to the last.
func searchJumps(t *testing.T, info []byte) []*jump {
	t.Helper()
	data, err := dwarf.New(jumpAbbreviations, nil, nil, info, nil, nil, nil, nil)
	if err != nil {
		return nil
	}
	d := &debugInfo{data: data, open: make(map[dwarf.Offset]*unit), calls: make(map[dwarf.Offset]*callSites)}
	contained(func() { d.readUnits([]dwarf.Offset{11}) })
	if len(d.units) == 0 {
		return nil
	}
	m := &module.Module{BiasKnown: true}
	read := &lazyDebugInfo{info: d}
	read.once.Do(func() {}) // it has been read
	u := &Unwinder{debug: map[*module.Module]*lazyDebugInfo{m: read}, bindings: make(map[symbolKey]place)}
	var out []*jump
	contained(func() {
		x := d.units[0]
		functions := d.unitOf(x.entry).functions
		if len(functions) == 0 {
			return
		}
		if from, ok := u.functionAt(m, x.low); ok {
			w := ways{Unwinder: u, goal: place{m, functions[len(functions)-1].low}, functions: make(map[place]*tailFunction)}
			out = w.search(from)
			if len(w.functions) > maxTailFunctions+1 || w.steps > maxWays+1 {
				t.Errorf("%d functions and %d steps", len(w.functions), w.steps)
			}
		}
	})
	return out
}

// way names the functions of jumps by their numbers.
func way(jumps []*jump) string {
	var out []string
	for _, j := range jumps {
		out = append(out, fmt.Sprint((j.from.start-jumpCode)/jumpSize))
	}
	return strings.Join(out, " ")
}

// line is a chain of n functions and the goal.
func line(n int) [][]int {
	var out [][]int
	for i := range n {
		out = append(out, []int{i + 1})
	}
	return append(out, nil)
}

// diamonds is a chain in which there are two ways from each function to the
// next but two.
func diamonds(n int) [][]int {
	var out [][]int
	for i := range n {
		out = append(out, []int{3*i + 1, 3*i + 2}, []int{3*i + 3}, []int{3*i + 3})
	}
	return append(out, nil)
}

// TestWays gives what all ways share and no more, and nothing where it is not
// sure that all are known.
func TestWays(t *testing.T) {
	const all = 1 << 20
	for _, c := range []struct {
		name      string
		functions [][]int
		some      int
		want      string
	}{
		{"a chain", line(3), all, "0 1 2"},
		{"a long chain", line(maxTailFunctions - 1), all, numbers()},
		{"a chain of too many functions", line(maxTailFunctions + 1), all, ""},
		{"two ways", [][]int{{1, 2}, {3}, {3}, nil}, all, ""},
		{"two ways that begin and end alike", [][]int{{1}, {2, 3}, {4}, {4}, {5}, nil}, all, "0 4"},
		{"the same from two places", [][]int{{1, 1}, nil}, all, ""},
		{"a way to nowhere", [][]int{{1, 2}, {3}, nil, nil}, all, "0 1"},
		{"no way", [][]int{{1}, nil, nil}, all, ""},
		{"a circle without an end", [][]int{{1}, {0}, nil}, all, ""},
		{"itself", [][]int{{0, 1}, nil}, all, "0"},
		{"a circle through the first", [][]int{{1}, {0, 2}, nil}, all, "0 1"},
		{"a detour from the first", [][]int{{1, 2}, {0}, nil}, all, "0"},
		{"through the goal", [][]int{{1}, {0}}, all, "0"},
		{"a pointer", [][]int{{1}, {2, -1}, nil}, all, ""},
		{"a pointer on a way to nowhere", [][]int{{1, 2}, {3}, {-1}, nil}, all, ""},
		{"a pointer behind the goal", [][]int{{1}, {-1}}, all, "0"},
		{"calls that are not listed", [][]int{{1}, {2}, nil}, 1, ""},
		{"calls of the goal that are not listed", [][]int{{1}, {2}, nil}, 2, "0 1"},
		{"diamonds", diamonds(5), all, ""},
		{"diamonds behind a chain", append([][]int{{1}}, shifted(diamonds(3))...), all, "0"},
		{"diamonds of which there are too many behind a chain", append([][]int{{1}}, shifted(diamonds(60))...), all, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := way(searchJumps(t, jumpInfo(c.functions, c.some))); got != c.want {
				t.Errorf("it is certain that %q jumped, not %q", got, c.want)
			}
		})
	}
}

// shifted are functions with one in front of them.
func shifted(functions [][]int) [][]int {
	for _, to := range functions {
		for i := range to {
			to[i]++
		}
	}
	return functions
}

func numbers() string {
	var out []string
	for i := range maxTailFunctions - 1 {
		out = append(out, fmt.Sprint(i))
	}
	return strings.Join(out, " ")
}

// FuzzWays reads hostile call sites and looks for ways through them.
func FuzzWays(f *testing.F) {
	f.Add(jumpInfo(line(3), 9))
	f.Add(jumpInfo(diamonds(4), 9))
	f.Add(jumpInfo([][]int{{1, 2, 0}, {0, 2, -1}, nil}, 2))
	f.Fuzz(func(t *testing.T, info []byte) {
		jumps := searchJumps(t, info)
		seen := make(map[*jump]bool)
		for _, j := range jumps {
			if seen[j] || !j.site.tail || j.from == nil {
				t.Errorf("a jump twice, or one that is none: %+v", j.site)
			}
			seen[j] = true
		}
		if again := searchJumps(t, bytes.Clone(info)); way(again) != way(jumps) {
			t.Errorf("%q, then %q", way(jumps), way(again))
		}
	})
}
