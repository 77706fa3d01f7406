package locks

import "github.com/corethreads/corethreads/elfcore"

// musl's objects (src/internal/pthread_impl.h of musl 1.2): unsigned ints from
// the start of the object.

// muslTID reads the id in a descriptor: self, dtv, prev, next, sysinfo, canary,
// tid, errno, detach_state.
func (a *analyzer) muslTID(pd elfcore.Addr) (uint32, bool) { return a.u32(pd + elfcore.Addr(6*a.w)) }

// isMuslJoin: the word is the detach_state of another thread's descriptor.
func (a *analyzer) isMuslJoin(_ int, w *Wait) bool {
	pd := w.Futex.Address - elfcore.Addr(6*a.w+8)
	self, ok := a.word(pd)
	if !ok || self != pd || w.Futex.Value > 3 {
		return false
	}
	w.Kind, w.Object = Join, pd
	w.fact("%s is in the descriptor %s of another thread: pthread_join", w.Futex.Address, pd)
	tid, ok := a.muslTID(pd)
	a.ownedBy(w, tid, ok)
	return true
}

// isMuslCond: a process-shared condition variable's waiters sleep on its
// sequence number; others sleep in a node on their own stack, which the
// condition variable's list leads to.
func (a *analyzer) isMuslCond(i int, w *Wait) bool {
	f := &w.Futex
	if !a.onOwnStack(i, f.Address) {
		cond := f.Address - 8
		b := make([]byte, 48)
		if _, err := a.core.ReadMemory(b, cond); err != nil {
			return false
		}
		// _c_shared is not null, _c_waiters not zero, there is no list.
		if a.core.WordOf(b) == 0 || a.w == 8 && a.core.ByteOrder.Uint32(b[12:]) == 0 || a.core.ByteOrder.Uint32(b[8:]) != f.Value || f.Private() {
			return false
		}
		w.Kind, w.Object, w.Guess = Cond, cond, true
		w.fact("the word is the sequence number of a process-shared condition variable at %s", cond)
		return true
	}
	// struct waiter {prev, next, state, barrier, notify}: the word is barrier.
	node := f.Address - elfcore.Addr(2*a.w+4)
	if f.Value != 2 {
		return false
	}
	for range maxCleanups {
		prev, ok := a.word(node)
		if !ok {
			return false
		}
		if prev == 0 || a.anyStack(prev) < 0 {
			break // the newest waiter, which _c_head names
		}
		node = prev
	}
	at, ok := a.pointerTo(node)
	if !ok {
		return false
	}
	w.Kind, w.Object = Cond, at-elfcore.Addr(a.w)
	w.fact("the word is in a node of musl's list of waiters, whose head is named at %s", at)
	return true
}

// isMuslBarrier: threads that arrive wait in a structure on the first one's
// stack, which the barrier names (_b_inst).
func (a *analyzer) isMuslBarrier(_ int, w *Wait) bool {
	f := &w.Futex
	if a.anyStack(f.Address) < 0 || f.Value > 1 {
		return false
	}
	// struct instance {count, last, waiters, finished}: later threads wait on
	// last while it is 0, the first on finished while it is 1.
	for value, offset := range []elfcore.Addr{4, 12} {
		at, ok := a.pointerTo(f.Address - offset)
		if !ok || f.Value != uint32(value) {
			continue
		}
		w.Kind, w.Object = Barrier, at-24
		if a.w == 4 {
			w.Object = at - 20
		}
		w.fact("the word is in the instance at %s of the barrier that names it at %s", f.Address-offset, at)
		return true
	}
	return false
}

// pointerTo finds a pointer to a place on a stack in the modules' data, which is
// searched once.
func (a *analyzer) pointerTo(target elfcore.Addr) (elfcore.Addr, bool) {
	if a.stackPointers == nil {
		a.stackPointers = make(map[elfcore.Addr]elfcore.Addr)
		for _, m := range a.set.Modules {
			for _, data := range a.set.WritableData(m) {
				a.findStackPointers(data)
			}
		}
	}
	at, ok := a.stackPointers[target]
	return at, ok
}

func (a *analyzer) findStackPointers(data elfcore.Range) {
	b := make([]byte, min(data.Len(), maxModuleData))
	n, _ := a.core.ReadMemory(b, data.Start)
	for at := uint64(0); at+a.w <= uint64(n); at += a.w {
		p := elfcore.Addr(a.core.WordOf(b[at:]))
		if p == 0 || a.anyStack(p) < 0 {
			continue
		}
		if _, twice := a.stackPointers[p]; !twice {
			a.stackPointers[p] = data.Start + elfcore.Addr(at)
		}
	}
}

