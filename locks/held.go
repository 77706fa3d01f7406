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
	// Progress is called now and then with the bytes searched and their total.
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
	h := &heldSearch{analyzer: a, owners: newOwners(a), out: out, seen: seen}
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

// owners tells fast whether a number is a thread's id: nearly all of memory is
// none.
type owners struct {
	low, span uint32
	threads   map[uint32]int
}

func newOwners(a *analyzer) owners {
	o := owners{low: ^uint32(0), threads: make(map[uint32]int)}
	high := uint32(0)
	for i := range a.core.Threads {
		id := uint32(a.memoryTID(i))
		o.threads[id] = i
		o.low, high = min(o.low, id), max(high, id)
	}
	if high >= o.low {
		o.span = high - o.low
	}
	return o
}

// heldSearch is one pass over writable memory.
type heldSearch struct {
	*analyzer
	owners owners
	out    *HeldMutexes
	seen   map[elfcore.Addr]bool
}

const heldChunk = 4 << 20

func (h *heldSearch) run(ctx context.Context, o HeldOptions) error {
	for i := range h.core.Segments {
		if s := &h.core.Segments[i]; s.Writable() {
			h.out.Total += s.FileSize
		}
	}
	if len(h.owners.threads) == 0 {
		return nil
	}
	const overlap = 64 // more than a mutex
	buf := make([]byte, heldChunk+overlap)
	for i := range h.core.Segments {
		s := &h.core.Segments[i]
		if !s.Writable() {
			continue
		}
		for at := uint64(0); at < s.FileSize; at += heldChunk {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if o.Limit != 0 && h.out.Searched >= o.Limit {
				return nil
			}
			n, _ := h.core.ReadMemory(buf[:min(uint64(len(buf)), s.FileSize-at)], s.Start+elfcore.Addr(at))
			h.scan(buf[:n], s.Start+elfcore.Addr(at), min(n, heldChunk))
			h.out.Searched += uint64(min(n, heldChunk))
			if o.Progress != nil {
				o.Progress(int64(h.out.Searched), int64(h.out.Total))
			}
		}
	}
	return nil
}

// scan looks at every place in the first n bytes of b where a mutex can start.
func (h *heldSearch) scan(b []byte, at elfcore.Addr, n int) {
	step := int(h.w)
	low, span := h.owners.low, h.owners.span
	order := h.core.ByteOrder
	little := order.String() == "LittleEndian"
	for i := 0; i < n && i+mutexOwner+4 <= len(b); i += step {
		var id uint32
		if f := b[i+mutexOwner : i+mutexOwner+4 : i+mutexOwner+4]; little {
			id = uint32(f[0]) | uint32(f[1])<<8 | uint32(f[2])<<16 | uint32(f[3])<<24
		} else {
			id = order.Uint32(f)
		}
		if id-low > span {
			continue
		}
		if t, ok := h.owners.threads[id]; ok {
			h.try(t, id, b[i:], at+elfcore.Addr(i))
		}
	}
}

// try judges the bytes of a mutex whose owner field names a thread.
func (h *heldSearch) try(thread int, id uint32, b []byte, at elfcore.Addr) {
	size := int(h.mutexSize())
	if len(b) < size || h.seen[at] {
		return
	}
	o := h.core.ByteOrder
	m := mutexImage{addr: at, lock: o.Uint32(b), count: o.Uint32(b[mutexCount:]), owner: id,
		users: o.Uint32(b[h.layout.mutexUsers:]), kind: o.Uint32(b[h.layout.mutexKind:])}
	if !m.held() {
		return
	}
	if m.kind&kindRobust == 0 {
		for _, x := range b[h.layout.mutexList:size] {
			if x != 0 {
				return
			}
		}
	}
	h.seen[at] = true
	x := Held{Thread: thread, Kind: m.heldKind(), Object: at, Name: m.typeName()}
	if name, ok := h.loaderLockAt(at); ok {
		x.Kind, x.Name = LoaderLock, name
	}
	h.out.Mutexes = append(h.out.Mutexes, x)
}

// held tells whether word, count, users and kind agree that the owner field is
// true.
func (m *mutexImage) held() bool {
	if m.kind&^kindKnown != 0 || m.users < 1 || m.users > 999 {
		return false
	}
	typ := m.kind & kindTypes
	switch {
	case m.kind&(kindPI|kindRobust) != 0:
		if m.lock&futexTIDs != m.owner {
			return false
		}
		return m.count >= 1 && m.count < 1<<20
	case m.kind&kindProtect != 0:
		word := m.lock & (1<<19 - 1)
		return (word == 1 || word == 2) && m.count >= 1
	case m.lock != 1 && m.lock != 2:
		return false
	case typ == kindRecursive:
		return m.count >= 1 && m.count < 1<<20
	}
	return m.count == 0
}
