package fixup

import (
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// release takes members of a list that is being closed out of the lists of a
// second copy of the thread library: that has linked the initial thread into its
// own, and a node can be on one list only.
func (m *maker) release(members []elfcore.Addr) error {
	for i := range m.p.Lists {
		l := &m.p.Lists[i]
		taken := func(n elfcore.Addr) bool { return slices.Contains(members, n) }
		if l.Kind != nptl.SecondCopy || !slices.ContainsFunc(l.Nodes, taken) {
			continue
		}
		ring := append([]elfcore.Addr{l.Head}, slices.DeleteFunc(slices.Clone(l.Nodes), taken)...)
		for j, n := range ring {
			next := ring[(j+1)%len(ring)]
			reason := fmt.Sprintf("the list at %s is of a second copy of the thread library, which no debugger looks at: it gives a handle back", l.Head)
			if !m.link(n, next, reason) {
				return m.refuse("", "the list at %s of a second copy of the thread library is not in the core", l.Head)
			}
		}
	}
	return nil
}
