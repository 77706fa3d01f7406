package locks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// Reading is the memory at an address decoded as one kind of object.
type Reading struct {
	// What is the object and, where its layout has changed, the versions.
	What string
	// Fields are its members in the order of memory.
	Fields []Field
	// Against are what speaks against it; none means that the bytes fit.
	Against []string

	kinds []Kind // as which threads wait for it
}

// Field is one member of an object.
type Field struct {
	Name   string
	Offset uint64 // in bytes from the object
	Value  uint64
	// Meaning says what the value means, empty for nothing.
	Meaning string
}

func (r *Reading) doubt(wrong bool, format string, args ...any) {
	if wrong {
		r.Against = append(r.Against, fmt.Sprintf(format, args...))
	}
}

// Explain decodes the object at an address as each thing it could be: first as
// what threads wait for there, then by how little speaks against it. The error is
// a *elfcore.Fault where the memory is not in the core.
func Explain(c *elfcore.Core, p *nptl.Process, s *module.Set, at elfcore.Addr) ([]Reading, error) {
	a := newAnalyzer(c, p, s)
	b := make([]byte, maxObject)
	n, err := c.ReadMemory(b, at)
	if n < 4 {
		return nil, err
	}
	e := &explainer{a, at, b[:n]}
	out := []Reading{
		e.mutex(),
		e.cond("pthread_cond_t of glibc 2.25 to 2.40", 16, 24, 36, 40),
		e.cond("pthread_cond_t of glibc 2.41 and later", 0, 16, 28, 32),
		e.rwlock(), e.sem(), e.barrier(), e.fileLock(), e.once(),
		e.oldCond(), e.oldRWLock(), e.oldBarrier(),
	}
	known := e.kinds()
	rank := func(r Reading) int {
		if slices.ContainsFunc(r.kinds, func(k Kind) bool { return known[k] }) {
			return len(r.Against) - len(out)*maxObject
		}
		return len(r.Against)
	}
	slices.SortStableFunc(out, func(x, y Reading) int { return cmp.Compare(rank(x), rank(y)) })
	return out, nil
}

// maxObject is the size of the largest object, in bytes.
const maxObject = 56

// kinds are as what threads wait for the object.
func (e *explainer) kinds() map[Kind]bool {
	out := make(map[Kind]bool)
	for i, x := range e.calls {
		if x.state != blocked || x.futex.Address-e.at >= maxObject {
			continue
		}
		if w := e.classify(i, x.futex); w.Object == e.at {
			out[w.Kind] = true
		}
	}
	return out
}

type explainer struct {
	*analyzer
	at elfcore.Addr
	b  []byte
}

// u32 gives 32 bits of the object, 0 behind its end.
func (e *explainer) u32(offset uint64) uint32 {
	if offset+4 > uint64(len(e.b)) {
		return 0
	}
	return e.core.ByteOrder.Uint32(e.b[offset:])
}

func (e *explainer) u64(offset uint64) uint64 {
	if offset+8 > uint64(len(e.b)) {
		return 0
	}
	return e.core.ByteOrder.Uint64(e.b[offset:])
}

// pointer gives a pointer of the object, 0 behind its end.
func (e *explainer) pointer(offset uint64) uint64 {
	if e.w == 4 {
		return uint64(e.u32(offset))
	}
	return e.u64(offset)
}

func (e *explainer) short(r *Reading, need uint64) {
	r.doubt(uint64(len(e.b)) < need, "only %d of %d bytes are in the core", len(e.b), need)
}

// thread says which thread an id is.
func (e *explainer) thread(id uint32) string {
	if id == 0 {
		return "nobody"
	}
	if t, ok := e.tids[int(id)]; ok {
		return fmt.Sprintf("thread %d", e.core.Threads[t].TID)
	}
	return "no thread of this core"
}

