package locks

import (
	"fmt"
	"slices"

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
	if t, ok := a.threadOf(tid); ok {
		w.Owner, w.OwnerTID, w.OwnerState = t, a.tid(t), OwnerLive
		return
	}
	a.goneOwner(w)
}

// threadOf finds the thread that has an id in its own memory.
func (a *analyzer) threadOf(tid uint32) (int, bool) {
	if t, ok := a.living[int(tid)]; ok {
		return t, true
	}
	t, ok := a.tids[int(tid)]
	return t, ok && !a.handleSaysOtherwise(t)
}

// lives tells whether a thread of the core has an id in its own memory.
func (a *analyzer) lives(tid uint32) bool {
	_, ok := a.threadOf(tid)
	return ok
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
	case a.threadsMissing():
		w.OwnerState = OwnerUnknown
		w.fact("owner %d is not among the threads, but the core does not show all of them", w.OwnerTID)
	case w.Shared:
		w.fact("owner %d is no thread of this core: the object can be used by other processes, so it may be one of theirs", w.OwnerTID)
	case a.forkChild():
		w.OwnerState = OwnerParent
		w.fact("owner %d is no thread of this core; the process is the child of a fork, and glibc's stack cache holds descriptors of the parent's threads", w.OwnerTID)
	default:
		if gone := a.deadOwner(w); gone.handle != nil {
			w.OwnerState = OwnerZombie
			w.fact("owner %d has exited: %s", w.OwnerTID, gone.why)
		} else {
			w.fact("owner %d is no thread of this core", w.OwnerTID)
		}
	}
}

// threadsMissing tells whether an id that is not found may be that of a living
// thread all the same: notes are cut, or the ids in memory are those of another
// pid namespace, and not all threads' handles are known.
func (a *analyzer) threadsMissing() bool {
	if a.core.NotesCut {
		return true
	}
	otherNamespace, unknown := false, false
	for i := range a.core.Threads {
		unknown = unknown || a.process.Threads[i].Handle < 0
		otherNamespace = otherNamespace || a.memoryTID(i) != a.tid(i)
	}
	return otherNamespace && unknown
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

// goneOwner is the handle of an exited thread that held an object, nil for none,
// and what shows it.
type goneOwner struct {
	handle *nptl.Handle
	why    string
}

// maxDeadBytes bounds how much of dead stacks is searched in one core.
const maxDeadBytes = 256 << 20

// deadOwner finds the handle of the exited thread that held an object: one on
// whose dead stack the object's address still stands, or else any, where the id
// can only be one of this process's.
func (a *analyzer) deadOwner(w *Wait) goneOwner {
	if x, ok := a.gone[w.Object]; ok {
		return x
	}
	var gone []*nptl.Handle
	for _, h := range slices.Concat(a.process.Handles, a.process.Cached) {
		if h.Owner < 0 && h.Exiting() && h.Stack != nil {
			gone = append(gone, h)
		}
	}
	var out goneOwner
	if len(gone) > 0 && a.core.Process != nil && w.OwnerTID > a.core.Process.PID {
		out = goneOwner{gone[0], fmt.Sprintf("%s of this process %s, and no other process can use the object", plural(len(gone), "thread"), hasHave(len(gone)))}
	}
	for _, h := range gone {
		if at, ok := a.onDeadStack(h, w.Object); ok {
			out = goneOwner{h, fmt.Sprintf("the dead stack of handle %s has the object's address, at %s", h.Pthread, at)}
			break
		}
	}
	a.gone[w.Object] = out
	return out
}

// onDeadStack searches the used end of an exited thread's stack for an address.
func (a *analyzer) onDeadStack(h *nptl.Handle, object elfcore.Addr) (elfcore.Addr, bool) {
	const window = 64 << 10
	start := h.Stack.Start
	if h.Pthread > h.Stack.Start+window {
		start = h.Pthread - window
	}
	if h.Pthread <= start || uint64(h.Pthread-start) > a.deadBytes {
		return 0, false
	}
	b := make([]byte, h.Pthread-start)
	a.deadBytes -= uint64(len(b))
	n, _ := a.core.ReadMemory(b, start)
	for at := uint64(0); at+a.w <= uint64(n); at += a.w {
		if elfcore.Addr(a.core.WordOf(b[at:])) == object {
			return start + elfcore.Addr(at), true
		}
	}
	return 0, false
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

// crashed tells whether a thread is the one that died.
func (a *analyzer) crashed(i int) bool {
	t := a.core.CrashThread()
	return t != nil && i >= 0 && &a.core.Threads[i] == t
}
