package locks

import (
	"github.com/corethreads/corethreads/elfcore"
)

// classify finds the object that a blocked thread's futex word belongs to, by
// the surest sign first.
func (a *analyzer) classify(i int, f Futex) Wait {
	w := Wait{Thread: i, Futex: f, Owner: -1, OwnerState: NoOwner, Timed: f.Timeout != 0, Shared: !f.Private()}
	w.fact("thread %d is in futex(%s, op %#x, value %#x)", a.core.Threads[i].TID, f.Address, f.Op, f.Value)
	rules := []func(int, *Wait) bool{
		a.isLoaderLock, a.isParkedPI, a.isCond, a.isSem, a.isJoin, a.isKernelLock, a.isRobust, a.isProtected, a.isFileLock,
		a.isPlainMutex, a.isArena, a.isCondDestroy, a.isRWLock, a.isBarrier, a.isOnce,
	}
	if a.musl {
		rules = []func(int, *Wait) bool{a.isMuslJoin, a.isMuslSem, a.isMuslCond, a.isMuslBarrier, a.isMuslMutex, a.isMuslRWLock, a.isMuslOnce}
	}
	for _, is := range rules {
		if is(i, &w) {
			return w
		}
	}
	w.Kind, w.Object, w.OwnerState = RawFutex, f.Address, OwnerUnknown
	w.fact("the word belongs to no object of the C library that is known")
	return w
}

// isLoaderLock: the word is one of the dynamic loader's locks.
func (a *analyzer) isLoaderLock(_ int, w *Wait) bool {
	name, ok := a.loaderLockAt(w.Futex.Address)
	if !ok {
		return false
	}
	w.Kind, w.Object, w.Name = LoaderLock, w.Futex.Address, name
	w.fact("%s is %s, a recursive mutex in the loader's data", w.Futex.Address, name)
	m, ok := a.mutexAt(w.Object)
	a.ownedBy(w, m.owner, ok)
	return true
}

// isParkedPI: glibc parks a thread for ever on a word of its own stack when the
// kernel says that the owner of a PI mutex is gone, or is the thread itself
// (nptl/pthread_mutex_lock.c).
func (a *analyzer) isParkedPI(i int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWaitBitset || f.Value != 0 || w.Timed || !a.onOwnStack(i, f.Address) || len(a.cleanups[i]) > 0 {
		return false
	}
	w.Kind, w.Object, w.OwnerState, w.Guess = PIMutex, 0, OwnerUnknown, true
	w.fact("the word %s is on the thread's own stack: glibc waits there for ever when the owner of a PI mutex is gone", f.Address)
	if m, at, ok := a.deadPIMutex(i); ok {
		w.Object, w.Guess = m.addr, false
		w.fact("its stack has, at %s, the address of the PI mutex %s, whose word %#x names thread %d", at, m.addr, m.lock, m.lock&futexTIDs)
		a.ownedBy(w, m.lock&futexTIDs, true)
	}
	return true
}

// isCond: the cleanup chain names a condition variable, and the word is one of
// its two groups'.
func (a *analyzer) isCond(i int, w *Wait) bool {
	cond, mutex, _, ok := a.condCleanup(i)
	if !ok {
		return false
	}
	layout := ""
	switch w.Futex.Address - cond {
	case 32, 36:
		layout = "glibc 2.41's layout"
	case 40, 44:
		layout = "glibc 2.25's layout"
	case 4:
		layout = "the layout before glibc 2.25"
	default:
		return false
	}
	w.Kind, w.Object, w.Mutex = Cond, cond, mutex
	w.Shared = !w.Futex.Private()
	w.fact("its cleanup chain names the condition variable %s and the mutex %s; the word is %d bytes into it, %s", cond, mutex, w.Futex.Address-cond, layout)
	return true
}

// isSem: the cleanup chain names a semaphore whose value the word is. Its value
// is the low half of 64 bits where words have that many, which comes second in
// big-endian order.
func (a *analyzer) isSem(i int, w *Wait) bool {
	for _, object := range []elfcore.Addr{w.Futex.Address, w.Futex.Address - 4} {
		if object != w.Futex.Address && (a.w == 4 || a.core.ByteOrder.String() != "BigEndian") {
			continue
		}
		at, ok := a.hasCleanup(i, object)
		if !ok || !a.semAt(object) {
			continue
		}
		w.Kind, w.Object = Sem, object
		w.fact("its cleanup chain, at %s, names the semaphore %s", at, object)
		return true
	}
	return false
}

