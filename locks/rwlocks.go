package locks

import "github.com/corethreads/corethreads/elfcore"

// isRWLock: readers wait on __wrphase_futex (or on __readers behind a writer
// that is preferred), writers on __wrphase_futex or __writers_futex
// (nptl/pthread_rwlock_common.c, glibc 2.25 and later). They do so with
// CLOCK_REALTIME, also without a time-out, which no other library does.
func (a *analyzer) isRWLock(_ int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWaitBitset || f.Op&opRealtime == 0 && !w.Timed {
		return false
	}
	for _, v := range []struct {
		offset elfcore.Addr
		bits   uint32 // that are set in the word while somebody waits
		kind   Kind
	}{{8, rwWaits, RWLockRead}, {12, rwWaits, RWLockWrite}, {0, rwReadersWait, RWLockRead}} {
		at := f.Address - v.offset
		l, ok := a.rwlockAt(at)
		if !ok || f.Value&v.bits == 0 || l.shared == f.Private() {
			continue
		}
		w.Kind, w.Object = v.kind, at
		if v.offset == 8 && l.readers&rwWritePhase == 0 {
			// Readers wait while a writer has the phase, the first writer
			// while readers have it.
			w.Kind = RWLockWrite
		}
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

// Bits of __readers, and of the futex words.
const (
	rwWritePhase  = 1
	rwWriteLocked = 2
	rwReadersWait = 4
	rwWaits       = 2
)

type rwlockImage struct {
	readers, writers, writer uint32
	shared                   bool
}

// rwlockAt reads a rwlock that somebody holds, and checks what is always zero in
// one.
func (a *analyzer) rwlockAt(at elfcore.Addr) (rwlockImage, bool) {
	b, ok := a.rwlockBytes(at)
	if !ok {
		return rwlockImage{}, false
	}
	o := a.core.ByteOrder
	l := rwlockImage{readers: o.Uint32(b), writers: o.Uint32(b[4:]), writer: o.Uint32(b[a.layout.rwlockWriter:])}
	if o.Uint32(b[16:]) != 0 || o.Uint32(b[20:]) != 0 || o.Uint32(b[8:]) > 3 || o.Uint32(b[12:]) > 3 {
		return l, false
	}
	shared, flags := a.rwlockFlags(b)
	l.shared = shared == 1
	held := l.readers>>3 > 0 || l.readers&(rwWritePhase|rwWriteLocked) != 0
	if shared > 1 || flags > 2 || l.writers > maxUsers || l.readers>>3 > maxUsers || !held || l.writer > maxTID || l.writer != 0 && l.readers&rwWriteLocked == 0 {
		return l, false
	}
	return l, true
}

// rwlockBytes reads what may be a rwlock; false where its padding is not zero.
func (a *analyzer) rwlockBytes(at elfcore.Addr) ([]byte, bool) {
	b := make([]byte, a.layout.rwlockSize)
	if _, err := a.core.ReadMemory(b, at); err != nil || uint64(at)%4 != 0 {
		return nil, false
	}
	if a.w == 8 {
		for _, x := range b[33:48] { // behind __rwelision
			if x != 0 {
				return nil, false
			}
		}
	}
	return b, true
}

// rwlockFlags gives __shared and __flags, which are single bytes on 32-bit
// systems, at the other end of their word in big-endian order.
func (a *analyzer) rwlockFlags(b []byte) (shared, flags uint32) {
	o := a.core.ByteOrder
	switch {
	case a.w == 8:
		return o.Uint32(b[a.layout.rwlockShared:]), o.Uint32(b[a.layout.rwlockFlags:])
	case a.bigEndian():
		return uint32(b[a.layout.rwlockFlags+2]), uint32(b[a.layout.rwlockFlags+3])
	}
	return uint32(b[a.layout.rwlockShared]), uint32(b[a.layout.rwlockFlags])
}

// isOldRWLock: before glibc 2.25 a rwlock was {lock, nr_readers, readers_wakeup,
// writer_wakeup, nr_readers_queued, nr_writers_queued, writer, shared, …, flags};
// readers waited on the third word, writers on the fourth.
func (a *analyzer) isOldRWLock(_ int, w *Wait) bool {
	f := &w.Futex
	for _, v := range []struct {
		offset, queued elfcore.Addr
		kind           Kind
	}{{8, 16, RWLockRead}, {12, 20, RWLockWrite}} {
		at := f.Address - v.offset
		b, ok := a.rwlockBytes(at)
		if !ok {
			continue
		}
		o := a.core.ByteOrder
		lock, readers, writer, queued := o.Uint32(b), o.Uint32(b[4:]), o.Uint32(b[a.layout.rwlockWriter:]), o.Uint32(b[v.queued:])
		shared, flags := a.rwlockFlags(b)
		if lock > 2 || readers > maxUsers || writer > maxTID || queued == 0 || o.Uint32(b[16:]) > maxUsers || o.Uint32(b[20:]) > maxUsers ||
			shared > 1 || flags > 2 || (readers == 0) == (writer == 0) || writer != 0 && !a.lives(writer) || f.Private() == (shared == 1) {
			continue
		}
		w.Kind, w.Object, w.Shared = v.kind, at, shared == 1
		w.fact("a rwlock in the layout before glibc 2.25: %d readers, writer's thread %d, %d of this kind queued", readers, writer, queued)
		w.OwnerState, w.Guess = OwnerUnknown, true
		if writer != 0 {
			w.Guess = false
			a.ownedBy(w, writer, true)
		}
		return true
	}
	return false
}
