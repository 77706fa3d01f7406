package nptl

import (
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// ListKind is which of glibc's lists a head belongs to.
type ListKind int

const (
	// Undecided: the evidence does not tell.
	Undecided ListKind = iota
	// StackUser: threads whose stacks glibc did not allocate, the initial
	// thread among them. libthread_db walks it first.
	StackUser
	// StackUsed: threads on stacks of glibc's.
	StackUsed
	// StackCache: stacks of threads that are gone. libthread_db never walks
	// it; to take it for a list would invent exited threads.
	StackCache
	// SecondCopy: a list of another copy of the thread library (dlmopen),
	// which debuggers do not look at.
	SecondCopy
)

func (k ListKind) String() string {
	return [...]string{"undecided", "stack_user", "stack_used", "stack_cache", "second copy"}[k]
}

// List is one of glibc's lists of descriptors.
type List struct {
	Kind ListKind
	// Head is the address of the list's head.
	Head elfcore.Addr
	// Place says where the head was found, Why how its kind was told.
	Place string
	Why   string
	// End is how the walk along next pointers ended, At where, and Fault why
	// memory could not be read there (for Unreadable).
	End   EndReason
	At    elfcore.Addr
	Fault elfcore.FaultReason
	// Nodes are the members in libthread_db's order. Behind are members that
	// only back links from the head reach.
	Nodes, Behind []elfcore.Addr
}

// role is a head with what its members tell.
type role struct {
	head
	kind ListKind
	why  string

	members []*raw
	// sum is what stackblock_size of all members adds up to; ok only for a
	// list that closes and of which each member is proved.
	sum   uint64
	sumOK bool
}

// assignRoles tells which ring is which.
func (f *finder) assignRoles(raws map[elfcore.Addr]*raw, l *Layout) []role {
	var rs []role
	for _, h := range f.heads {
		r := role{head: h, sumOK: h.walk.end == Closed}
		for _, n := range slices.Concat(h.walk.nodes, h.walk.behind) {
			m := raws[n]
			r.members = append(r.members, m)
			size, ok := f.rawWord(m, l.StackBlock+f.w)
			if l.StackBlock == 0 || !ok || !f.probe(n) {
				r.sumOK = false
				continue
			}
			if !f.initial(m, l) {
				r.sum += uint64(size)
			}
		}
		rs = append(rs, r)
	}
	done := make(map[elfcore.Addr]bool)
	for _, row := range f.rows(rs, l) {
		f.inRow = true
		f.assignRow(row, rs, l)
		for _, a := range row {
			done[a] = true
		}
	}
	for i := range rs {
		if !done[rs[i].addr] || rs[i].kind == Undecided {
			f.assignAlone(&rs[i], l)
		}
	}
	f.settleRivals(rs)
	return rs
}

// rows finds heads that stand three in a row, as from glibc 2.34 on: in
// _rtld_global, or as three variables of a static program.
func (f *finder) rows(rs []role, l *Layout) [][3]elfcore.Addr {
	slot := elfcore.Addr(2 * f.w)
	at := make(map[elfcore.Addr]*role)
	for i := range rs {
		at[rs[i].addr] = &rs[i]
	}
	var out [][3]elfcore.Addr
	used := make(map[elfcore.Addr]bool)
	for i := range rs {
		if used[rs[i].addr] {
			continue
		}
		first, last := rs[i].addr, rs[i].addr
		for f.isHead(first-slot) && rs[i].addr-first < 8*slot {
			first -= slot
		}
		for f.isHead(last+slot) && last-rs[i].addr < 8*slot {
			last += slot
		}
		var fits [][3]elfcore.Addr
		for a := first; a+2*slot <= last; a += slot {
			row := [3]elfcore.Addr{a, a + slot, a + 2*slot}
			if f.rowFits(row, at, l) {
				fits = append(fits, row)
			}
		}
		if len(fits) == 1 {
			out = append(out, fits[0])
			for _, a := range fits[0] {
				used[a] = true
			}
		}
	}
	return out
}

// rowFits tells whether no head with members near a row is left out of it, and
// whether the one with the initial thread is in the middle, where stack_user is
// in every order.
func (f *finder) rowFits(row [3]elfcore.Addr, at map[elfcore.Addr]*role, l *Layout) bool {
	slot := elfcore.Addr(2 * f.w)
	if at[row[0]-slot] != nil || at[row[2]+slot] != nil {
		return false
	}
	members := false
	for i, a := range row {
		r := at[a]
		if r == nil {
			continue
		}
		members = true
		for _, m := range r.members {
			if f.initial(m, l) && i != 1 {
				return false
			}
		}
	}
	return members
}

// assignRow names the heads of a row: used, user, cache in the loader, and
// either that or cache, user, used in a static program, told by the sum of the
// stacks in the cache, which glibc keeps beside it (stack_cache_actsize).
func (f *finder) assignRow(row [3]elfcore.Addr, rs []role, l *Layout) {
	slots := [3]*role{}
	for i, a := range row {
		for j := range rs {
			if rs[j].addr == a {
				slots[i] = &rs[j]
			}
		}
	}
	const near = 4
	after := f.sumNear(slots[2], row[2]+elfcore.Addr(2*f.w), near)
	before := f.sumNear(slots[0], row[0]-elfcore.Addr(near*f.w), near)
	forward := [3]ListKind{StackUsed, StackUser, StackCache}
	backward := [3]ListKind{StackCache, StackUser, StackUsed}
	order, why := forward, ""
	inRTLD := false
	for _, s := range slots {
		if s != nil && f.place(&s.head) == inLoader {
			inRTLD = true
		}
	}
	switch {
	case inRTLD && before == matches && after != matches:
		order, why = backward, "the size of the cached stacks stands in front of the row"
	case inRTLD:
		why = "the order of _rtld_global"
		if after == matches {
			why += ", and the size of the cached stacks behind it"
		}
	case after == matches:
		why = "the size of the cached stacks stands behind the row"
	case before == differs:
		why = "the first list's stacks do not add up to the size of the cache"
	case before == matches:
		order, why = backward, "the size of the cached stacks stands in front of the row"
	case after == differs:
		order, why = backward, "the last list's stacks do not add up to the size of the cache"
	default:
		if slots[1] != nil {
			slots[1].kind, slots[1].why = StackUser, "the middle of a row of three heads"
		}
		return
	}
	for i, s := range slots {
		if s != nil {
			s.kind, s.why = order[i], why
		}
	}
}

// A comparison with the size of the cache.
type comparison int

const (
	nothing comparison = iota // no stacks, or their sum is not known
	matches
	differs
)

// sumNear compares the sum of a list's stacks with n words at a.
func (f *finder) sumNear(r *role, a elfcore.Addr, n uint64) comparison {
	if r == nil || !r.sumOK || r.sum == 0 {
		return nothing
	}
	for i := range n {
		if f.points(a+elfcore.Addr(i*f.w), elfcore.Addr(r.sum)) {
			return matches
		}
	}
	return differs
}

// assignAlone names a head that stands alone, as up to glibc 2.33, by its
// members.
func (f *finder) assignAlone(r *role, l *Layout) {
	if r.kind != Undecided {
		return
	}
	slot := elfcore.Addr(2 * f.w)
	allUser, allTerminated := len(r.members) > 0, len(r.members) > 0
	living := false
	for _, m := range r.members {
		if f.initial(m, l) {
			r.kind, r.why = StackUser, "holds the initial thread"
			return
		}
		user, known := f.userStack(m, l)
		allUser = allUser && known && user
		terminated := f.terminated(m, l)
		allTerminated = allTerminated && terminated
		living = living || !terminated && f.isThread(m, l)
	}
	switch {
	case allUser:
		r.kind, r.why = StackUser, "all its stacks are the program's own"
	case allTerminated:
		r.kind, r.why = StackCache, "all its threads are terminated and joined"
	case f.place(&r.head) == inLoader && f.isHead(r.addr-slot) && !f.isHead(r.addr+slot) && f.hasLibpthread():
		// Only 2.33 has these two and no more in the loader, and it is the
		// last to have a libpthread.
		r.kind, r.why = StackUser, "the second of two heads in the loader"
	case living:
		r.kind, r.why = StackUsed, "holds a living thread"
	case r.sumOK && r.sum > 0:
		switch f.sumInData(r) {
		case matches:
			r.kind, r.why = StackCache, "its stacks add up to the size of the cache"
		case differs:
			r.kind, r.why = StackUsed, "its stacks do not add up to the size of the cache"
		}
	}
}

// hasLibpthread tells whether a libpthread was mapped.
func (f *finder) hasLibpthread() bool {
	return slices.ContainsFunc(f.images, func(im image) bool { return im.place == inLibpthread })
}

// sumInData looks for the sum of a list's stacks in the data of its module,
// where glibc would keep it as the size of the cache. A pthread_attr_t with this
// stack size (guard size and 0 in front of it) does not count.
func (f *finder) sumInData(r *role) comparison {
	im := f.images[r.image]
	if im.place == inData {
		im = f.around(r.addr)
	}
	if im.missing || im.partial {
		return nothing
	}
	for _, rg := range im.data {
		b := make([]byte, rg.Len())
		n, err := f.ReadMemory(b, rg.Start)
		if err != nil || n < len(b) {
			return nothing
		}
		for at := uint64(0); at+f.w <= uint64(len(b)); at += f.w {
			if f.WordOf(b[at:]) != r.sum {
				continue
			}
			if at >= 2*f.w {
				zero, guard := f.WordOf(b[at-f.w:]), f.WordOf(b[at-2*f.w:])
				if zero == 0 && guard != 0 && guard%f.PageSize() == 0 && guard < 1<<24 {
					continue
				}
			}
			return matches
		}
	}
	return differs
}

// settleRivals decides between the lists of two libpthreads (dlmopen, glibc up
// to 2.33): debuggers use the one whose stack_user does not close, else the
// first, and that module's stack_used. The other one's stack_user may be empty.
func (f *finder) settleRivals(rs []role) {
	keep := -1
	for i := range rs {
		if rs[i].kind == StackUser && (keep < 0 || rs[keep].walk.end == Closed && rs[i].walk.end != Closed) {
			keep = i
		}
	}
	if keep < 0 {
		return
	}
	for i := range rs {
		rival := rs[i].kind == StackUser || rs[i].kind == StackUsed && f.place(&rs[i].head) == inLibpthread && f.place(&rs[keep].head) == inLibpthread
		if i != keep && rival && rs[i].image != rs[keep].image {
			rs[i].kind, rs[i].why = SecondCopy, "belongs to a second copy of the thread library"
		}
	}
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