// semAt tells whether a sem_t that somebody waits for can be at an address:
// private is 0 or 128 in all versions.
func (a *analyzer) semAt(at elfcore.Addr) bool {
	private, ok := a.u32(at + 8)
	if a.w == 4 {
		private, ok = a.u32(at + 4)
	}
	return ok && (private == 0 || private == opPrivate)
}

// isJoin: the word is the id (since 2.43 the joinstate) in another thread's
// descriptor.
func (a *analyzer) isJoin(_ int, w *Wait) bool {
	l := a.process.Layout
	offsets := []uint64{l.Header + l.TID}
	if l.JoinState && l.Join != 0 {
		offsets = append(offsets, l.Header+l.Join)
	}
	for _, off := range offsets {
		h, ok := a.pthreads[w.Futex.Address-elfcore.Addr(off)]
		if !ok {
			continue
		}
		w.Kind, w.Object = Join, h.Pthread
		w.fact("%s is in the descriptor %s of another thread: pthread_join", w.Futex.Address, h.Pthread)
		a.ownedByHandle(w, h)
		return true
	}
	return false
}

// isKernelLock: the kernel itself hands the lock over (priority inheritance).
func (a *analyzer) isKernelLock(_ int, w *Wait) bool {
	if !w.Futex.pi() || w.Futex.command() == opWaitRequeuePI {
		return false
	}
	w.Object = w.Futex.Address
	m, ok := a.mutexAt(w.Object)
	w.Kind = PIMutex
	if !ok || m.kind&kindPI == 0 || m.kind&^kindKnown != 0 {
		w.Kind, w.OwnerState = RawFutex, OwnerUnknown
		w.fact("FUTEX_LOCK_PI on a word that is no PI mutex of the C library")
		if ok {
			a.ownedBy(w, m.lock&futexTIDs, true)
		}
		return true
	}
	w.Name, w.Shared = m.typeName(), m.shared()
	if m.kind&kindRobust != 0 {
		w.Kind = RobustMutex
	}
	w.fact("FUTEX_LOCK_PI; the mutex's kind is %#x, its word %#x, its owner field %d", m.kind, m.lock, m.owner)
	owner := m.lock & futexTIDs
	if m.lock == 0 {
		owner = m.owner
	}
	a.ownedBy(w, owner, true)
	return true
}

// isRobust: a robust mutex's word holds its owner's id.
func (a *analyzer) isRobust(_ int, w *Wait) bool {
	m, ok := a.mutexAt(w.Futex.Address)
	if !ok || m.kind&kindRobust == 0 || m.kind&^kindKnown != 0 || w.Futex.Value&waiters == 0 {
		return false
	}
	w.Kind, w.Object, w.Name, w.Shared = RobustMutex, m.addr, m.typeName(), m.shared()
	w.fact("the mutex's kind is %#x (robust), its word %#x, its owner field %d", m.kind, m.lock, m.owner)
	owner := w.Futex.Value & futexTIDs
	if m.lock&ownerDied != 0 && m.owner != 0 {
		owner = m.owner
	}
	a.ownedBy(w, owner, true)
	return true
}

// isProtected: a mutex with a priority ceiling keeps it in its word.
func (a *analyzer) isProtected(_ int, w *Wait) bool {
	const ceilingShift = 19 // PTHREAD_MUTEX_PRIO_CEILING_SHIFT
	m, ok := a.mutexAt(w.Futex.Address)
	if !ok || m.kind&kindProtect == 0 || !m.sound() || w.Futex.Value&(1<<ceilingShift-1) != 2 {
		return false
	}
	w.Kind, w.Object, w.Name, w.Shared = Mutex, m.addr, m.typeName(), m.shared()
	w.fact("the mutex's kind is %#x (priority ceiling %d), its owner field %d", m.kind, w.Futex.Value>>ceilingShift, m.owner)
	a.ownedBy(w, m.owner, true)
	return true
}

// isFileLock: the lock of a FILE names its owner's descriptor (_IO_lock_t: lock,
// cnt, owner).
func (a *analyzer) isFileLock(_ int, w *Wait) bool {
	if w.Futex.Value != 2 || w.Futex.command() != opWait {
		return false
	}
	pd, ok := a.word(w.Futex.Address + 8)
	h, known := a.pthreads[pd]
	if !ok || !known {
		return false
	}
	w.Kind, w.Object = FileLock, w.Futex.Address
	w.fact("8 bytes behind the word stands %s, a thread's descriptor: the lock of a FILE", pd)
	a.ownedByHandle(w, h)
	return true
}

