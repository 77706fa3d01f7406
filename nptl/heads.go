package nptl

import (
	"cmp"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// shape is how a pair of words looks that could be the head of a list.
type shape uint8

const (
	empty shape = iota // next is the head itself: libthread_db sees an empty list
	half               // one neighbour looks back
	ring               // both neighbours look back
	loose              // none looks back
)

// candidate is a pair of words that could be the head of a list.
type candidate struct {
	addr elfcore.Addr
	// image numbers the image that it is in.
	image int
	shape shape
}

// head is the head of one of glibc's lists of descriptors.
type head struct {
	addr elfcore.Addr
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

	candidates []candidate // of all shapes but empty, as scanned
	heads      []head      // accepted, with their walks
	known      map[elfcore.Addr]bool
	empties    map[elfcore.Addr]bool
	onList     map[elfcore.Addr]bool
	// closed are the heads and nodes of lists that close: no other list can
	// have them.
	closed map[elfcore.Addr]bool
	// inRow tells that the heads were found three in a row, which leaves none
	// to be missed.
	inRow bool

	// What a core that is made to cost much can still make us do: read bytes
	// of data, and walk nodes.
	bytes uint64
	nodes int
}

// Bounds that no sound process comes near. A process has three lists, and three
// more for each further copy of the thread library, of which there can be 16.
const (
	maxScan       = 64 << 20
	maxCandidates = 1 << 20
	maxHeads      = 64
)

// findHeads looks for the heads of stack_user, stack_used and stack_cache.
// Places are tried in order until every proved thread is on a list.
func (v *view) findHeads(p *pointers) *finder {
	f := &finder{
		view:    v,
		threads: make(map[elfcore.Addr]bool),
		known:   make(map[elfcore.Addr]bool),
		empties: make(map[elfcore.Addr]bool),
		onList:  make(map[elfcore.Addr]bool),
		closed:  make(map[elfcore.Addr]bool),
		bytes:   maxScan,
		nodes:   2 * v.maxNodes(),
	}
	for _, n := range p.node {
		if n != 0 {
			f.threads[n] = true
		}
	}
	for _, im := range v.images() {
		f.scan(im)
	}
	f.accept()
	f.followThreads()
	if len(f.heads) == 0 {
		f.scan(v.others())
		f.accept()
	}
	return f
}

// scan collects candidates from the data of an image.
func (f *finder) scan(im image) {
	f.images = append(f.images, im)
	index := len(f.images) - 1
	for _, r := range im.data {
		if r.Len() > f.bytes {
			f.images[index].partial = true
			return
		}
		f.bytes -= r.Len()
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
			s, ok := f.shapeOf(a, next, prev)
			switch {
			case !ok || len(f.candidates) == maxCandidates:
			case s == empty:
				f.empties[a] = true
			default:
				f.candidates = append(f.candidates, candidate{addr: a, image: index, shape: s})
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

// place tells where a head is.
func (f *finder) place(h *head) place { return f.images[h.image].place }

// isHead tells whether an accepted or an empty head is at a.
func (f *finder) isHead(a elfcore.Addr) bool { return f.known[a] || f.empties[a] }

// accept decides which candidates are heads.
func (f *finder) accept() {
	// A neighbour that looks back and is a descriptor makes a head, unless
	// the pair itself is a descriptor's: the initial thread's lies inside the
	// loader's own data.
	for _, c := range f.candidates {
		if f.known[c.addr] || c.shape == loose {
			continue
		}
		next, prev, _ := f.pair(c.addr)
		n, p := elfcore.Addr(next), elfcore.Addr(prev)
		proved := f.points(n+elfcore.Addr(f.w), c.addr) && f.probe(n) || f.points(p, c.addr) && f.probe(p)
		if proved && !f.probe(c.addr) {
			f.add(c)
		}
	}
	f.acceptDamaged()
	f.settle()
}

// settle orders the heads that were accepted, and completes their walks.
func (f *finder) settle() {
	slices.SortFunc(f.heads, func(a, b head) int { return cmp.Compare(a.addr, b.addr) })
	f.walkDamaged()
}

// add accepts a head and walks its list.
func (f *finder) add(c candidate) {
	if f.known[c.addr] || len(f.heads) == maxHeads || f.nodes <= 0 {
		return
	}
	h := head{addr: c.addr, image: c.image, walk: f.walk(c.addr, f.nodes)}
	f.known[c.addr] = true
	f.heads = append(f.heads, h)
	f.nodes -= len(h.walk.nodes)
	for _, n := range h.walk.nodes {
		f.onList[n] = true
	}
	if h.walk.end == Closed {
		f.closed[h.addr] = true
		for _, n := range h.walk.nodes {
			f.closed[n] = true
		}
	}
}

// acceptDamaged takes heads whose neighbours do not look back or prove nothing.
func (f *finder) acceptDamaged() {
	w := elfcore.Addr(f.w)
	node := func(n elfcore.Addr) bool { return !f.closed[n] && (f.threads[n] || f.probe(n)) }
	for _, c := range f.candidates {
		// A pair that straddles two heads looks loose.
		if f.known[c.addr] || c.shape == half || f.isHead(c.addr-w) || f.isHead(c.addr+w) || f.probe(c.addr) {
			continue
		}
		next, prev, _ := f.pair(c.addr)
		n, p := elfcore.Addr(next), elfcore.Addr(prev)
		switch c.shape {
		case loose:
			if node(n) && node(p) || f.missing(n) && f.missing(p) && f.beside(c.addr, f.isHead) || n == p && f.probe(n) && f.lostTo(n, c.image) {
				f.add(c)
			}
		case ring:
			if node(n) || node(p) || f.beside(c.addr, func(a elfcore.Addr) bool { return f.known[a] }) && f.closes(c.addr) {
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
			if ok && (between || node(elfcore.Addr(next)) || node(elfcore.Addr(prev)) || f.leadsNowhere(a)) {
				f.add(candidate{addr: a, image: h.image})
			}
		}
	}
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
		for i := 0; !f.onList[n] && !visited[n] && (i == 0 || f.probe(n)) && i < limit; i++ {
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
		f.scan(f.around(n))
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
