package locks

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"syscall"

	"github.com/corethreads/corethreads/elfcore"
)

// ownerRange tells fast whether a number can be a thread's id: nearly all of
// memory is none.
type ownerRange struct {
	low, span uint32
	threads   map[uint32]int
}

func newOwnerRange(a *analyzer) ownerRange {
	o := ownerRange{low: ^uint32(0), threads: make(map[uint32]int)}
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
	owners ownerRange
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
		have := h.present(s)
		for at := uint64(0); at < have; {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if o.Limit != 0 && h.out.Searched >= o.Limit {
				return nil
			}
			done := min(h.hole(s, at), have-at)
			if done == 0 {
				n, _ := h.core.ReadMemory(buf[:min(uint64(len(buf)), have-at)], s.Start+elfcore.Addr(at))
				h.scan(buf[:n], s.Start+elfcore.Addr(at), min(n, heldChunk))
				done = min(heldChunk, have-at)
			}
			at += done
			h.out.Searched += done
			if o.Progress != nil {
				o.Progress(int64(h.out.Searched), int64(h.out.Total))
			}
		}
	}
	return nil
}

// hole gives the length of the hole of a sparse file at an offset of a segment:
// whole chunks of zeroes, in which there is no mutex.
func (h *heldSearch) hole(s *elfcore.Segment, at uint64) uint64 {
	const seekData = 3 // SEEK_DATA, lseek(2)
	f := h.core.File()
	if f == nil || runtime.GOOS != "linux" {
		return 0
	}
	here := s.Offset + int64(at)
	data, err := f.Seek(here, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO): // no data follows
		return s.FileSize - at
	case err != nil || data <= here:
		return 0
	}
	return uint64(data-here) / heldChunk * heldChunk
}

// present is how many bytes of a segment the core holds, from its start: fewer
// than it should where the core is cut.
func (h *heldSearch) present(s *elfcore.Segment) uint64 {
	if s.Offset >= h.core.Size {
		return 0
	}
	return min(s.FileSize, uint64(h.core.Size-s.Offset))
}

// scan looks at every place in the first n bytes of b where a mutex can start.
func (h *heldSearch) scan(b []byte, at elfcore.Addr, n int) {
	if h.w == 8 {
		h.scan64(b, at, n)
		return
	}
	low, span := h.owners.low, h.owners.span
	for i := 0; i < n && i+mutexOwner+4 <= len(b); i += 4 {
		if id := h.core.ByteOrder.Uint32(b[i+mutexOwner:]); id-low <= span {
			h.try(id, b[i:], at+elfcore.Addr(i))
		}
	}
}

// scan64 is the loop that the speed of a search depends on. The word at the
// owner's place has the count of users in its other half, which is small and not 0.
func (h *heldSearch) scan64(b []byte, at elfcore.Addr, n int) {
	low, span := h.owners.low, h.owners.span
	words := b[min(mutexOwner, len(b)):]
	words = words[:min(len(words), n)&^7]
	if h.bigEndian() {
		for i := 0; i <= len(words)-8; i += 8 {
			if x := binary.BigEndian.Uint64(words[i:]); uint32(x>>32)-low <= span && uint32(x)-1 < maxHolders {
				h.try(uint32(x>>32), b[i:], at+elfcore.Addr(i))
			}
		}
		return
	}
	for i := 0; i <= len(words)-8; i += 8 {
		if x := binary.LittleEndian.Uint64(words[i:]); uint32(x)-low <= span && x>>32-1 < maxHolders {
			h.try(uint32(x), b[i:], at+elfcore.Addr(i))
		}
	}
}

// try judges the bytes of a mutex whose owner field may name a thread.
func (h *heldSearch) try(id uint32, b []byte, at elfcore.Addr) {
	size := int(h.mutexSize())
	if len(b) < size {
		return
	}
	o := h.core.ByteOrder
	m := mutexImage{addr: at, lock: o.Uint32(b), count: o.Uint32(b[mutexCount:]), owner: id,
		users: o.Uint32(b[h.layout.mutexUsers:]), kind: o.Uint32(b[h.layout.mutexKind:])}
	if !m.held() {
		return
	}
	thread, ok := h.owners.threads[id]
	if !ok || h.seen[at] {
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

// maxHolders is more than the threads that use one mutex at a time: its owner,
// and those that wait on condition variables with it.
const maxHolders = 9999

// held tells whether word, count, users and kind agree that the owner field is
// true.
func (m *mutexImage) held() bool {
	const maxDepth = 1 << 20
	if m.kind&^kindKnown != 0 || m.users < 1 || m.users > maxHolders {
		return false
	}
	switch {
	case m.kind&(kindPI|kindRobust) != 0:
		return m.lock&futexTIDs == m.owner && m.count >= 1 && m.count < maxDepth
	case m.kind&kindProtect != 0:
		word := m.lock & (1<<19 - 1) // below the ceiling
		return (word == 1 || word == 2) && m.count >= 1
	case m.lock != 1 && m.lock != 2:
		return false
	case m.kind&kindTypes == kindRecursive:
		return m.count >= 1 && m.count < maxDepth
	}
	return m.count == 0
}
