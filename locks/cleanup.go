package locks

import "github.com/corethreads/corethreads/elfcore"

// cleanup is one entry of a thread's cleanup chain: glibc pushes one in each
// function that can be cancelled while it waits, with the object as argument, so
// that the chain names what a thread waits for.
type cleanup struct {
	at, arg elfcore.Addr
	// inner is the word behind what arg points at, where that is on the stack:
	// pthread_once of glibc 2.36 and later combines two structures.
	inner elfcore.Addr
}

// names tells whether an entry is for an object.
func (c *cleanup) names(object elfcore.Addr) bool { return c.arg == object || c.inner == object }

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
	b := make([]byte, 4*a.w)
	for ok && len(out) < maxCleanups && a.onOwnStack(i, at) {
		if _, err := a.core.ReadMemory(b, at); err != nil {
			break
		}
		c := cleanup{at: at, arg: elfcore.Addr(a.core.WordOf(b[a.w:]))}
		if a.onOwnStack(i, c.arg) {
			c.inner, _ = a.word(c.arg + elfcore.Addr(a.w))
		}
		out = append(out, c)
		next := elfcore.Addr(a.core.WordOf(b[3*a.w:]))
		if next <= at {
			break // older entries lie further up the stack
		}
		at = next
	}
	return out
}

// condUse is a wait on a condition variable as its cleanup entry has it.
type condUse struct {
	cond, mutex elfcore.Addr
	private     uint32
}

// condCleanup reads struct _condvar_cleanup_buffer {wseq, cond, mutex, private},
// which pthread_cond_wait of glibc 2.25 and later passes to its cleanup; earlier
// ones have {oldtype, cond, mutex, bc_seq}.
func (a *analyzer) condCleanup(i int) (condUse, bool) {
	b := make([]byte, 8+2*a.w+4)
	for _, c := range a.cleanups[i] {
		if !a.onOwnStack(i, c.arg) {
			continue
		}
		if _, err := a.core.ReadMemory(b, c.arg); err != nil {
			continue
		}
		x := condUse{elfcore.Addr(a.core.WordOf(b[8:])), elfcore.Addr(a.core.WordOf(b[8+a.w:])), a.core.ByteOrder.Uint32(b[8+2*a.w:])}
		if x.cond == 0 || x.mutex == 0 {
			continue
		}
		_, there := a.core.Locate(x.cond)
		if m, ok := a.mutexAt(x.mutex); there && ok && m.kind&^kindKnown == 0 {
			return x, true
		}
	}
	return condUse{}, false
}

// condOf gives what condCleanup has read of a thread.
func (a *analyzer) condOf(i int) (condUse, bool) {
	c := a.conds[i]
	return c, c.cond != 0
}

// hasCleanup tells where a thread's chain has an entry for an object.
func (a *analyzer) hasCleanup(i int, object elfcore.Addr) (elfcore.Addr, bool) {
	for _, c := range a.cleanups[i] {
		if c.names(object) {
			return c.at, true
		}
	}
	return 0, false
}
