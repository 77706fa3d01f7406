package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/nptl"
)

// Leak sums up the threads that have exited and that nobody joined, by the
// routine at which they started, and what memory glibc keeps for each group. It
// is empty where there are none.
func (r *Report) Leak() string {
	var gone []*nptl.Handle
	for _, h := range r.Process.Handles {
		if h.State == nptl.Zombie {
			gone = append(gone, h)
		}
	}
	return r.leak(gone)
}

// routine is what the threads of a leak have in common. Stacks that the program
// made are its own affair, and are counted apart.
type routine struct {
	name      string
	userStack bool
}

type leaked struct {
	routine
	threads int
	memory  uint64
}

// maxRoutines is how many groups a leak names.
const maxRoutines = 4

func (r *Report) leak(gone []*nptl.Handle) string {
	groups := make(map[routine]*leaked)
	var order []*leaked
	for _, h := range gone {
		if h.Initial {
			continue // main's stack is the kernel's
		}
		key := routine{name: "a routine that is not known", userStack: h.UserStack != nil && *h.UserStack}
		if h.StartRoutine != nil {
			key.name = r.at(*h.StartRoutine)
		}
		g := groups[key]
		if g == nil {
			g = &leaked{routine: key}
			groups[key] = g
			order = append(order, g)
		}
		g.threads++
		if h.Stack != nil && !key.userStack {
			g.memory += h.Stack.Len()
		}
	}
	slices.SortStableFunc(order, func(a, b *leaked) int {
		return cmp.Or(cmp.Compare(b.memory, a.memory), cmp.Compare(b.threads, a.threads))
	})
	var parts []string
	others, routines := 0, 0
	for i, g := range order {
		if i >= maxRoutines {
			others += g.threads
			routines++
			continue
		}
		part := fmt.Sprintf("%d by %s", g.threads, g.name)
		switch {
		case g.userStack:
			part += ", on stacks of the program's own"
		case g.memory > 0:
			part += fmt.Sprintf(": %s of stacks", Bytes(g.memory))
		}
		parts = append(parts, part)
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d by %d others", others, routines))
	}
	return strings.Join(parts, "; ")
}