const (
	muslBusy = 16 // EBUSY: the word of a normal mutex that is locked
	muslFull = 1<<31 - 1
)

// isMuslMutex: type, lock, waiters. A normal mutex does not record its owner.
func (a *analyzer) isMuslMutex(_ int, w *Wait) bool {
	f := &w.Futex
	at := f.Address - 4
	typ, ok1 := a.u32(at)
	waiting, ok2 := a.u32(at + 8)
	owner := f.Value & futexTIDs
	normal := typ&3 == 0
	if !ok1 || !ok2 || f.Value&waiters == 0 || typ&^0xff != 0 || waiting == 0 || waiting > 100000 || normal != (owner == muslBusy) || owner == futexTIDs {
		return false
	}
	w.Kind, w.Object = Mutex, at
	if typ&8 != 0 {
		w.Kind = PIMutex
	} else if typ&4 != 0 {
		w.Kind = RobustMutex
	}
	w.fact("a mutex of musl: type %#x, word %#x, %d waiting", typ, f.Value, waiting)
	if normal {
		w.OwnerState = OwnerUnknown
		return true
	}
	a.ownedBy(w, owner, true)
	return true
}

// isMuslRWLock: lock, waiters, shared. The lock counts readers; all ones is a
// writer, which is not recorded.
func (a *analyzer) isMuslRWLock(_ int, w *Wait) bool {
	f := &w.Futex
	waiting, ok1 := a.u32(f.Address + 4)
	shared, ok2 := a.u32(f.Address + 8)
	holders := f.Value &^ waiters
	if !ok1 || !ok2 || f.Value&waiters == 0 || shared != 0 && shared != opPrivate || waiting == 0 || waiting > 100000 || holders == 0 || a.anyStack(f.Address) >= 0 {
		return false
	}
	w.Kind, w.Object, w.OwnerState = RWLockRead, f.Address, OwnerUnknown
	w.Guess = true // readers and writers sleep alike
	if holders != muslFull {
		w.Kind = RWLockWrite
	}
	w.fact("a rwlock of musl: word %#x, %d waiting; musl does not record who holds it", f.Value, waiting)
	return true
}

// isMuslSem: value, waiters, private. A thread that sleeps has the address of
// waiters on its cleanup chain (src/thread/sem_timedwait.c), which tells a
// semaphore from a rwlock.
func (a *analyzer) isMuslSem(i int, w *Wait) bool {
	f := &w.Futex
	at, ok := a.muslCleanup(i, f.Address+4)
	private, ok2 := a.u32(f.Address + 8)
	waiting, _ := a.u32(f.Address + 4)
	if !ok || !ok2 || private != 0 && private != opPrivate {
		return false
	}
	w.Kind, w.Object = Sem, f.Address
	w.fact("its cleanup chain names, at %s, the number of waiters (%d) of a semaphore of musl", at, waiting)
	return true
}

// muslCleanup looks for an argument on a thread's cleanup chain: struct __ptcb
// {f, x, next} from cancelbuf on, which comes after map_base, map_size, stack,
// stack_size, guard_size and result.
func (a *analyzer) muslCleanup(i int, arg elfcore.Addr) (elfcore.Addr, bool) {
	flags := 6*a.w + 16 // canceldisable and its neighbours, padded to a word
	node, ok := a.word(a.process.Threads[i].Pthread + elfcore.Addr(flags+7*a.w))
	for range maxCleanups {
		if !ok || !a.onOwnStack(i, node) {
			return 0, false
		}
		if x, ok := a.word(node + elfcore.Addr(a.w)); ok && x == arg {
			return node, true
		}
		node, ok = a.word(node + elfcore.Addr(2*a.w))
	}
	return 0, false
}

// isMuslOnce: a pthread_once_t is 3 while its routine runs and others wait. It is
// a static variable in practice: a word on a stack is something else.
func (a *analyzer) isMuslOnce(_ int, w *Wait) bool {
	f := &w.Futex
	if f.Value != 3 || a.anyStack(f.Address) >= 0 || a.set.At(f.Address) == nil {
		return false
	}
	w.Kind, w.Object, w.OwnerState, w.Guess = Once, f.Address, OwnerUnknown, true
	w.fact("the word is 3, in the data of %s", a.set.At(f.Address))
	return true
}
