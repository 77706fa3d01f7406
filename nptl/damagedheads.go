package nptl

import (
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// acceptDamaged takes heads whose neighbours do not look back or prove nothing.
func (f *finder) acceptDamaged() {
	w := elfcore.Addr(f.w)
	for _, c := range f.candidates {
		// A pair that straddles two heads looks loose.
		if f.known[c.addr] || c.shape == half || f.isHead(c.addr-w) || f.isHead(c.addr+w) || f.probe(c.addr) {
			continue
		}
		next, prev, _ := f.pair(c.addr)
		n, p := elfcore.Addr(next), elfcore.Addr(prev)
		switch c.shape {
		case loose:
			if f.looseHead(c, n, p) {
				f.add(c)
			}
		case ring:
			if f.node(n) || f.node(p) || f.beside(c.addr, func(a elfcore.Addr) bool { return f.known[a] }) && f.closes(c.addr) {
				f.add(c)
			}
		}
	}
	// In the loader the heads stand in a row of three. If two are known, the
	// third is a head all the same though its words lead nowhere, or though
	// only one of them leads to a descriptor. What stands between the other two
	// can be nothing else.
	slot := 2 * w
	for _, h := range f.heads {
		if f.images[h.image].place != inLoader {
			continue
		}
		for _, a := range []elfcore.Addr{h.addr - 2*slot, h.addr - slot, h.addr + slot, h.addr + 2*slot} {
			if f.isHead(a) || !f.thirdSlot(a) || f.probe(a) {
				continue
			}
			next, prev, ok := f.pair(a)
			between := f.isHead(a-slot) && f.isHead(a+slot) && (next != 0 || prev != 0)
			if ok && (between || f.node(elfcore.Addr(next)) || f.node(elfcore.Addr(prev)) || f.leadsNowhere(a)) {
				f.add(candidate{addr: a, image: h.image})
			}
		}
	}
}

// node tells whether a descriptor is at n that no list holds as yet.
func (f *finder) node(n elfcore.Addr) bool {
	return !f.closed[n] && (f.threads[n] || f.probe(n))
}

// looseHead tells whether a pair whose neighbours do not look back is a head all
// the same: they are descriptors, or the core does not hold them.
func (f *finder) looseHead(c candidate, next, prev elfcore.Addr) bool {
	switch {
	case f.node(next) && f.node(prev):
		return true
	case next == prev && f.probe(next):
		return f.lostTo(next, c.image)
	case f.missing(next) && f.missing(prev):
		return f.images[c.image].place == inLibpthread || f.beside(c.addr, f.isHead)
	}
	return false
}

// lostTo tells whether a node has been linked into a list of another libpthread
// than the image's, as a second one (dlmopen, up to 2.33) does with the initial
// thread. The first one's head then still leads to it, and from there never back.
func (f *finder) lostTo(n elfcore.Addr, image int) bool {
	if f.images[image].place != inLibpthread {
		return false
	}
	for _, h := range f.heads {
		if h.image != image && f.images[h.image].place == inLibpthread && slices.Contains(h.walk.nodes, n) {
			return true
		}
	}
	return false
}

// closes tells whether a list closes.
func (f *finder) closes(head elfcore.Addr) bool {
	w := f.walk(head, f.nodes)
	f.nodes -= len(w.nodes)
	return w.end == Closed
}

// missing tells whether there is data at an address which the core does not hold.
func (f *finder) missing(a elfcore.Addr) bool {
	why, faulty := f.fault(a)
	return faulty && why != elfcore.Unmapped && f.plausible(a)
}

// beside tells whether a head stands one or two slots away.
func (f *finder) beside(a elfcore.Addr, isHead func(elfcore.Addr) bool) bool {
	slot := elfcore.Addr(2 * f.w)
	return isHead(a-2*slot) || isHead(a-slot) || isHead(a+slot) || isHead(a+2*slot)
}

// thirdSlot tells whether a is one of a row of three of which the other two are
// heads, one of them with members, and no more than these are heads.
func (f *finder) thirdSlot(a elfcore.Addr) bool {
	slot := elfcore.Addr(2 * f.w)
	for first := a - 2*slot; first <= a; first += slot {
		heads, members := 0, 0
		for i := range elfcore.Addr(3) {
			at := first + i*slot
			if at != a && f.isHead(at) {
				heads++
				if f.known[at] {
					members++
				}
			}
		}
		if heads == 2 && members > 0 && !f.isHead(first-slot) && !f.isHead(first+3*slot) {
			return true
		}
	}
	return false
}

// leadsNowhere tells whether both words of a pair are addresses of data whose
// memory reads as zeroes or not at all.
func (f *finder) leadsNowhere(a elfcore.Addr) bool {
	next, prev, ok := f.pair(a)
	if !ok {
		return false
	}
	for _, x := range []elfcore.Addr{elfcore.Addr(next), elfcore.Addr(prev)} {
		if uint64(x) < f.PageSize() || uint64(x)%f.w != 0 || x == a {
			return false
		}
		if s, ok := f.Segment(x); ok && !s.Writable() {
			return false
		}
		if _, err := f.Word(x); err == nil && !f.zeroes(x, 4*f.w) {
			return false
		}
	}
	return true
}

// walkDamaged walks lists that do not close from their other end too.
func (f *finder) walkDamaged() {
	taken := make(map[elfcore.Addr]bool)
	for _, h := range f.heads {
		taken[h.addr] = true
		for _, n := range h.walk.nodes {
			taken[n] = true
		}
	}
	for i := range f.heads {
		h := &f.heads[i]
		if h.walk.end == Closed || len(h.walk.behind) > 0 {
			continue
		}
		h.walk.behind = f.walkBack(h.addr, taken, f.nodes)
		f.nodes -= len(h.walk.behind)
		for _, n := range h.walk.behind {
			f.onList[n] = true
			taken[n] = true
		}
	}
}
