package nptl

import (
	"cmp"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// shape is how a pair of words looks that could be the head of a list.
type shape int

const (
	empty shape = iota // next is the head itself: libthread_db sees an empty list
	half               // one neighbour looks back
	ring               // both neighbours look back
	loose              // none looks back
)

// head is the head of one of glibc's lists of descriptors.
type head struct {
	addr  elfcore.Addr
	shape shape
	place place
	// image numbers the image of the head, so that two copies of libpthread
	// are told apart.
	image int
	walk  walk
}

// finder collects heads.
type finder struct {
	*view
	images []image
	// threads are the nodes that thread pointers lead to.
	threads map[elfcore.Addr]bool
	// proved are nodes next to an accepted head.
	proved map[elfcore.Addr]bool

	candidates []head // of all shapes, as scanned
	heads      []head // accepted, with their walks
	empties    map[elfcore.Addr]head
	onList     map[elfcore.Addr]bool
}

// findHeads looks for the heads of stack_user, stack_used and stack_cache.
// Places are tried in order until every proved thread is on a list.
func (v *view) findHeads(p *pointers) *finder {
	f := &finder{
		view:    v,
		images:  v.images(),
		threads: make(map[elfcore.Addr]bool),
		proved:  make(map[elfcore.Addr]bool),
		empties: make(map[elfcore.Addr]head),
		onList:  make(map[elfcore.Addr]bool),
	}
	for _, n := range p.node {
		if n != 0 {
			f.threads[n] = true
		}
	}
	for i := range f.images {
		f.scan(i)
	}
	f.accept()
	f.followThreads()
	if len(f.heads) == 0 {
		f.images = append(f.images, v.others())
		f.scan(len(f.images) - 1)
		f.accept()
	}
	return f
}

// scan collects candidates from the data of an image.
func (f *finder) scan(index int) {
	im := f.images[index]
	for _, r := range im.data {
		b := make([]byte, r.Len())
		n, _ := f.ReadMemory(b, r.Start)
		b = b[:n]
		for at := uint64(0); at+2*f.w <= uint64(len(b)); at += f.w {
			next := elfcore.Addr(f.WordOf(b[at:]))
			prev := elfcore.Addr(f.WordOf(b[at+f.w:]))
			if next == 0 || prev == 0 {
				continue
			}
			a := r.Start + elfcore.Addr(at)
			if s, ok := f.shapeOf(a, next, prev); ok {
				f.candidates = append(f.candidates, head{addr: a, shape: s, place: im.place, image: index})
			}
		}
	}
}

// shapeOf judges the pair of words next, prev at a.
func (f *finder) shapeOf(a, next, prev elfcore.Addr) (shape, bool) {
	if next == a {
		return empty, prev == a || f.plausible(prev)
	}
	if uint64(next)%f.w != 0 || uint64(prev)%f.w != 0 {
		return 0, false
	}
	looksNext := f.points(next+elfcore.Addr(f.w), a)
	looksPrev := f.points(prev, a)
	switch {
	case looksNext && looksPrev:
		return ring, true
	case looksNext || looksPrev:
		return half, true
	}
	return loose, f.plausible(next) && f.plausible(prev)
}

// accept decides which candidates are heads.
func (f *finder) accept() {
	known := make(map[elfcore.Addr]bool)
	for _, h := range f.heads {
		known[h.addr] = true
	}
	add := func(h head) {
		if known[h.addr] {
			return
		}
		known[h.addr] = true
		h.walk = f.walk(h.addr)
		f.heads = append(f.heads, h)
		for _, n := range h.walk.nodes {
			f.onList[n] = true
		}
	}
	// A neighbour that looks back and is a descriptor makes a head, unless
	// the pair itself is a descriptor's: the initial thread's lies inside the
	// loader's own data.
	for _, h := range f.candidates {
		if h.shape == empty {
			f.empties[h.addr] = h
			continue
		}
		if h.shape == loose {
			continue
		}
		next, prev, _ := f.pair(h.addr)
		n, p := elfcore.Addr(next), elfcore.Addr(prev)
		proved := f.points(n+elfcore.Addr(f.w), h.addr) && f.probe(n) || f.points(p, h.addr) && f.probe(p)
		if proved && !f.probe(h.addr) {
			add(h)
			f.proved[n], f.proved[p] = true, true
		}
	}
	for _, h := range f.heads {
		for _, n := range h.walk.nodes {
			if f.probe(n) {
				f.proved[n] = true
			}
		}
	}
	f.acceptDamaged(known, add)
	f.sortHeads()
	f.walkDamaged()
}

func (f *finder) sortHeads() {
	slices.SortFunc(f.heads, func(a, b head) int { return cmp.Compare(a.addr, b.addr) })
}

// acceptDamaged takes heads whose neighbours do not look back or prove nothing.
func (f *finder) acceptDamaged(known map[elfcore.Addr]bool, add func(head)) {
	w := elfcore.Addr(f.w)
	isHead := func(a elfcore.Addr) bool {
		_, e := f.empties[a]
		return known[a] || e
	}
	node := func(n elfcore.Addr) bool { return f.proved[n] || f.threads[n] }
	for _, h := range f.candidates {
		// A pair that straddles two heads looks loose.
		if known[h.addr] || isHead(h.addr-w) || isHead(h.addr+w) || f.probe(h.addr) {
			continue
		}
		next, prev, _ := f.pair(h.addr)
		switch h.shape {
		case loose:
			if node(elfcore.Addr(next)) && node(elfcore.Addr(prev)) {
				add(h)
			}
		case ring:
			if f.besideHead(h.addr, known) && f.walk(h.addr).end == Closed {
				add(h)
			}
		}
	}
	// In the loader the heads stand in a row of three. If two are known and
	// the third one's words lead to memory that is gone or reads as zeroes,
	// it is a head all the same.
	for _, h := range f.candidates {
		if h.place != inLoader || known[h.addr] || h.shape == empty || f.probe(h.addr) || isHead(h.addr-w) || isHead(h.addr+w) {
			continue
		}
		if f.thirdSlot(h.addr, known) && f.leadsNowhere(h.addr) {
			add(h)
		}
	}
	for _, a := range f.lostThirds(known) {
		add(a)
	}
}

// besideHead tells whether an accepted head stands one or two slots away.
func (f *finder) besideHead(a elfcore.Addr, known map[elfcore.Addr]bool) bool {
	slot := elfcore.Addr(2 * f.w)
	return known[a-2*slot] || known[a-slot] || known[a+slot] || known[a+2*slot]
}

// thirdSlot tells whether a is one of a row of three of which the other two are
// heads, one of them with members, and no more than these are heads.
func (f *finder) thirdSlot(a elfcore.Addr, known map[elfcore.Addr]bool) bool {
	slot := elfcore.Addr(2 * f.w)
	isHead := func(a elfcore.Addr) bool {
		_, e := f.empties[a]
		return known[a] || e
	}
	for first := a - 2*slot; first <= a; first += slot {
		heads, members := 0, 0
		for i := range elfcore.Addr(3) {
			at := first + i*slot
			if at != a && isHead(at) {
				heads++
				if known[at] {
					members++
				}
			}
		}
		if heads == 2 && members > 0 && !isHead(first-slot) && !isHead(first+3*slot) {
			return true
		}
	}
	return false
}

// lostThirds finds third slots whose pointers lead out of the core's memory
// altogether, which the scan does not take for pairs of pointers.
func (f *finder) lostThirds(known map[elfcore.Addr]bool) []head {
	var out []head
	slot := elfcore.Addr(2 * f.w)
	for _, h := range f.heads {
		if h.place != inLoader {
			continue
		}
		for _, a := range []elfcore.Addr{h.addr - 2*slot, h.addr - slot, h.addr + slot, h.addr + 2*slot} {
			if _, e := f.empties[a]; e || known[a] || !f.thirdSlot(a, known) || f.probe(a) {
				continue
			}
			if f.leadsNowhere(a) {
				out = append(out, head{addr: a, shape: loose, place: h.place, image: h.image})
			}
		}
	}
	return out
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
		h.walk.behind = f.walkBack(h.addr, h.walk.nodes, taken)
		for _, n := range h.walk.behind {
			f.onList[n] = true
			taken[n] = true
		}
	}
}

// followThreads finds heads from the descriptors of threads that are on no list
// yet: walking next from one ends at its head. That finds static programs with
// a large .bss, and libpthread where NT_FILE is missing.
func (f *finder) followThreads() {
	nodes := make([]elfcore.Addr, 0, len(f.threads))
	for n := range f.threads {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	scanned := make(map[elfcore.Addr]bool)
	visited := make(map[elfcore.Addr]bool)
	limit := f.maxNodes()
	for _, n := range nodes {
		for i := 0; !f.onList[n] && !visited[n] && f.probe(n) && i < limit; i++ {
			visited[n] = true
			next, ok := f.pointer(n)
			if !ok {
				break
			}
			n = next
		}
		if f.onList[n] || visited[n] || scanned[n] || !f.plausible(n) {
			continue
		}
		scanned[n] = true
		if len(scanned) > 8 {
			return
		}
		f.images = append(f.images, f.around(n))
		f.scan(len(f.images) - 1)
		f.accept()
	}
}

// unlisted are the proved descriptors of threads that no list holds.
func (f *finder) unlisted() []elfcore.Addr {
	var out []elfcore.Addr
	for n := range f.threads {
		if !f.onList[n] {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
