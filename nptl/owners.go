package nptl

import (
	"github.com/corethreads/corethreads/elfcore"
)

// PointerSource is where a thread pointer was taken from.
type PointerSource string

const (
	// FromNote: the core's notes have it, and it was checked or nothing
	// speaks against it.
	FromNote PointerSource = "note"
	// FromHandle: it was computed from the thread's handle, since the notes
	// lack it or have a wrong one.
	FromHandle PointerSource = "handle"
	// FromNowhere: it is not known.
	FromNowhere PointerSource = "none"
)

// Thread is what nptl knows of one LWP of the core.
type Thread struct {
	// Pthread is its descriptor, 0 for a thread that has none.
	Pthread elfcore.Addr
	// Handle is the index in Process.Handles, −1 for none.
	Handle int
	// Leaving tells that glibc has already freed its descriptor, as it does for
	// a detached thread in its last instructions: it has no handle any more.
	Leaving bool
	// Pointer is the thread pointer (with the ABI's bias in it), 0 with the
	// source FromNowhere. Proved tells that it leads to a TCB.
	Pointer       elfcore.Addr
	PointerSource PointerSource
	PointerProved bool
}

// assigner finds the owner of each handle.
type assigner struct {
	*view
	ptrs    *pointers
	handles []*Handle
	threads []Thread
	byNode  map[elfcore.Addr]int // node to handle
	stacks  stackIndex
}

// assignOwners decides which thread runs on which handle: by thread pointer
// where that is believable, else by id unless the stacks disagree, else by the
// stack that the stack pointer lies in.
func (v *view) assignOwners(ptrs *pointers, handles []*Handle) []Thread {
	a := &assigner{view: v, ptrs: ptrs, handles: handles, threads: make([]Thread, len(v.Threads)), byNode: make(map[elfcore.Addr]int, len(handles))}
	for i := range a.threads {
		a.threads[i] = Thread{Handle: -1, PointerSource: FromNowhere}
	}
	for i, h := range handles {
		if _, twice := a.byNode[h.Node]; !twice {
			a.byNode[h.Node] = i
		}
	}
	a.stacks = v.indexStacks(handles)
	a.byPointer()
	a.byUnprovedPointer()
	a.byID()
	a.byStack()
	a.byInitialStack()
	a.pointers()
	return a.threads
}

func (a *assigner) give(thread, handle int, source string) {
	h := a.handles[handle]
	h.Owner, h.OwnerSource = thread, source
	a.threads[thread].Handle = handle
	a.threads[thread].Pthread = h.Pthread
}

// byPointer gives each descriptor to the thread whose thread pointer is its
// TCB. Where several have one (clone without CLONE_SETTLS), the owner is the
// thread with its id, else the process's leader, else the lowest id.
func (a *assigner) byPointer() {
	claims := make(map[elfcore.Addr][]int, len(a.threads))
	var order []elfcore.Addr
	for i := range a.threads {
		n, ok := a.claim(i)
		if !ok {
			continue
		}
		if claims[n] == nil {
			order = append(order, n)
		}
		claims[n] = append(claims[n], i)
	}
	for _, n := range order {
		best := claims[n][0]
		tid, err := a.Uint32(n + elfcore.Addr(2*a.w))
		for _, i := range claims[n] {
			if a.rank(i, tid, err == nil) < a.rank(best, tid, err == nil) {
				best = i
			}
		}
		a.threads[best].Pthread = n - elfcore.Addr(a.header)
		if h, ok := a.byNode[n]; ok {
			a.give(best, h, "thread pointer")
		}
	}
}

// claim is the list node of the descriptor that a thread's thread pointer leads
// to: of one that is proved, or of any TCB that is at the same time the start of
// a descriptor (pthread_self() gives it, whichever libc it is).
func (a *assigner) claim(i int) (elfcore.Addr, bool) {
	if n := a.ptrs.node[i]; n != 0 {
		return n, true
	}
	if a.ptrs.tcb[i] && a.Arch.Descriptor.SelfPointers {
		tp, _, _ := a.Threads[i].ThreadPointer()
		return tp + elfcore.Addr(a.header), true
	}
	return 0, false
}

// rank orders the threads that share a descriptor, the owner first.
func (a *assigner) rank(i int, tid uint32, known bool) int {
	id := a.Threads[i].TID
	switch {
	case known && id == int(int32(tid)):
		return -2
	case a.Process != nil && id == a.Process.PID:
		return -1
	}
	return id
}

// sharer tells whether a thread uses the descriptor of another one.
func (a *assigner) sharer(i int) bool {
	_, claims := a.claim(i)
	return claims && a.threads[i].Pthread == 0
}

