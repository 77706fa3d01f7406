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
		threads: make(map[elfcore.Addr]bool, len(p.node)),
		known:   make(map[elfcore.Addr]bool),
		empties: make(map[elfcore.Addr]bool),
		onList:  make(map[elfcore.Addr]bool, len(p.node)),
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
	// loader's own data. One that proves nothing is known by its list.
	for _, c := range f.candidates {
		if f.known[c.addr] || f.closed[c.addr] || c.shape == loose {
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

// followThreads finds heads from the descriptors of threads that are on no list
// yet: walking next from one ends at its head. That finds static programs with
// a large .bss, and libpthread where NT_FILE is missing.
func (f *finder) followThreads() {
	nodes := f.unlisted()
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
