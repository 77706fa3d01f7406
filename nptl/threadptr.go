package nptl

import (
	"cmp"
	"maps"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// pointers is what the thread pointers in the notes lead to.
type pointers struct {
	// node is the list node of each thread's descriptor, 0 for a thread whose
	// thread pointer is absent or proves nothing.
	node []elfcore.Addr
	// tcb tells for each thread that its thread pointer is a TCB, though
	// perhaps not of glibc.
	tcb []bool
	// distance is thread pointer minus pthread, in bytes, the same for all
	// threads; known tells whether it is.
	distance int64
	known    bool
}

// followPointers finds the descriptors that thread pointers lead to. Where the
// TCB is the start of struct pthread the distance is none; elsewhere the
// descriptor is searched below the thread pointer once, and most threads must
// agree on the distance.
func (v *view) followPointers() *pointers {
	p := &pointers{node: make([]elfcore.Addr, len(v.Threads)), tcb: make([]bool, len(v.Threads))}
	if v.Arch.Descriptor.SelfPointers {
		p.known = true
		for i := range v.Threads {
			tp, _, ok := v.Threads[i].ThreadPointer()
			if !ok || uint64(tp)%v.w != 0 {
				continue
			}
			self := v.selfPointers(tp)
			p.tcb[i] = self || v.muslDescriptor(tp)
			if n := tp + elfcore.Addr(v.header); v.probe(n) || self && v.linked(n) {
				p.node[i] = n
				v.Keep(n, v.descriptorSize())
			}
		}
		return p
	}
	votes := make(map[int64]int)
	var last int64
	for i := range v.Threads {
		tp, _, ok := v.Threads[i].ThreadPointer()
		if !ok {
			continue
		}
		// A search is expensive, and the next thread is like the last.
		if len(votes) > 0 && v.probe(v.nodeAt(tp, last)) {
			votes[last]++
		} else if n, ok := v.searchBelow(tp - elfcore.Addr(v.Arch.TLS.Bias)); ok {
			last = int64(tp-n) + int64(v.header)
			votes[last]++
		}
	}
	if len(votes) == 0 {
		return p
	}
	distances := slices.Collect(maps.Keys(votes))
	p.distance = slices.MaxFunc(distances, func(a, b int64) int {
		// The smaller of two with as many votes, so that the answer does
		// not depend on the order of a map.
		return cmp.Or(cmp.Compare(votes[a], votes[b]), cmp.Compare(b, a))
	})
	p.known = true
	for i := range v.Threads {
		tp, _, ok := v.Threads[i].ThreadPointer()
		if !ok {
			continue
		}
		if n := v.nodeAt(tp, p.distance); v.probe(n) || v.linked(n) {
			p.node[i], p.tcb[i] = n, true
			v.Keep(n, v.descriptorSize())
		}
	}
	return p
}

// nodeAt is the list node of the descriptor that lies distance bytes below a
// thread pointer.
func (v *view) nodeAt(tp elfcore.Addr, distance int64) elfcore.Addr {
	return tp - elfcore.Addr(distance) + elfcore.Addr(v.header)
}

// searchBelow looks for a descriptor in the 3 KiB below a thread pointer, or less
// where memory begins there: a word that points at itself is robust_head.list of
// one.
func (v *view) searchBelow(base elfcore.Addr) (elfcore.Addr, bool) {
	const window = 0xc00 // struct pthread was never larger than 0x9c0 bytes
	if base < window || uint64(base)%v.w != 0 {
		return 0, false
	}
	start := base - window
	b := make([]byte, window)
	if _, err := v.ReadMemory(b, start); err != nil {
		s, ok := v.Core.Segment(base - 1)
		if !ok || s.Start <= start {
			return 0, false
		}
		start = s.Start
		b = b[:base-start]
		if _, err := v.ReadMemory(b, start); err != nil {
			return 0, false
		}
	}
	for at := uint64(0); at+v.w <= uint64(len(b)); at += v.w {
		q := start + elfcore.Addr(at)
		if elfcore.Addr(v.WordOf(b[at:])) != q {
			continue
		}
		// What proves a descriptor lies at fixed distances from robust_head:
		// where that can be at several distances from the node, the node is
		// told by its neighbours.
		candidates := v.Arch.Descriptor.RobustHead
		for _, r := range candidates {
			n := q - elfcore.Addr(r)
			if (v.specificProves(n, r) || v.robustProves(n, r)) && (len(candidates) == 1 || v.linked(n)) {
				return n, true
			}
		}
	}
	return 0, false
}
