package locks

import "github.com/corethreads/corethreads/elfcore"

// isCond: the cleanup chain names a condition variable, and the word is one of
// its two groups'. The layout is told by the distance, never by a version: that
// of glibc 2.41 was brought to older releases.
func (a *analyzer) isCond(i int, w *Wait) bool {
	c, ok := a.condOf(i)
	if !ok {
		return false
	}
	layout := ""
	switch distance := w.Futex.Address - c.cond; {
	case distance == 4:
		layout = "the layout before glibc 2.25"
	case c.private != 0 && c.private != opPrivate:
		return false
	case distance == 32, distance == 36:
		layout = "glibc 2.41's layout"
	case distance == 40, distance == 44:
		layout = "glibc 2.25's layout"
	default:
		return false
	}
	w.Kind, w.Object, w.Mutex = Cond, c.cond, c.mutex
	w.Shared = !w.Futex.Private()
	w.fact("its cleanup chain names the condition variable %s and the mutex %s; the word is %d bytes into it, %s", c.cond, c.mutex, w.Futex.Address-c.cond, layout)
	return true
}

// isOldCond: before glibc 2.25 the waiters' word was the second of a condition
// variable, {lock, futex, u64 total_seq, wakeup_seq, woken_seq, mutex, nwaiters,
// broadcast_seq}; x86-64's code, in assembly, had no cleanup chain. The mutex is
// -1 for a process-shared one.
func (a *analyzer) isOldCond(_ int, w *Wait) bool {
	f := &w.Futex
	at := f.Address - 4
	b := make([]byte, condSize)
	if _, err := a.core.ReadMemory(b, at); err != nil || a.musl || uint64(at)%a.w != 0 {
		return false
	}
	o := a.core.ByteOrder
	total, wakeup, woken := o.Uint64(b[8:]), o.Uint64(b[16:]), o.Uint64(b[24:])
	mutex := elfcore.Addr(a.core.WordOf(b[32:]))
	users := o.Uint32(b[32+a.w:]) >> 1 // COND_NWAITERS_SHIFT
	if o.Uint32(b) > 2 || woken > wakeup || wakeup >= total || total > 1<<40 || users == 0 || users > maxUsers {
		return false
	}
	shared := mutex == elfcore.Addr(^uint64(0)>>(64-8*a.w))
	if m, ok := a.mutexAt(mutex); !shared && (!ok || mutex == 0 || m.kind&^kindKnown != 0) || f.Private() == shared {
		return false
	}
	w.Kind, w.Object, w.Shared = Cond, at, shared
	if !shared {
		w.Mutex = mutex
	}
	w.fact("a condition variable in the layout before glibc 2.25: %d waits, %d woken, %d threads, mutex %s", total, woken, users, mutex)
	return true
}

// isCondDestroy: pthread_cond_destroy waits on __wrefs, with bit 2 set, for
// those who wait to be gone.
func (a *analyzer) isCondDestroy(_ int, w *Wait) bool {
	f := &w.Futex
	if f.command() != opWait || f.Value&4 == 0 || f.Value>>3 == 0 || f.Value>>3 > maxUsers {
		return false
	}
	for _, v := range []struct {
		offset elfcore.Addr // of __wrefs
		groups elfcore.Addr // of __g_signals
	}{{36, 40}, {28, 32}} {
		cond := f.Address - v.offset
		if !a.waitedFor(cond, v.groups) {
			continue
		}
		w.Kind, w.Object = CondDestroy, cond
		w.fact("the word is __wrefs (%#x) of the condition variable %s, on which other threads wait", f.Value, cond)
		return true
	}
	return false
}

// waitedFor tells whether a thread sleeps on a condition variable that its
// cleanup chain names.
func (a *analyzer) waitedFor(cond, groups elfcore.Addr) bool {
	for _, i := range a.condUsers[cond] {
		if x := a.calls[i]; x.state == blocked && (x.futex.Address == cond+groups || x.futex.Address == cond+groups+4) {
			return true
		}
	}
	return false
}
