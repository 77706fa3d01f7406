package nptl

import (
	"github.com/corethreads/corethreads/elfcore"
)

// State is what has become of the thread of a handle.
type State string

const (
	// Live: a thread of the core owns the handle.
	Live State = "live"
	// Retired: tid is −1, glibc's mark of a joined thread up to 2.42, and
	// what a repair writes.
	Retired State = "retired"
	// Zombie: the thread has exited and nobody joined it.
	Zombie State = "zombie"
	// Starting: the thread is being created; it does not run yet.
	Starting State = "starting"
	// Foreign: the handle names a thread that this core does not have, as a
	// parent's thread in the child of a fork.
	Foreign State = "foreign"
	// UnknownState: the notes are cut, so that the thread may be missing from
	// the core, or the descriptor is.
	UnknownState State = "unknown"
)

// Stack is the memory that a thread runs on.
type Stack struct {
	elfcore.Range
	// Guard is the size in bytes of the guard at Start.
	Guard uint64
}

// Handle is one struct pthread that libthread_db's iteration reaches, or would
// reach if it could read the lists.
type Handle struct {
	// Pthread is its address: what pthread_self() returned.
	Pthread elfcore.Addr
	// Node is the address of its member list.
	Node elfcore.Addr
	// List is the list that holds it; Undecided for one that was found
	// through the threads alone. Position counts from 0 in the order of the
	// whole iteration, stack_user first; −1 where the order is not known.
	List     ListKind
	Position int

	// TID is the member tid: the kernel's id in the process's own pid
	// namespace, 0 or −1 as the states say.
	TID int
	// PID is the member pid of glibc up to 2.24, 0 in later versions.
	PID   int
	State State
	// Owner is the index in Core.Threads of the thread that runs on it, −1 for
	// none; OwnerSource says how that was told.
	Owner       int
	OwnerSource string

	CancelHandling uint32
	// Detached, UserStack, StartRoutine and Stack are nil where the layout or
	// the memory does not tell. The initial thread has no start routine and
	// no stack of glibc's.
	Detached     *bool
	UserStack    *bool
	StartRoutine *elfcore.Addr
	Stack        *Stack
	// Initial tells that it is the thread that main runs on.
	Initial bool
	// Proved tells that the descriptor's own structure shows it to be one.
	Proved bool
	// Whole tells that all of it that matters could be read.
	Whole bool

	// listed tells that it was found on a list, told that TID and
	// CancelHandling could be read.
	listed, told bool
	// stackEnd is __libc_stack_end, which the initial thread's descriptor keeps
	// as the size of its stack block.
	stackEnd elfcore.Addr
}

// Exiting tells whether the thread has begun to exit.
func (h *Handle) Exiting() bool { return h.CancelHandling&exitingBit != 0 }

// terminated tells whether glibc has already freed a descriptor: joined, or
// detached and gone.
func (v *view) terminated(r *raw, l *Layout) bool {
	c, ok := v.raw32(r, l.CancelHandling)
	return ok && c&terminatedBit != 0
}

// userStack tells whether the program supplied the stack; known is false where
// the layout does not say. A thread for which neither form of the flag is set is
// on a stack of glibc's in any case.
func (v *view) userStack(r *raw, l *Layout) (user, known bool) {
	switch {
	case l.UserStack == 0:
		flags := v.flagsOffset(l.RobustHead)
		mode, ok := v.raw32(r, flags+stackModeOffset)
		return false, ok && r.bytes[flags+userStackOffset] == 0 && mode < stackModeUser
	case l.StackMode:
		x, ok := v.raw32(r, l.UserStack)
		return x == stackModeUser, ok && x <= stackModeUser
	case l.UserStack < uint64(len(r.bytes)):
		x := r.bytes[l.UserStack]
		return x == 1, x <= 1
	}
	return false, false
}

// handle decodes a descriptor.
func (v *view) handle(r *raw, l *Layout) *Handle {
	h := &Handle{
		Pthread:  r.node - elfcore.Addr(l.Header),
		Node:     r.node,
		Position: -1,
		Owner:    -1,
		Proved:   v.probe(r.node),
		Whole:    uint64(len(r.bytes)) == v.descriptorSize(),
		Initial:  v.initial(r, l),
	}
	tid, ok1 := v.raw32(r, l.TID)
	cancel, ok2 := v.raw32(r, l.CancelHandling)
	h.TID, h.CancelHandling, h.told = int(int32(tid)), cancel, ok1 && ok2
	if pid, ok := v.raw32(r, l.PID); ok && l.PID != 0 {
		h.PID = int(int32(pid))
	}
	if user, known := v.userStack(r, l); known {
		h.UserStack = &user
	}
	h.Detached = v.detached(r, l)
	if h.Initial {
		h.stackEnd, _ = v.rawWord(r, l.StackBlock+v.w)
		return h
	}
	if pc, ok := v.rawWord(r, l.StartRoutine); ok && l.StartRoutine != 0 && v.executable(pc) {
		h.StartRoutine = &pc
	}
	if stack, ok := v.stackAt(r, l.StackBlock); ok {
		h.Stack = &Stack{Range: stack}
		if guard, _ := v.rawWord(r, l.StackBlock+2*v.w); uint64(guard) <= stack.Len() {
			h.Stack.Guard = uint64(guard)
		}
	}
	return h
}

// detached reads joinid (a detached thread is its own joiner) or joinstate. A
// joinstate of EXITED no longer tells.
func (v *view) detached(r *raw, l *Layout) *bool {
	if l.Join == 0 {
		return nil
	}
	var d bool
	if l.JoinState {
		x, ok := v.raw32(r, l.Join)
		if !ok || x > joinStateDetached || x == joinStateExited && v.terminated(r, l) {
			return nil
		}
		d = x == joinStateDetached
	} else {
		joiner, ok := v.rawWord(r, l.Join)
		if !ok {
			return nil
		}
		d = joiner == r.node-elfcore.Addr(l.Header)
	}
	return &d
}