// isPlainMutex: the word is 2 (locked, with waiters), and owner, users and kind
// stand where a mutex has them. Without a time-out glibc waits by FUTEX_WAIT.
func (a *analyzer) isPlainMutex(_ int, w *Wait) bool {
	f := &w.Futex
	if f.Value != 2 || f.command() != opWait && !w.Timed {
		return false
	}
	m, ok := a.mutexAt(f.Address)
	if !ok || !m.sound() || m.kind&(kindPI|kindRobust) != 0 {
		return false
	}
	w.Kind, w.Object, w.Name, w.Shared = Mutex, m.addr, m.typeName(), m.shared()
	w.fact("the mutex's word is %d, its kind %#x, its owner field %d, its users %d", m.lock, m.kind, m.owner, m.users)
	a.ownedBy(w, m.owner, true)
	return true
}

// isArena: a low-level lock at the start of a malloc arena, which lies at the
// start of an aligned heap that points back at it (malloc/arena.c, heap_info).
func (a *analyzer) isArena(_ int, w *Wait) bool {
	heap := elfcore.Addr(64 << 20)
	if a.w == 4 {
		heap = 1 << 20
	}
	f := &w.Futex
	if f.Value != 2 || f.command() != opWait {
		return false
	}
	start := f.Address &^ (heap - 1)
	if p, ok := a.word(start); ok && p == f.Address && f.Address-start < 0x100 {
		w.Kind, w.Object, w.OwnerState = MallocArena, f.Address, OwnerUnknown
		w.fact("the heap at %s names %s as its arena: a lock of malloc, which does not record its owner", start, f.Address)
		return true
	}
	if sym, off, ok := a.set.Symbolize(f.Address); ok && sym.Name == "main_arena" && off == 0 {
		w.Kind, w.Object, w.Name, w.OwnerState = MallocArena, f.Address, sym.Name, OwnerUnknown
		w.fact("%s is main_arena", f.Address)
		return true
	}
	return false
}

// isCondDestroy: pthread_cond_destroy waits on __wrefs, with bit 2 set, for
// those who wait to be gone.
func (a *analyzer) isCondDestroy(_ int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWait || f.Value&4 == 0 || f.Value>>3 == 0 || f.Value>>3 > 100000 {
		return false
	}
	for _, v := range []struct {
		offset elfcore.Addr // of __wrefs
		groups elfcore.Addr // of __g_signals
	}{{36, 40}, {28, 32}} {
		cond := f.Address - v.offset
		if a.waitsOn(cond, v.groups) == 0 {
			continue
		}
		w.Kind, w.Object, w.count = CondDestroy, cond, uint64(f.Value>>3)
		w.fact("the word is __wrefs (%#x) of the condition variable %s, on which other threads wait", f.Value, cond)
		return true
	}
	return false
}

// waitsOn counts the threads whose cleanup chains name a condition variable.
func (a *analyzer) waitsOn(cond, groups elfcore.Addr) int {
	n := 0
	for i := range a.core.Threads {
		c, _, _, ok := a.condCleanup(i)
		if !ok || c != cond {
			continue
		}
		if f, s := a.futexCall(i); s == blocked && (f.Address == cond+groups || f.Address == cond+groups+4) {
			n++
		}
	}
	return n
}

// isRWLock: readers wait on __wrphase_futex (or on __readers behind a writer
// that is preferred), writers on __wrphase_futex or __writers_futex
// (nptl/pthread_rwlock_common.c, glibc 2.25 and later).
func (a *analyzer) isRWLock(_ int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWaitBitset && f.command() != opWait {
		return false
	}
	for _, v := range []struct {
		offset elfcore.Addr
		kind   Kind
	}{{8, RWLockRead}, {12, RWLockWrite}, {0, RWLockRead}} {
		at := f.Address - v.offset
		l, ok := a.rwlockAt(at)
		if !ok {
			continue
		}
		kind := v.kind
		switch v.offset {
		case 8:
			// Readers wait while a writer has the phase, the first writer
			// while readers have it.
			if f.Value&2 == 0 {
				continue
			}
			if l.readers&rwWritePhase == 0 {
				kind = RWLockWrite
			}
		case 12:
			if f.Value&2 == 0 {
				continue
			}
		case 0:
			if f.Value&rwReadersWait == 0 {
				continue
			}
		}
		w.Kind, w.Object, w.count = kind, at, uint64(l.readers>>3)
		w.Shared = l.shared
		w.fact("a rwlock: readers %#x, writers %d, writer's thread %d", l.readers, l.writers, l.writer)
		if l.writer != 0 {
			a.ownedBy(w, l.writer, true)
		} else {
			w.OwnerState = OwnerUnknown
			w.fact("held by %d readers, which a rwlock does not record", l.readers>>3)
		}
		return true
	}
	return false
}