func (e *explainer) mutex() Reading {
	r := Reading{What: "pthread_mutex_t", kinds: []Kind{Mutex, PIMutex, RobustMutex, LoaderLock}}
	e.short(&r, e.mutexSize())
	m := mutexImage{lock: e.u32(mutexLock), count: e.u32(mutexCount), owner: e.u32(mutexOwner), users: e.u32(e.layout.mutexUsers), kind: e.u32(e.layout.mutexKind)}
	word := map[uint32]string{0: "free", 1: "locked", 2: "locked, perhaps with waiters"}[m.lock]
	if m.kind&(kindPI|kindRobust) != 0 {
		word = wordText(m.lock)
	}
	kind := m.typeName()
	if m.kind == ^uint32(0) {
		kind = "destroyed"
	}
	owner := e.thread(m.owner)
	switch m.owner {
	case ownerInconsistent:
		owner = "the owner died, the state is not yet consistent"
	case ownerNotRecoverable:
		owner = "not recoverable"
	}
	r.Fields = []Field{
		{"__lock", mutexLock, uint64(m.lock), word},
		{"__count", mutexCount, uint64(m.count), "how often it is locked (recursive)"},
		{"__owner", mutexOwner, uint64(m.owner), owner},
		{"__nusers", e.layout.mutexUsers, uint64(m.users), "owner and waiters of condition variables"},
		{"__kind", e.layout.mutexKind, uint64(m.kind), kind},
	}
	r.doubt(m.kind&^kindKnown != 0 && m.kind != ^uint32(0), "__kind has bits that no mutex has")
	r.doubt(m.kind&(kindPI|kindRobust|kindProtect) == 0 && m.lock > 2, "__lock is neither 0, 1 nor 2")
	r.doubt(m.lock == 0 && m.owner != 0, "__lock is 0, but __owner names %s", owner)
	r.doubt(m.lock != 0 && m.owner == 0, "__lock is set, but __owner is 0")
	r.doubt(m.users > maxUsers, "__nusers is not small")
	r.doubt(m.kind&(kindPI|kindRobust) != 0 && m.lock&futexTIDs != 0 && m.lock&futexTIDs != m.owner && m.owner != ownerInconsistent, "__lock and __owner name different threads")
	return r
}

// cond decodes the layouts of glibc 2.25 (with __g_refs) and of 2.41.
func (e *explainer) cond(what string, refs, size, wrefs, signals uint64) Reading {
	r := Reading{What: what, kinds: []Kind{Cond, CondDestroy}}
	e.short(&r, condSize)
	w := e.u32(wrefs)
	meaning := fmt.Sprintf("%d threads in a wait", w>>3)
	if w&1 != 0 {
		meaning += ", process-shared"
	}
	if w&2 != 0 {
		meaning += ", CLOCK_MONOTONIC"
	}
	if w&4 != 0 {
		meaning += ", being destroyed"
	}
	waiting := len(e.condUsers[e.at])
	r.Fields = append(r.Fields, Field{"__wseq", 0, e.u64(0), "number of waits, times 2; bit 0 is the group of new waiters"}, Field{"__g1_start", 8, e.u64(8), ""})
	if refs != 0 {
		r.Fields = append(r.Fields, Field{"__g_refs[0]", refs, uint64(e.u32(refs)), ""}, Field{"__g_refs[1]", refs + 4, uint64(e.u32(refs + 4)), ""})
	}
	r.Fields = append(r.Fields,
		Field{"__g_size[0]", size, uint64(e.u32(size)), ""}, Field{"__g_size[1]", size + 4, uint64(e.u32(size + 4)), ""},
		Field{"__wrefs", wrefs, uint64(w), meaning},
		Field{"__g_signals[0]", signals, uint64(e.u32(signals)), ""}, Field{"__g_signals[1]", signals + 4, uint64(e.u32(signals + 4)), ""})
	r.doubt(uint64(e.at)%8 != 0, "it is not aligned")
	r.doubt(w>>3 > maxUsers, "__wrefs counts more threads than there can be")
	r.doubt(int(w>>3) < waiting, "%d threads wait on it, but __wrefs counts %d", waiting, w>>3)
	r.doubt(e.u64(8)>>1 > e.u64(0)>>1, "__g1_start is ahead of __wseq")
	r.doubt(e.u64(0) > 1<<48, "__wseq is no count: it could be a pointer (the first ABI)")
	return r
}

func (e *explainer) rwlock() Reading {
	r := Reading{What: "pthread_rwlock_t of glibc 2.25 and later", kinds: []Kind{RWLockRead, RWLockWrite}}
	e.short(&r, e.layout.rwlockSize)
	readers, writer := e.u32(0), e.u32(e.layout.rwlockWriter)
	text := fmt.Sprintf("%d readers", readers>>3)
	if readers&rwWriteLocked != 0 {
		text += ", locked by a writer"
	}
	if readers&rwReadersWait != 0 {
		text += ", readers wait"
	}
	r.Fields = []Field{
		{"__readers", 0, uint64(readers), text},
		{"__writers", 4, uint64(e.u32(4)), "writers that wait"},
		{"__wrphase_futex", 8, uint64(e.u32(8)), ""},
		{"__writers_futex", 12, uint64(e.u32(12)), ""},
		{"__cur_writer", e.layout.rwlockWriter, uint64(writer), e.thread(writer)},
	}
	r.doubt(e.u32(16) != 0 || e.u32(20) != 0, "its padding is not zero")
	r.doubt(e.u32(8) > 3 || e.u32(12) > 3, "its futex words are not 0 to 3")
	r.doubt(readers>>3 > maxUsers || e.u32(4) > maxUsers, "its counts are not small")
	r.doubt(writer != 0 && readers&rwWriteLocked == 0, "it has a writer, but is not locked by one")
	return r
}
