package locks

import "github.com/corethreads/corethreads/elfcore"

// isParkedPI: glibc parks a thread for ever on a word of its own stack when the
// kernel says that the owner of a PI mutex is gone, or is the thread itself
// (nptl/pthread_mutex_lock.c: __futex_abstimed_wait64 on a temporary 0). Others
// wait on their stacks as well; so the mutex must be there, too.
func (a *analyzer) isParkedPI(i int, w *Wait) bool {
	const (
		parkedOp = opWaitBitset | opRealtime // as glibc waits without a time-out
		frame    = 1 << 10
	)
	f := &w.Futex
	sp, ok := a.core.Threads[i].SP()
	if !ok || f.Op&^opPrivate != parkedOp || f.Value != 0 || w.Timed || f.Address < sp || f.Address-sp > frame || !a.onOwnStack(i, f.Address) || len(a.cleanups[i]) > 0 || a.inSyscallFunction(i) {
		return false
	}
	m, at, ok := a.parkedFor(i)
	if !ok {
		return false
	}
	w.Kind, w.Object, w.Name = PIMutex, m.addr, m.typeName()
	w.fact("the word %s is on the thread's own stack: glibc waits there for ever when the owner of a PI mutex is gone or the thread itself", f.Address)
	w.fact("its stack has, at %s, the address of the PI mutex %s, whose word is %s", at, m.addr, wordText(m.lock))
	a.ownedBy(w, m.lock&futexTIDs, true)
	return true
}

// parkedFor searches the stack of a thread that glibc may have parked for the
// address of a PI mutex that it cannot have got: its own, taken twice, or one of
// a thread that is not in the core.
func (a *analyzer) parkedFor(i int) (mutexImage, elfcore.Addr, bool) {
	const window = 4 << 10 // of pthread_mutex_lock and its caller
	return a.mutexOnStack(i, window, func(m mutexImage) bool {
		tid := m.lock & futexTIDs
		if m.kind&kindPI == 0 || tid == 0 || tid > maxTID {
			return false
		}
		if int(tid) == a.memoryTID(i) {
			return m.kind&(kindTypes|kindRobust) == 0 // others report EDEADLK or count
		}
		return !a.lives(tid)
	})
}

// mutexOnStack searches the used end of a thread's stack for the address of a
// mutex.
func (a *analyzer) mutexOnStack(i int, window uint64, want func(mutexImage) bool) (mutexImage, elfcore.Addr, bool) {
	for at, p := range a.stackWords(i, window) {
		if p == 0 || p%4 != 0 || !a.onOwnStack(i, at) {
			continue
		}
		if m, ok := a.mutexAt(p); ok && m.kind&^kindKnown == 0 && want(m) {
			return m, at, true
		}
	}
	return mutexImage{}, 0, false
}

// inSyscallFunction tells whether a thread is in libc's function syscall: then
// it is not the C library that waits. Without symbols it cannot be told.
func (a *analyzer) inSyscallFunction(i int) bool {
	pc, ok := a.core.Threads[i].PC()
	if !ok {
		return false
	}
	sym, _, ok := a.set.Symbolize(pc)
	return ok && sym.Name == "syscall"
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
	w.fact("FUTEX_LOCK_PI; the mutex's kind is %#x, its word %s, its owner field %d", m.kind, wordText(m.lock), m.owner)
	owner := m.lock & futexTIDs
	if m.lock == 0 || m.lock&ownerDied != 0 && a.lives(m.owner) {
		owner = m.owner // kernels before 5.16 hand mutexes on while they dump
	}
	a.ownedBy(w, owner, true)
	return true
}

// isRobust: a robust mutex's word holds its owner's id, and its futex is never
// private, since the kernel wakes waiters when an owner dies.
func (a *analyzer) isRobust(_ int, w *Wait) bool {
	f := &w.Futex
	m, ok := a.mutexAt(f.Address)
	owner := f.Value & futexTIDs
	if !ok || m.kind&kindRobust == 0 || m.kind&^kindKnown != 0 || f.Value&waiters == 0 || f.Private() || owner == 0 || owner > maxTID {
		return false
	}
	if m.owner != 0 && m.owner != owner && m.owner < ownerNotRecoverable && m.lock&ownerDied == 0 {
		return false
	}
	w.Kind, w.Object, w.Name, w.Shared = RobustMutex, m.addr, m.typeName(), m.shared()
	w.fact("the mutex's kind is %#x (robust), its word %s, its owner field %d", m.kind, wordText(m.lock), m.owner)
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

// isPlainMutex: the word is 2 (locked, with waiters), and owner, users and kind
// stand where a mutex has them, and nothing where it has nothing. Without a
// time-out glibc waits by FUTEX_WAIT.
func (a *analyzer) isPlainMutex(_ int, w *Wait) bool {
	f := &w.Futex
	if f.Value != 2 || f.command() != opWait && !w.Timed {
		return false
	}
	m, ok := a.mutexAt(f.Address)
	if !ok || !m.sound() || m.kind&(kindPI|kindRobust|kindProtect) != 0 || !a.unlisted(m.addr) || f.Private() == m.shared() {
		return false
	}
	if !a.lives(m.owner) && a.pointerAt(m.addr+mutexOwner) {
		return false // as behind a lock of Go's runtime
	}
	w.Kind, w.Object, w.Name, w.Shared = Mutex, m.addr, m.typeName(), m.shared()
	w.fact("the mutex's word is %d, its kind %#x, its owner field %d, its users %d", m.lock, m.kind, m.owner, m.users)
	a.ownedBy(w, m.owner, true)
	return true
}

// unlisted tells whether the list node of a mutex is zero, as it is in all that
// are not robust. (32-bit ones share it with what elision counts.)
func (a *analyzer) unlisted(at elfcore.Addr) bool {
	if a.w == 4 {
		return true
	}
	prev, ok1 := a.word(at + elfcore.Addr(a.layout.mutexList))
	next, ok2 := a.word(at + elfcore.Addr(a.layout.mutexList+a.w))
	return ok1 && ok2 && prev == 0 && next == 0
}

// pointerAt tells whether a word leads to memory.
func (a *analyzer) pointerAt(at elfcore.Addr) bool {
	p, ok := a.word(at)
	_, mapped := a.core.Segment(p)
	return ok && mapped
}
