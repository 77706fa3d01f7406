package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

// dot draws the graph: threads are boxes, what they wait for ellipses.
func (v *locksView) dot(w io.Writer) error {
	var b strings.Builder
	b.WriteString("digraph locks {\n  rankdir=LR;\n")
	bad := make(map[int]bool)
	for _, x := range v.report.Verdicts {
		for _, t := range x.Threads {
			bad[t] = true
		}
	}
	objects := make(map[string]bool)
	for i := range v.report.Waits {
		x := &v.report.Waits[i]
		colour := ""
		if bad[x.Thread] {
			colour = ", color=red"
		}
		// One object can be waited for in two ways: a rwlock, a condition variable.
		id := fmt.Sprintf("%s %s", x.Kind.Noun(), cmp.Or(x.Object, x.Futex.Address))
		fmt.Fprintf(&b, "  t%d [shape=box, label=%q%s];\n", x.Thread, fmt.Sprintf("thread %d", v.Core.Threads[x.Thread].TID), colour)
		if !objects[id] {
			objects[id] = true
			fmt.Fprintf(&b, "  %q [label=%q];\n", id, strings.TrimSpace(id+"\n"+v.symbol(x.Object)))
			if x.Owner >= 0 {
				fmt.Fprintf(&b, "  t%d [shape=box, label=%q];\n  %q -> t%d [label=\"held by\"];\n", x.Owner, fmt.Sprintf("thread %d", v.Core.Threads[x.Owner].TID), id, x.Owner)
			}
		}
		fmt.Fprintf(&b, "  t%d -> %q [label=\"waits for\"%s];\n", x.Thread, id, colour)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
