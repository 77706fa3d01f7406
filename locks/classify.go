package locks

import (
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// classify finds the object that a blocked thread's futex word belongs to, by
// the surest sign first.
func (a *analyzer) classify(i int, f Futex) Wait {
	w := Wait{Thread: i, Futex: f, Owner: -1, OwnerState: NoOwner, Timed: f.Timeout != 0, Shared: !f.Private()}
	w.fact("thread %d is in futex(%s, op %#x, value %#x)", a.core.Threads[i].TID, f.Address, f.Op, f.Value)
	for _, is := range a.rules {
		if is(i, &w) {
			return w
		}
	}
	w.Kind, w.Object, w.OwnerState = RawFutex, f.Address, OwnerUnknown
	if !f.Readable {
		w.fact("the word is not in the core, so that what it belongs to cannot be told")
		return w
	}
	w.fact("the word belongs to no object of the C library that is known")
	return w
}

// rule tells whether a thread's wait is for one kind of object, and says in the
// wait what it has found.
type rule func(thread int, w *Wait) bool

// classifiers are the rules for the C library of this process, the surest first.
func (a *analyzer) classifiers() []rule {
	switch {
	case a.musl:
		return []rule{a.isMuslJoin, a.isMuslSem, a.isMuslCond, a.isMuslBarrier, a.isMuslMutex, a.isMuslRWLock, a.isMuslOnce}
	case a.process.Libc.Kind == nptl.NoLibc:
		return []rule{a.isKernelLock}
	}
	rules := []rule{
		a.isLoaderLock, a.isParkedPI, a.isCond, a.isSem, a.isJoin, a.isKernelLock, a.isRobust, a.isProtected, a.isFileLock,
		a.isPlainMutex, a.isArena, a.isCondDestroy, a.isRWLock, a.isBarrier, a.isOnce,
	}
	if a.mayBeOld() {
		rules = append(rules, a.isOldCond, a.isOldRWLock, a.isOldBarrier)
	}
	return rules
}

// mayBeOld tells whether the C library can be glibc before 2.25, whose objects had
// other layouts, made of small numbers that much memory looks like.
func (a *analyzer) mayBeOld() bool {
	const changed = 25
	l := &a.process.Libc
	return l.Version < changed && l.Min < changed
}

// isLoaderLock: the word is one of the dynamic loader's locks.
func (a *analyzer) isLoaderLock(_ int, w *Wait) bool {
	name, ok := a.loaderLockAt(w.Futex.Address)
	if !ok {
		return false
	}
	w.Kind, w.Object, w.Name = LoaderLock, w.Futex.Address, name
	w.fact("%s is a recursive mutex in the data of the dynamic loader", w.Futex.Address)
	if name != "" {
		w.fact("by its place there it is %s", name)
	}
	m, ok := a.mutexAt(w.Object)
	a.ownedBy(w, m.owner, ok)
	return true
}

// isSem: the cleanup chain names a semaphore whose value the word is. Its value
// is the low half of 64 bits where words have that many, which comes second in
// big-endian order.
func (a *analyzer) isSem(i int, w *Wait) bool {
	for _, object := range []elfcore.Addr{w.Futex.Address, w.Futex.Address - 4} {
		if object != w.Futex.Address && (a.w == 4 || !a.bigEndian()) {
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

// semAt tells whether a sem_t can be at an address: private is 0 or 128, in the
// third word, or the second (on 32-bit systems, and before glibc 2.21).
func (a *analyzer) semAt(at elfcore.Addr) bool {
	second, ok1 := a.u32(at + 4)
	third, ok2 := a.u32(at + 8)
	return ok1 && ok2 && (second == 0 || second == opPrivate || third == 0 || third == opPrivate)
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

// isBarrier: {in, current_round, count, shared, out} since glibc 2.23; threads
// wait on the round.
func (a *analyzer) isBarrier(_ int, w *Wait) bool {
	f := &w.Futex
	at := f.Address - 4
	b := make([]byte, 20)
	if _, err := a.core.ReadMemory(b, at); err != nil || f.command() != opWait {
		return false
	}
	o := a.core.ByteOrder
	in, round, count, shared, out := o.Uint32(b), o.Uint32(b[4:]), o.Uint32(b[8:]), o.Uint32(b[12:]), o.Uint32(b[16:])
	arrived := in - round
	if round != f.Value || count < 2 || count > maxUsers || arrived < 1 || arrived >= count || shared != 0 && shared != opPrivate || f.Private() != (shared == 0) || out > in {
		return false
	}
	w.Kind, w.Object, w.Shared = Barrier, at, shared != 0
	w.fact("a barrier: %d of %d threads have arrived", arrived, count)
	return true
}

// isOldBarrier: {curr_event, lock, left, init_count, private} before glibc 2.23;
// threads wait on the event. Such small numbers prove little.
func (a *analyzer) isOldBarrier(_ int, w *Wait) bool {
	f := &w.Futex
	b := make([]byte, 20)
	if _, err := a.core.ReadMemory(b, f.Address); err != nil || f.command() != opWait || w.Timed {
		return false
	}
	o := a.core.ByteOrder
	event, lock, left, count, private := o.Uint32(b), o.Uint32(b[4:]), o.Uint32(b[8:]), o.Uint32(b[12:]), o.Uint32(b[16:])
	if event != f.Value || lock > 2 || count < 2 || count > maxUsers || left < 1 || left >= count || private != 0 && private != opPrivate || f.Private() != (private == 0) {
		return false
	}
	w.Kind, w.Object, w.Shared, w.Guess = Barrier, f.Address, private != 0, true
	w.fact("a barrier in the layout before glibc 2.23: %d of %d threads have arrived", count-left, count)
	return true
}

// isOnce: a pthread_once_t is 1 (plus a generation in steps of 4) while its
// routine runs; the thread that runs it has it on its cleanup chain.
func (a *analyzer) isOnce(i int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWait || !f.Private() || f.Value&3 != 1 {
		return false
	}
	for _, j := range a.cleaners[f.Address] {
		if j == i {
			continue
		}
		at, _ := a.hasCleanup(j, f.Address)
		w.Kind, w.Object = Once, f.Address
		w.fact("thread %d has it on its cleanup chain, at %s: it runs the routine", a.tid(j), at)
		w.Owner, w.OwnerTID, w.OwnerState = j, a.tid(j), OwnerLive
		return true
	}
	return false
}
