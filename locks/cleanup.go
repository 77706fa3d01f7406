package locks

import "github.com/corethreads/corethreads/elfcore"

// cleanup is one entry of a thread's cleanup chain: glibc pushes one in each
// function that can be cancelled while it waits, with the object as argument, so
// that the chain names what a thread waits for.
type cleanup struct {
	at      elfcore.Addr
	routine elfcore.Addr
	arg     elfcore.Addr
}

// maxCleanups bounds a chain; they are one or two entries long.
const maxCleanups = 64

// cleanupChain reads struct _pthread_cleanup_buffer {routine, arg, canceltype,
// prev} from pd->cleanup on, which follows the three words of robust_head.
func (a *analyzer) cleanupChain(i int) []cleanup {
	pd := a.process.Threads[i].Pthread
	l := a.process.Layout
	if pd == 0 || l.RobustHead == 0 || a.musl {
		return nil
	}
	var out []cleanup
	at, ok := a.word(pd + elfcore.Addr(l.Header+l.RobustHead+3*a.w))
	for ok && len(out) < maxCleanups && a.onOwnStack(i, at) {
		c := cleanup{at: at}
		var ok1, ok2 bool
		c.routine, ok1 = a.word(at)
		c.arg, ok2 = a.word(at + elfcore.Addr(a.w))
		if !ok1 || !ok2 {
			break
		}
		out = append(out, c)
		next, more := a.word(at + elfcore.Addr(3*a.w))
		if next <= at {
			break // older entries lie further up the stack
		}
		at, ok = next, more
	}
	return out
}

// condCleanup reads struct _condvar_cleanup_buffer {wseq, cond, mutex, private},
// which pthread_cond_wait of glibc 2.25 and later passes to its cleanup.
func (a *analyzer) condCleanup(i int) (cond, mutex elfcore.Addr, seq uint64, ok bool) {
	for _, c := range a.cleanups[i] {
		if !a.onOwnStack(i, c.arg) {
			continue
		}
		b := make([]byte, 8)
		if _, err := a.core.ReadMemory(b, c.arg); err != nil {
			continue
		}
		cond, ok1 := a.word(c.arg + 8)
		mutex, ok2 := a.word(c.arg + 8 + elfcore.Addr(a.w))
		private, ok3 := a.u32(c.arg + 8 + elfcore.Addr(2*a.w))
		if ok1 && ok2 && ok3 && cond != 0 && (private == 0 || private == opPrivate) {
			if _, there := a.core.Locate(cond); there {
				return cond, mutex, a.core.ByteOrder.Uint64(b), true
			}
		}
	}
	return 0, 0, 0, false
}

// hasCleanup tells whether a thread's chain has an entry for an object: its
// argument, or, as pthread_once of glibc 2.36 and later combines two structures,
// the word behind what its argument points at.
func (a *analyzer) hasCleanup(i int, object elfcore.Addr) (elfcore.Addr, bool) {
	for _, c := range a.cleanups[i] {
		if c.arg == object {
			return c.at, true
		}
		if a.onOwnStack(i, c.arg) {
			if inner, ok := a.word(c.arg + elfcore.Addr(a.w)); ok && inner == object {
				return c.at, true
			}
		}
	}
	return 0, false
}