// Bits of __readers.
const (
	rwWritePhase  = 1
	rwWriteLocked = 2
	rwReadersWait = 4
)

type rwlockImage struct {
	readers, writers, writer uint32
	shared                   bool
}

// rwlockAt reads a rwlock that somebody holds, and checks what is always zero in
// one.
func (a *analyzer) rwlockAt(at elfcore.Addr) (rwlockImage, bool) {
	size := 56
	if a.w == 4 {
		size = 32
	}
	b := make([]byte, size)
	if _, err := a.core.ReadMemory(b, at); err != nil || uint64(at)%4 != 0 {
		return rwlockImage{}, false
	}
	o := a.core.ByteOrder
	l := rwlockImage{readers: o.Uint32(b), writers: o.Uint32(b[4:]), writer: o.Uint32(b[a.layout.rwlockWriter:])}
	if o.Uint32(b[16:]) != 0 || o.Uint32(b[20:]) != 0 || o.Uint32(b[8:]) > 3 || o.Uint32(b[12:]) > 3 {
		return l, false
	}
	var shared, flags uint32
	if a.w == 8 {
		shared, flags = o.Uint32(b[a.layout.rwlockShared:]), o.Uint32(b[a.layout.rwlockFlags:])
		for _, x := range b[33:48] { // behind __rwelision
			if x != 0 {
				return l, false
			}
		}
	} else {
		shared, flags = uint32(b[a.layout.rwlockShared]), uint32(b[a.layout.rwlockFlags])
		if a.core.ByteOrder.String() == "BigEndian" {
			flags, shared = uint32(b[27]), uint32(b[26])
		}
	}
	l.shared = shared == 1
	held := l.readers>>3 > 0 || l.readers&(rwWritePhase|rwWriteLocked) != 0
	if shared > 1 || flags > 2 || l.writers > 100000 || l.readers>>3 > 100000 || !held || l.writer != 0 && l.readers&rwWriteLocked == 0 {
		return l, false
	}
	return l, true
}

// isBarrier: {in, current_round, count, shared, out} since glibc 2.23; threads
// wait on the round.
func (a *analyzer) isBarrier(_ int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWait {
		return false
	}
	at := f.Address - 4
	b := make([]byte, 20)
	if _, err := a.core.ReadMemory(b, at); err != nil {
		return false
	}
	o := a.core.ByteOrder
	in, round, count, shared, out := o.Uint32(b), o.Uint32(b[4:]), o.Uint32(b[8:]), o.Uint32(b[12:]), o.Uint32(b[16:])
	arrived := in - round
	if round != f.Value || count < 2 || count > 1<<20 || arrived < 1 || arrived >= count || shared != 0 && shared != opPrivate || out > in {
		return false
	}
	w.Kind, w.Object, w.count = Barrier, at, uint64(arrived)
	w.Shared = shared != 0
	w.fact("a barrier: %d of %d threads have arrived", arrived, count)
	return true
}

// isOnce: a pthread_once_t is 1 (plus a generation in steps of 4) while its
// routine runs; the thread that runs it has it on its cleanup chain.
func (a *analyzer) isOnce(i int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWait || !f.Private() || f.Value&3 != 1 {
		return false
	}
	for j := range a.core.Threads {
		at, ok := a.hasCleanup(j, f.Address)
		if !ok || j == i {
			continue
		}
		w.Kind, w.Object = Once, f.Address
		w.fact("thread %d has it on its cleanup chain, at %s: it runs the routine", a.core.Threads[j].TID, at)
		a.ownedBy(w, uint32(a.core.Threads[j].TID), true)
		return true
	}
	return false
}
