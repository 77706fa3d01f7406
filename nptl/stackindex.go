package nptl

import (
	"cmp"
	"slices"
	"sort"

	"github.com/corethreads/corethreads/elfcore"
)

// stackIndex tells which stack pointers lie in which stacks.
type stackIndex struct {
	under [][]int // by thread: the handles whose stacks hold its stack pointer
	on    [][]int // by handle: the threads whose stack pointers it holds
}

// maxOverlap bounds how many stacks may lie over each other, or stack pointers in
// one stack, before the rest is ignored: a sound process has one, a damaged core
// could have all.
const maxOverlap = 16

func (v *view) indexStacks(handles []*Handle) stackIndex {
	x := stackIndex{under: make([][]int, len(v.Threads)), on: make([][]int, len(handles))}
	var order []int
	for h := range handles {
		if handles[h].Stack != nil {
			order = append(order, h)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(handles[a].Stack.Start, handles[b].Stack.Start) })
	// reach[i] is how far up any of the first i+1 stacks goes.
	reach := make([]elfcore.Addr, len(order))
	for i, h := range order {
		reach[i] = handles[h].Stack.End
		if i > 0 {
			reach[i] = max(reach[i], reach[i-1])
		}
	}
	for t := range v.Threads {
		sp, ok := v.Threads[t].SP()
		if !ok {
			continue
		}
		i := sort.Search(len(order), func(i int) bool { return handles[order[i]].Stack.Start > sp }) - 1
		for n := 0; i >= 0 && n < maxOverlap && reach[i] > sp; i, n = i-1, n+1 {
			h := order[i]
			if !handles[h].Stack.Contains(sp) {
				continue
			}
			x.under[t] = append(x.under[t], h)
			if len(x.on[h]) < maxOverlap {
				x.on[h] = append(x.on[h], t)
			}
		}
	}
	return x
}