// free lists the threads that have no descriptor yet and whose thread pointer
// leads to none.
func (a *assigner) free(i int) bool {
	return a.threads[i].Pthread == 0 && !a.sharer(i)
}

// byUnprovedPointer accepts a thread pointer that names a listed descriptor
// whose own memory proves nothing.
func (a *assigner) byUnprovedPointer() {
	if !a.ptrs.known {
		return
	}
	for i := range a.threads {
		tp, _, ok := a.Threads[i].ThreadPointer()
		if !ok || !a.free(i) {
			continue
		}
		h, ok := a.byNode[a.nodeAt(tp, a.ptrs.distance)]
		if ok && a.handles[h].Owner < 0 {
			a.give(i, h, "thread pointer")
		}
	}
}

// byID gives a handle to the free thread with its id, unless the thread's stack
// pointer lies in another free handle's stack, or another thread's lies in this
// one's: ids of another pid namespace name the wrong thread. A thread with
// another's thread pointer must be on the handle's stack, else it is one that
// libc does not know.
func (a *assigner) byID() {
	free := make(map[int]int)
	for h, x := range a.handles {
		if x.Owner < 0 && x.TID > 0 {
			if _, twice := free[x.TID]; !twice {
				free[x.TID] = h
			}
		}
	}
	for i := range a.threads {
		h, ok := free[a.Threads[i].TID]
		if !ok || a.threads[i].Pthread != 0 || a.handles[h].Owner >= 0 {
			continue
		}
		on, onStack := a.stackOf(i)
		if onStack && on != h || !onStack && a.sharer(i) && !a.onInitialStack(i, h) {
			continue
		}
		if other, ok := a.threadOn(h); ok && other != i {
			continue
		}
		a.give(i, h, "thread id")
	}
}

// byStack gives a handle to the free thread whose stack pointer lies in its
// stack.
func (a *assigner) byStack() {
	for i := range a.threads {
		if !a.free(i) {
			continue
		}
		if h, ok := a.stackOf(i); ok {
			a.give(i, h, "stack pointer")
		}
	}
}

// byInitialStack gives the initial handle, which has no stack block, to the one
// free thread on the stack that the kernel made.
func (a *assigner) byInitialStack() {
	initial := -1
	for h, x := range a.handles {
		if x.Initial && x.Owner < 0 {
			if initial >= 0 {
				return
			}
			initial = h
		}
	}
	if initial < 0 {
		return
	}
	only := -1
	for i := range a.threads {
		if !a.free(i) || !a.onInitialStack(i, initial) {
			continue
		}
		if only >= 0 {
			return
		}
		only = i
	}
	if only >= 0 {
		a.give(only, initial, "initial stack")
	}
}

// onInitialStack tells whether a thread runs on the stack that the kernel made,
// and a handle is that of main.
func (a *assigner) onInitialStack(thread, handle int) bool {
	h := a.handles[handle]
	sp, ok := a.Threads[thread].SP()
	if !ok || !h.Initial || sp > h.stackEnd {
		return false
	}
	s, ok := a.Segment(sp)
	return ok && s.Contains(h.stackEnd)
}

// stackOf finds the one free handle whose stack holds a thread's stack pointer.
func (a *assigner) stackOf(i int) (int, bool) {
	found := -1
	for _, h := range a.stacks.under[i] {
		if a.handles[h].Owner < 0 {
			if found >= 0 {
				return 0, false
			}
			found = h
		}
	}
	return found, found >= 0
}

// threadOn finds a free thread whose stack pointer lies in a handle's stack.
func (a *assigner) threadOn(h int) (int, bool) {
	for _, i := range a.stacks.on[h] {
		if a.free(i) {
			return i, true
		}
	}
	return 0, false
}

// pointers settles the thread pointer of each thread.
func (a *assigner) pointers() {
	for i := range a.threads {
		t := &a.threads[i]
		tp, _, ok := a.Threads[i].ThreadPointer()
		proved := ok && (a.ptrs.node[i] != 0 || a.ptrs.tcb[i])
		right := t.Pthread + elfcore.Addr(a.ptrs.distance)
		switch {
		case t.Pthread != 0 && a.ptrs.known && !(ok && tp == right):
			t.Pointer, t.PointerSource = right, FromHandle
		case proved || ok && a.plausible(tp-elfcore.Addr(a.Arch.TLS.Bias)):
			t.Pointer, t.PointerSource, t.PointerProved = tp, FromNote, proved
		}
	}
}

// plausible tells whether there was memory at a thread pointer, or in front of
// it: where the TCB is below, it may be the last there. Old versions of gdb's
// gcore leave small numbers and text in its place.
func (a *assigner) plausible(tp elfcore.Addr) bool {
	_, at := a.Core.Segment(tp)
	_, below := a.Core.Segment(tp - 1)
	return tp != 0 && (at || below)
}
