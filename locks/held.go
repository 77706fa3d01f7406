package locks

import (
	"cmp"
	"context"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// Held is one mutex that a thread of the core owns.
type Held struct {
	// Thread is its owner's index in Core.Threads.
	Thread int
	Kind   Kind
	Object elfcore.Addr
	// Name says more of it than its kind, as in Wait.
	Name string
	// Listed tells that it is on the thread's robust list, which is exact;
	// others were found by their bytes.
	Listed bool
}

// HeldOptions bound and watch a search for held mutexes.
type HeldOptions struct {
	// Limit is how much memory is searched at the most, in bytes; 0 for all.
	Limit uint64
	// Progress is called now and then with the bytes searched and their total;
	// holes of a sparse file count as searched.
	Progress func(done, total int64)
}

// HeldMutexes is what a search has found.
type HeldMutexes struct {
	// Mutexes are ordered by thread, then by address.
	Mutexes []Held
	// Searched and Total are bytes of writable memory.
	Searched, Total uint64
	// BrokenLists say which robust lists could not be followed, by thread.
	BrokenLists map[int]string
}

// FindHeld finds the mutexes that threads of the core own: those on robust lists,
// and all in writable memory whose owner, count, word and kind agree. The error
// is that of the context, or of reading the core.
func FindHeld(ctx context.Context, c *elfcore.Core, p *nptl.Process, s *module.Set, o HeldOptions) (*HeldMutexes, error) {
	a := newAnalyzer(c, p, s)
	out := &HeldMutexes{BrokenLists: make(map[int]string)}
	if a.musl {
		return out, nil // a normal mutex of musl does not say who owns it
	}
	seen := make(map[elfcore.Addr]bool)
	for i := range c.Threads {
		held, broken := a.robustList(i)
		if broken != "" {
			out.BrokenLists[i] = broken
		}
		for _, m := range held {
			if !seen[m.addr] {
				seen[m.addr] = true
				out.Mutexes = append(out.Mutexes, Held{Thread: i, Kind: m.heldKind(), Object: m.addr, Name: m.typeName(), Listed: true})
			}
		}
	}
	h := &heldSearch{analyzer: a, owners: newOwnerRange(a), out: out, seen: seen}
	if err := h.run(ctx, o); err != nil {
		return nil, err
	}
	slices.SortFunc(out.Mutexes, func(x, y Held) int {
		return cmp.Or(cmp.Compare(x.Thread, y.Thread), cmp.Compare(x.Object, y.Object))
	})
	return out, nil
}

func (m *mutexImage) heldKind() Kind {
	switch {
	case m.kind&kindRobust != 0:
		return RobustMutex
	case m.kind&kindPI != 0:
		return PIMutex
	}
	return Mutex
}
