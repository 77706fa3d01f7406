package nptl

import (
	"maps"

	"github.com/corethreads/corethreads/elfcore"
)

// addLists takes over the lists and makes handles of their members, in
// libthread_db's order.
func (p *Process) addLists(f *finder, found *survey) {
	for _, r := range found.roles {
		p.Lists = append(p.Lists, List{
			Kind: r.kind, Head: r.addr, Place: f.place(&r.head).String(), Why: r.why,
			End: r.walk.end, At: r.walk.at, Fault: r.walk.fault,
			Nodes: r.walk.nodes, Behind: r.walk.behind,
		})
		if r.kind == Undecided {
			p.limit(RoleUndecided, r.addr, 0, "the list with its head at %s could be stack_used or stack_cache", r.addr)
		}
	}
	reached := true
	position := 0
	// A node can be on two lists at once, where a stack was unmapped and used
	// again, and one list then runs over the head of the other.
	seen := maps.Clone(f.known)
	for _, kind := range []ListKind{StackUser, StackUsed, Undecided, SecondCopy, StackCache} {
		for i := range p.Lists {
			l := &p.Lists[i]
			if l.Kind != kind {
				continue
			}
			add := func(n elfcore.Addr, ordered bool) {
				if seen[n] {
					return
				}
				seen[n] = true
				h := f.handle(found.raws[n], &p.Layout)
				h.List, h.listed = kind, true
				if kind == StackCache {
					p.Cached = append(p.Cached, h)
					return
				}
				if ordered {
					h.Position = position
					position++
				}
				p.Handles = append(p.Handles, h)
			}
			ordered := reached && (kind == StackUser || kind == StackUsed)
			for _, n := range l.Nodes {
				add(n, ordered)
			}
			for _, n := range l.Behind {
				add(n, false)
			}
			if kind == StackUser || kind == StackUsed {
				// libthread_db gives up at the first list that does
				// not close.
				reached = reached && l.End == Closed
				p.listLimits(l)
			}
		}
	}
}

// addUnlisted makes handles of descriptors that are linked, but into a list that
// was not found. Those that glibc has freed have no handle: their threads are
// about to be gone.
func (p *Process) addUnlisted(f *finder, found *survey) {
	for _, n := range found.unlisted {
		r := found.raws[n]
		if !f.linkedElsewhere(n) || f.terminated(r, &p.Layout) {
			continue
		}
		h := f.handle(r, &p.Layout)
		if h.UserStack != nil {
			h.List = StackUsed
			if *h.UserStack {
				h.List = StackUser
			}
		}
		p.Handles = append(p.Handles, h)
		if len(p.Limits) == 0 || p.Limits[len(p.Limits)-1].Kind != Unlisted {
			p.limit(Unlisted, h.Pthread, 0, "the descriptor at %s is linked into a list whose head was not found: the order of the handles is not known", h.Pthread)
		}
	}
}

// linkedElsewhere tells whether a node has neighbours. One that is beside the
// members of a list that closes without it has been taken off that list.
func (f *finder) linkedElsewhere(n elfcore.Addr) bool {
	next, prev, ok := f.pair(n)
	if !ok || next == 0 || prev == 0 {
		return false
	}
	for _, x := range []uint64{next, prev} {
		if a := elfcore.Addr(x); f.closed[a] || f.empties[a] && !f.probe(a) {
			return false
		}
	}
	return true
}

// dropUndecided removes members of lists that may be the cache, or that no
// debugger looks at, unless a thread owns them.
func (p *Process) dropUndecided() {
	kept := p.Handles[:0]
	index := make([]int, len(p.Handles))
	for i, h := range p.Handles {
		index[i] = -1
		if h.listed && (h.List == Undecided || h.List == SecondCopy) && h.Owner < 0 {
			continue
		}
		index[i] = len(kept)
		kept = append(kept, h)
	}
	p.Handles = kept
	for i := range p.Threads {
		if h := p.Threads[i].Handle; h >= 0 {
			p.Threads[i].Handle = index[h]
		}
	}
}
