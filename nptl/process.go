package nptl

import (
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
	found := f.survey()
	if symbols != nil {
		found = p.compare(f, found, symbols)
	}
	p.Layout, p.Found = found.layout, len(found.proved) > 0
	p.addLists(f, found)
	p.addUnlisted(f, found)
	p.Threads = v.assignOwners(ptrs, p.Handles)
	p.dropUndecided()
	for _, h := range p.Handles {
		h.State = p.state(c, h)
	}
	for i := range p.Threads {
		t := &p.Threads[i]
		r := found.raws[t.Pthread+elfcore.Addr(v.header)]
		t.Leaving = t.Handle < 0 && r != nil && v.terminated(r, &p.Layout)
	}
	p.Libc = v.libc(p.Found, &p.Layout, p.Lists, ptrs)
	if symbols != nil {
		p.takeVersion(symbols)
	}
	p.missingHeads(f)
	p.missingDescriptors(v, ptrs)
	return p
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
	case h.TID == 0 && h.Proved:
		// pthread_create prepares a descriptor before it links it: zeroes
		// that prove nothing are no thread.
		return Starting
	case h.TID > 0:
		return Foreign
	}
	return UnknownState
}
