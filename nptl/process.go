package nptl

import (
	"fmt"
	"maps"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// Process is glibc's view of the threads of a core.
type Process struct {
	Libc   Libc
	Layout Layout
	// Found tells that descriptors of glibc were found at all.
	Found bool
	// Lists are the lists by address of their heads.
	Lists []List
	// Handles are the descriptors, first those that libthread_db's iteration
	// reaches, in its order, then those whose place in it is not known.
	Handles []*Handle
	// Cached are the descriptors on stack_cache, which no debugger looks at:
	// joined and detached threads, and in a fork child the parent's.
	Cached []*Handle
	// Threads are the LWPs, in the order of Core.Threads.
	Threads []Thread
	// PointerDistance is thread pointer minus pthread in bytes, the ABI's bias
	// included; PointerKnown tells whether the core shows it.
	PointerDistance int64
	PointerKnown    bool
	// Limits are what could not be determined and why, in no more than one
	// sentence each. None means that all there is was seen.
	Limits []Limit
	// Disagreements are places where symbols of a libc file say another thing
	// than the core's own bytes.
	Disagreements []string
}

// Limit is something that could not be determined.
type Limit struct {
	Kind LimitKind
	Text string
	// Addr is the address that it is about, 0 for none.
	Addr elfcore.Addr
	// Fault is why memory could not be read, for the kinds that are about
	// memory.
	Fault elfcore.FaultReason
}

// LimitKind is what could not be determined.
type LimitKind int

const (
	// NotesCut: threads may be missing from the core.
	NotesCut LimitKind = iota
	// HeadsMissing: the memory where glibc keeps its lists is not in the core.
	HeadsMissing
	// ListLeaves: a list leads into memory that is not in the core.
	ListLeaves
	// RoleUndecided: a ring of descriptors was found, but not which it is.
	RoleUndecided
	// Unlisted: a thread's descriptor is linked into a list that was not
	// found.
	Unlisted
	// NoThreads: the core does not say which threads there were.
	NoThreads
)

// Read reconstructs glibc's thread descriptors and lists from a core. Symbols may
// be nil. It does not fail: what the core does not tell is in Limits.
func Read(c *elfcore.Core, symbols Symbols) *Process {
	v := newView(c)
	p := &Process{}
	if c.NotesCut {
		p.limit(NotesCut, 0, elfcore.Truncated, "the core is cut inside its notes: threads may be missing")
	}
	if !c.Arch.Known() {
		p.limit(NoThreads, 0, 0, "the registers of %s are not known, so its threads are not either", c.Arch.Name)
		p.Libc.Kind = UnknownLibc
		return p
	}
	if len(c.Threads) == 0 && !c.NotesCut {
		p.limit(NoThreads, 0, 0, "the core has no notes about threads")
	}
	ptrs := v.followPointers()
	p.PointerDistance, p.PointerKnown = ptrs.distance, ptrs.known
	f := v.findHeads(ptrs)
	heads := map[elfcore.Addr]ListKind{}
	if symbols != nil {
		heads = v.symbolHeads(symbols)
		f.addSymbolHeads(heads)
	}
	unlisted := f.unlisted()

	raws := make(map[elfcore.Addr]*raw)
	var proved []*raw
	read := func(n elfcore.Addr) {
		if raws[n] == nil {
			raws[n] = v.readRaw(n)
			if v.probe(n) {
				proved = append(proved, raws[n])
			}
		}
	}
	for _, h := range f.heads {
		for _, n := range slices.Concat(h.walk.nodes, h.walk.behind) {
			read(n)
		}
	}
	for _, n := range unlisted {
		read(n)
	}
	chain := v.chain(unlisted, f.onList)
	for _, n := range chain {
		read(n)
	}
	p.Found = len(proved) > 0
	if p.Found {
		p.Layout = v.inferLayout(proved)
	}
	roles := f.assignRoles(raws, &p.Layout)
	if symbols != nil {
		p.compareHeads(heads, roles)
		if p.Found {
			p.compareLayout(symbols)
		}
	}
	p.addLists(f, roles, raws)
	p.addUnlisted(f, unlisted, chain, raws)
	p.Threads = v.assignOwners(ptrs, p.Handles)
	p.dropUndecided()
	for _, h := range p.Handles {
		h.State = p.state(c, h)
	}
	p.Libc = v.libc(p.Found, &p.Layout, p.Lists, ptrs)
	if symbols != nil {
		p.takeVersion(symbols)
	}
	p.missingHeads(f)
	p.missingDescriptors(v, ptrs)
	return p
}

func (p *Process) limit(kind LimitKind, at elfcore.Addr, why elfcore.FaultReason, format string, args ...any) {
	p.Limits = append(p.Limits, Limit{Kind: kind, Addr: at, Fault: why, Text: fmt.Sprintf(format, args...)})
}

// List finds the list of a kind that debuggers use, nil for none.
func (p *Process) List(kind ListKind) *List {
	for i := range p.Lists {
		if p.Lists[i].Kind == kind {
			return &p.Lists[i]
		}
	}
	return nil
}

// addLists takes over the lists and makes handles of their members, in
// libthread_db's order.
func (p *Process) addLists(f *finder, roles []role, raws map[elfcore.Addr]*raw) {
	for _, r := range roles {
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
				h := f.handle(raws[n], &p.Layout)
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

// listLimits says where a list leaves what the core holds.
func (p *Process) listLimits(l *List) {
	if l.End == Unreadable && l.Fault != elfcore.Unmapped {
		p.limit(ListLeaves, l.At, l.Fault, "the list %s goes on at %s, which is %s", l.Kind, l.At, l.Fault)
	}
}

// chain collects the descriptors around those of threads that no list holds,
// both ways, as far as they prove themselves.
func (v *view) chain(from []elfcore.Addr, onList map[elfcore.Addr]bool) []elfcore.Addr {
	var out []elfcore.Addr
	seen := make(map[elfcore.Addr]bool)
	for _, n := range from {
		seen[n] = true
	}
	limit := v.maxNodes()
	for _, start := range from {
		for _, link := range []elfcore.Addr{0, elfcore.Addr(v.w)} {
			n, ok := v.pointer(start + link)
			for ok && !seen[n] && !onList[n] && v.probe(n) && len(out) < limit {
				seen[n] = true
				out = append(out, n)
				n, ok = v.pointer(n + link)
			}
		}
	}
	return out
}

// addUnlisted makes handles of descriptors that are linked, but into a list that
// was not found. Those that are linked no more have no handle: their threads are
// about to be gone.
func (p *Process) addUnlisted(f *finder, unlisted, chain []elfcore.Addr, raws map[elfcore.Addr]*raw) {
	for _, n := range slices.Concat(unlisted, chain) {
		r := raws[n]
		if !f.linkedSomehow(n) || f.terminated(r, &p.Layout) {
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

// linkedSomehow tells whether a neighbour points back at a node, or cannot be
// read. A node that is beside the members of a list that closes without it has
// been taken off that list.
func (f *finder) linkedSomehow(n elfcore.Addr) bool {
	a, b, ok := f.pair(n)
	next, prev := elfcore.Addr(a), elfcore.Addr(b)
	if !ok || next == 0 || prev == 0 {
		return false
	}
	for _, x := range []elfcore.Addr{next, prev} {
		if f.closed[x] || f.empties[x] {
			return false
		}
	}
	for _, back := range []elfcore.Addr{next + elfcore.Addr(f.w), prev} {
		if x, ok := f.pointer(back); !ok || x == n {
			return true
		}
	}
	return false
}

// isThread tells whether a descriptor belongs to a thread of the core: by thread
// pointer, by id, or because its stack holds a stack pointer.
func (f *finder) isThread(r *raw, l *Layout) bool {
	if f.threads[r.node] {
		return true
	}
	if tid, ok := f.raw32(r, l.TID); ok && int32(tid) > 0 && f.ids[int(int32(tid))] {
		return true
	}
	stack, ok := f.stackAt(r, l.StackBlock)
	return ok && f.stackPointerIn(stack)
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

// state is what has become of a handle's thread.
func (p *Process) state(c *elfcore.Core, h *Handle) State {
	switch {
	case h.Owner >= 0:
		return Live
	case !h.told:
		return UnknownState
	case h.TID == -1:
		return Retired
	case (c.NotesCut || len(c.Threads) == 0) && (h.TID > 0 || p.Layout.JoinState && h.Exiting() || !h.Exiting()):
		return UnknownState
	case h.Exiting():
		return Zombie
	case h.TID == 0:
		return Starting
	case h.TID > 0:
		return Foreign
	}
	return UnknownState
}

// missingHeads says which lists may be where the core has no memory. A process
// without pthreads has none, and neither has one whose every place was read.
func (p *Process) missingHeads(f *finder) {
	if p.Libc.Kind == Musl || p.Libc.Kind == NoLibc || f.inRow {
		return
	}
	what := "no list of threads was found"
	switch user, used := p.List(StackUser), p.List(StackUsed); {
	case user != nil && used != nil:
		return
	case user != nil:
		what = "the list stack_used was not found"
	case used != nil:
		what = "the list stack_user was not found"
	}
	for _, im := range f.images {
		if im.missing {
			p.limit(HeadsMissing, 0, elfcore.NotDumped, "%s, and some of %s, where it could be, is not in the core", what, im.place)
			return
		}
	}
	if len(f.Segments) == 0 {
		p.limit(HeadsMissing, 0, elfcore.NotDumped, "the core holds no memory")
	}
}

// missingDescriptors says of which thread the descriptor may be where the core
// has no memory.
func (p *Process) missingDescriptors(v *view, ptrs *pointers) {
	if !p.Found {
		return
	}
	for i := range p.Threads {
		if p.Threads[i].Pthread != 0 {
			continue
		}
		at, why := elfcore.Addr(0), elfcore.Unmapped
		if tp, _, ok := v.Threads[i].ThreadPointer(); ok && ptrs.known {
			n := v.nodeAt(tp, ptrs.distance)
			if why, ok = v.fault(n); !ok {
				continue // it is there, and is none: the thread is not glibc's
			}
			at = n - elfcore.Addr(v.header)
		}
		switch {
		case why != elfcore.Unmapped:
			p.limit(ListLeaves, at, why, "the descriptor of thread %d at %s is %s", v.Threads[i].TID, at, why)
			return
		case v.incomplete():
			p.limit(ListLeaves, 0, elfcore.NotDumped, "the descriptor of thread %d was not found, and some of the memory is not in the core", v.Threads[i].TID)
			return
		}
	}
}
