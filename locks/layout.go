package locks

import "github.com/corethreads/corethreads/elfcore"

// layout is where glibc's objects have their fields, by the size of a word
// (sysdeps/nptl/bits/struct_mutex.h, struct_rwlock.h; equal in 2.17 to 2.43).
// All offsets are in bytes.
type layout struct {
	mutexKind, mutexUsers, mutexList uint64
	rwlockWriter, rwlockShared       uint64
	rwlockFlags, rwlockSize          uint64
}

const (
	mutexLock  = 0
	mutexCount = 4
	mutexOwner = 8
)

func layoutOf(w uint64) layout {
	if w == 4 {
		return layout{mutexKind: 12, mutexUsers: 16, mutexList: 20, rwlockWriter: 28, rwlockShared: 25, rwlockFlags: 24, rwlockSize: 32}
	}
	return layout{mutexKind: 16, mutexUsers: 12, mutexList: 24, rwlockWriter: 24, rwlockShared: 28, rwlockFlags: 48, rwlockSize: 56}
}

// Bits of a mutex's kind (nptl/pthreadP.h).
const (
	kindTypes     = 3 // normal, recursive, errorcheck, adaptive
	kindRecursive = 1
	kindRobust    = 16
	kindPI        = 32
	kindProtect   = 64 // priority ceiling
	kindShared    = 128
	kindElision   = 256 | 512
	kindKnown     = kindTypes | kindRobust | kindPI | kindProtect | kindShared | kindElision

	ownerInconsistent   = 0x7fffffff // taken after EOWNERDEAD, not yet made consistent
	ownerNotRecoverable = 0x7ffffffe
)

const (
	// maxTID is the highest id that the kernel gives a thread (PID_MAX_LIMIT,
	// linux/threads.h).
	maxTID = 4 << 20
	// maxUsers is more than the threads that use one object: counts above are
	// no counts.
	maxUsers = 100000
)

// mutexImage is a pthread_mutex_t as it is in memory.
type mutexImage struct {
	addr         elfcore.Addr
	lock         uint32
	count, owner uint32
	users, kind  uint32
}

// mutexAt reads a mutex.
func (a *analyzer) mutexAt(at elfcore.Addr) (mutexImage, bool) {
	m := mutexImage{addr: at}
	b := make([]byte, 20)
	if _, err := a.core.ReadMemory(b, at); err != nil {
		return m, false
	}
	o := a.core.ByteOrder
	m.lock, m.count, m.owner = o.Uint32(b[mutexLock:]), o.Uint32(b[mutexCount:]), o.Uint32(b[mutexOwner:])
	m.users, m.kind = o.Uint32(b[a.layout.mutexUsers:]), o.Uint32(b[a.layout.mutexKind:])
	return m, true
}

// sound tells whether kind and counts can be those of a mutex that somebody
// holds or waits for.
func (m *mutexImage) sound() bool {
	return m.kind&^kindKnown == 0 && m.users >= 1 && m.users < maxUsers && m.owner != 0 && (m.owner <= maxTID || m.owner >= ownerNotRecoverable)
}

// typeName is the mutex's type as the standard names it.
func (m *mutexImage) typeName() string {
	name := [...]string{"normal", "recursive", "errorcheck", "adaptive"}[m.kind&kindTypes]
	switch {
	case m.kind&kindPI != 0:
		name += ", priority inheritance"
	case m.kind&kindProtect != 0:
		name += ", priority ceiling"
	}
	if m.kind&kindRobust != 0 {
		name += ", robust"
	}
	if m.shared() {
		name += ", process-shared"
	}
	return name
}

// shared tells whether another process could use it. Private robust mutexes
// carry the bit as well, since their futexes are shared ones.
func (m *mutexImage) shared() bool { return m.kind&kindShared != 0 && m.kind&kindRobust == 0 }
