package locks

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// Kind is what a thread waits for.
type Kind string

const (
	Mutex       Kind = "mutex"
	PIMutex     Kind = "pi-mutex"
	RobustMutex Kind = "robust-mutex"
	RWLockRead  Kind = "rwlock-read"
	RWLockWrite Kind = "rwlock-write"
	Cond        Kind = "cond"
	CondDestroy Kind = "cond-destroy"
	Sem         Kind = "sem"
	Barrier     Kind = "barrier"
	Once        Kind = "once"
	Join        Kind = "join"
	FileLock    Kind = "file-lock"
	LoaderLock  Kind = "loader-lock"
	MallocArena Kind = "malloc-arena"
	// RawFutex is somebody's own use of a futex: C++, Rust, Go, or unknown.
	RawFutex Kind = "futex"
)

// Noun names what is waited for, for people.
func (k Kind) Noun() string {
	switch k {
	case PIMutex:
		return "PI mutex"
	case RobustMutex:
		return "robust mutex"
	case RWLockRead, RWLockWrite:
		return "rwlock"
	case Cond, CondDestroy:
		return "condition variable"
	case Sem:
		return "semaphore"
	case Once:
		return "pthread_once_t"
	case FileLock:
		return "lock of a FILE"
	case LoaderLock:
		return "dynamic loader's lock"
	case MallocArena:
		return "lock of malloc"
	case Join:
		return "thread"
	}
	return string(k)
}

// OwnerState is what has become of the thread that holds an object.
type OwnerState string

const (
	OwnerLive      OwnerState = "live"
	OwnerZombie    OwnerState = "zombie"      // it has exited; its handle is left
	OwnerParent    OwnerState = "parent"      // a thread of the parent at the fork
	OwnerNotInCore OwnerState = "not-in-core" // no thread of this core
	NoOwner        OwnerState = "none"        // the kind of object has no owner
	OwnerUnknown   OwnerState = "unknown"     // it has one, but it is not recorded
)

// Wait is one thread that is blocked.
type Wait struct {
	// Thread is its index in Core.Threads.
	Thread int
	Kind   Kind
	// Object is the address of the object, of the target's descriptor for
	// Join; 0 where it could not be told.
	Object elfcore.Addr
	// Mutex is the one that a condition variable's waiter will take again, 0
	// for none.
	Mutex elfcore.Addr
	// Name says more of the object than its kind: which loader lock, which
	// type of mutex; empty for nothing.
	Name string

	// OwnerTID is the id of the owner, 0 where there is none or it is not
	// known. Owner is its index in Core.Threads, −1 for no thread of the core.
	OwnerTID   int
	Owner      int
	OwnerState OwnerState

	// Timed tells that the wait ends by itself.
	Timed bool
	// Shared tells that another process could take part: the object is
	// process-shared or the futex is not private.
	Shared bool
	Futex  Futex
	// Guess tells that the bytes fit, but nothing proves the kind.
	Guess bool

	facts []fact
}

// fact is a piece of evidence. It is put into words when somebody asks: thousands
// of threads wait, and few of them are talked about.
type fact struct {
	format string
	args   []any
}

// fact adds a piece of evidence.
func (w *Wait) fact(format string, args ...any) {
	w.facts = append(w.facts, fact{format, args})
}

// Evidence are the facts that led to what is said of the wait, with addresses and
// bytes.
func (w *Wait) Evidence() []string {
	out := make([]string, len(w.facts))
	for i, f := range w.facts {
		out[i] = fmt.Sprintf(f.format, f.args...)
	}
	return out
}

// Futex is a futex system call.
type Futex struct {
	Address elfcore.Addr
	Op      uint32
	Value   uint32
	// Timeout is the address of the time-out, 0 for none.
	Timeout elfcore.Addr
	// Result is what the system call has left as its result, with Known; a
	// negative one is an error number.
	Result int64
	Known  bool
	// Current is what the word holds, with Readable.
	Current  uint32
	Readable bool
}

// Operations of futex(2) (linux/futex.h).
const (
	opWait          = 0
	opLockPI        = 6
	opWaitBitset    = 9
	opWaitRequeuePI = 11
	opLockPI2       = 13

	opPrivate   = 128
	opRealtime  = 256
	opCommands  = opPrivate - 1
	futexWaitV  = 449
	futexWait2  = 455
	waiters     = 0x80000000 // FUTEX_WAITERS
	ownerDied   = 0x40000000 // FUTEX_OWNER_DIED
	futexTIDs   = 0x3fffffff // FUTEX_TID_MASK
	maxWaitVLen = 128
)

// command is the operation without its flags.
func (f *Futex) command() uint32 { return f.Op & opCommands }

// pi tells whether the kernel itself hands the lock over.
func (f *Futex) pi() bool {
	switch f.command() {
	case opLockPI, opLockPI2, opWaitRequeuePI:
		return true
	}
	return false
}

// waits tells whether the operation blocks at all.
func (f *Futex) waits() bool {
	switch f.command() {
	case opWait, opWaitBitset:
		return true
	}
	return f.pi()
}

// Private tells that only threads of one process can meet on the futex.
func (f *Futex) Private() bool { return f.Op&opPrivate != 0 }
