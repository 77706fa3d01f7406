package locks

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// ownedBy notes the owner of an object by its id; recorded is false where the
// core does not show it.
func (a *analyzer) ownedBy(w *Wait, tid uint32, recorded bool) {
	switch {
	case !recorded || tid == 0:
		w.OwnerState = OwnerUnknown
		return
	case tid == ownerInconsistent || tid == ownerNotRecoverable:
		w.OwnerState = OwnerUnknown
		w.fact("the owner field is %#x: the owner died, and the state was not made consistent", tid)
		return
	}
	w.OwnerTID = int(tid)
	// The id in memory is that of the process's own pid namespace.
	for _, h := range a.process.Handles {
		if h.Owner >= 0 && h.TID == int(tid) {
			w.Owner, w.OwnerState = h.Owner, OwnerLive
			w.OwnerTID = a.core.Threads[h.Owner].TID
			return
		}
	}
	if t, ok := a.tids[int(tid)]; ok && !a.handleSaysOtherwise(t) {
		w.Owner, w.OwnerState = t, OwnerLive
		return
	}
	a.goneOwner(w)
}

// handleSaysOtherwise tells whether a thread of the core has another id in
// memory than in its note.
func (a *analyzer) handleSaysOtherwise(t int) bool {
	h := a.process.Threads[t].Handle
	if h < 0 {
		return false
	}
	id := a.process.Handles[h].TID
	return id > 0 && id != a.core.Threads[t].TID
}

// goneOwner tells what has become of an owner that is no thread of the core.
func (a *analyzer) goneOwner(w *Wait) {
	w.OwnerState = OwnerNotInCore
	switch {
	case w.Shared:
		w.fact("owner %d is no thread of this core: the object can be used by other processes, so it may be one of theirs", w.OwnerTID)
	case a.forkChild():
		w.OwnerState = OwnerParent
		w.fact("owner %d is no thread of this core; the process is the child of a fork, and glibc's stack cache holds descriptors of the parent's threads", w.OwnerTID)
	default:
		if h, why := a.deadOwner(w); h != nil {
			w.OwnerState = OwnerZombie
			w.fact("owner %d has exited: %s", w.OwnerTID, why)
		} else {
			w.fact("owner %d is no thread of this core", w.OwnerTID)
		}
	}
}

// forkChild tells whether this process is the child of a fork of a process with
// threads: fork puts the parent's threads' stacks into the cache with their ids
// cleared, but without the mark of a thread that exited.
func (a *analyzer) forkChild() bool {
	for _, h := range a.process.Cached {
		if h.TID == 0 && !h.Exiting() {
			return true
		}
	}
	return false
}

// deadOwner finds the handle of the exited thread that held an object: one on
// whose dead stack the object's address and the id still stand, or else the only
// one there is.
func (a *analyzer) deadOwner(w *Wait) (*nptl.Handle, string) {
	var gone []*nptl.Handle
	for _, list := range [][]*nptl.Handle{a.process.Handles, a.process.Cached} {
		for _, h := range list {
			if h.Owner < 0 && h.Exiting() && h.Stack != nil {
				gone = append(gone, h)
			}
		}
	}
	const window = 64 << 10 // of the stack's used end
	for _, h := range gone {
		end := h.Pthread
		start := max(h.Stack.Start, end-window)
		b := make([]byte, end-start)
		n, _ := a.core.ReadMemory(b, start)
		for at := uint64(0); at+a.w <= uint64(n); at += a.w {
			if elfcore.Addr(a.core.WordOf(b[at:])) == w.Object {
				return h, fmt.Sprintf("the dead stack of handle %s has the object's address, at %s", h.Pthread, start+elfcore.Addr(at))
			}
		}
	}
	if len(gone) > 0 && w.OwnerTID > 0 && a.core.Process != nil && w.OwnerTID > a.core.Process.PID {
		return gone[0], fmt.Sprintf("%d threads of this process have, and no other process can use the object", len(gone))
	}
	return nil, ""
}

// ownedByHandle notes the owner of an object by its descriptor.
func (a *analyzer) ownedByHandle(w *Wait, h *nptl.Handle) {
	w.OwnerTID = h.TID
	switch {
	case h.Owner >= 0:
		w.Owner, w.OwnerState, w.OwnerTID = h.Owner, OwnerLive, a.core.Threads[h.Owner].TID
	case h.Exiting():
		w.OwnerState = OwnerZombie
		w.OwnerTID = max(h.TID, 0)
	case h.List == nptl.StackCache:
		w.OwnerState = OwnerParent
	default:
		w.OwnerState = OwnerNotInCore
	}
}

// deadPIMutex searches the stack of a thread that glibc has parked for the
// address of a PI mutex whose owner is no thread of the core: the mutex that it
// wanted.
func (a *analyzer) deadPIMutex(i int) (mutexImage, elfcore.Addr, bool) {
	sp, ok := a.core.Threads[i].SP()
	if !ok {
		return mutexImage{}, 0, false
	}
	const window = 4 << 10 // of pthread_mutex_lock and its caller
	b := make([]byte, window)
	n, _ := a.core.ReadMemory(b, sp)
	for at := uint64(0); at+a.w <= uint64(n); at += a.w {
		p := elfcore.Addr(a.core.WordOf(b[at:]))
		if uint64(p)%4 != 0 || p == 0 {
			continue
		}
		m, ok := a.mutexAt(p)
		if !ok || m.kind&kindPI == 0 || m.kind&^kindKnown != 0 || m.lock&futexTIDs == 0 {
			continue
		}
		return m, sp + elfcore.Addr(at), true
	}
	return mutexImage{}, 0, false
}

// crashed tells whether a thread is the one that died.
func (a *analyzer) crashed(i int) bool {
	t := a.core.CrashThread()
	return t != nil && i >= 0 && &a.core.Threads[i] == t
}
