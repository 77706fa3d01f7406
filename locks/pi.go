package locks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// inconsistentPI finds priority-inheritance mutexes whose word disagrees with
// the threads that wait for them. The word is the owner's id, with FUTEX_WAITERS
// set while the kernel has waiters queued.
func (a *analyzer) inconsistentPI(*graph) []Verdict {
	byObject := make(map[elfcore.Addr][]int)
	var order []elfcore.Addr
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Kind != PIMutex && w.Kind != RobustMutex || !w.Futex.pi() || w.Object == 0 {
			continue
		}
		if byObject[w.Object] == nil {
			order = append(order, w.Object)
		}
		byObject[w.Object] = append(byObject[w.Object], w.Thread)
	}
	var out []Verdict
	for _, object := range order {
		m, ok := a.mutexAt(object)
		if !ok {
			continue
		}
		if v, bad := a.judgePI(m, byObject[object]); bad {
			out = append(out, v)
		}
	}
	return out
}

// judgePI holds one mutex's word against its waiters.
func (a *analyzer) judgePI(m mutexImage, threads []int) (Verdict, bool) {
	v := Verdict{Confidence: High, Threads: threads, Objects: []elfcore.Addr{m.addr}}
	v.fact("the mutex %s is a PI mutex (kind %#x); its word is %s, its owner field %d", a.name(m.addr), m.kind, wordText(m.lock), m.owner)
	v.fact("%s for it in FUTEX_LOCK_PI", a.theyWait(threads))
	tid := m.lock & futexTIDs
	if a.underRR() {
		v.lower()
		v.doubt("the program was recorded under rr, which changes PI mutexes itself")
	}
	if m.owner == 0 {
		return v, false // it changes hands: the owner is noted after the word
	}
	switch {
	case m.lock == 0 || tid != m.owner && m.owner != ownerInconsistent && m.lock&ownerDied == 0:
		v.ID = PIWordOverwritten
		v.Summary = fmt.Sprintf("the word of the PI mutex %s was overwritten while %s for it", a.name(m.addr), a.theyWait(threads))
		v.Explanation = "The kernel queues the waiters of a PI mutex and hands it over by its word. "
		if m.lock == 0 {
			v.Explanation += fmt.Sprintf("The word is 0, as if nobody held it, although the owner field still names thread %d: the mutex was initialised again, cleared or destroyed while it was in use. The waiters will never be woken.", m.owner)
		} else {
			v.Explanation += fmt.Sprintf("The word names thread %d, the owner field thread %d: something has written over one of them.", tid, m.owner)
		}
		v.Remedy = "Look for memset, pthread_mutex_init or pthread_mutex_destroy on memory that holds the mutex, and for stray writes."
		return v, true
	case m.lock&waiters == 0:
		v.ID = PIWaitersBit
		v.Summary = fmt.Sprintf("%s for the PI mutex %s, but its waiters bit is not set: nobody will wake the waiters", a.theyWait(threads), a.name(m.addr))
		v.Explanation = fmt.Sprintf("While threads wait for a PI mutex, FUTEX_WAITERS (0x80000000) must be set in its word, so that the owner asks the kernel to hand it over. Here the bit is missing: thread %d will unlock it by itself, and nobody wakes the others.", tid)
		v.Remedy = "Something has written to the mutex: a copy of it (memcpy of a structure), an atomic store by a wrapper or profiler, or a second initialisation."
		v.fact("the kernel sets the bit before it lets a thread sleep, and the owner cannot clear it by itself")
		v.doubt("an owner that unlocks and locks again in the microseconds in which the process is killed could leave the same")
		return v, true
	}
	if !a.lives(tid) && m.lock&ownerDied == 0 && !m.shared() && !a.threadsMissing() {
		v.ID, v.Confidence = PIOwnerDied, Medium
		v.Summary = fmt.Sprintf("the PI mutex %s is owned by thread %d, which is not in the core", a.name(m.addr), tid)
		v.Remedy = "Find the path on which that thread returns with the lock held."
		v.doubt("the kernel should have handed the mutex over when that thread died")
		return v, true
	}
	return v, false
}

// wordText decodes the word of a PI or robust mutex.
func wordText(x uint32) string {
	out := fmt.Sprintf("%#x", x)
	var parts []string
	if x&waiters != 0 {
		parts = append(parts, "WAITERS")
	}
	if x&ownerDied != 0 {
		parts = append(parts, "OWNER_DIED")
	}
	if tid := x & futexTIDs; tid != 0 {
		parts = append(parts, fmt.Sprintf("thread %d", tid))
	}
	if len(parts) == 0 {
		return out
	}
	return out + " = " + strings.Join(parts, " | ")
}

// theyWait says that threads wait.
func (a *analyzer) theyWait(threads []int) string {
	if len(threads) == 1 {
		return fmt.Sprintf("thread %d waits", a.tid(threads[0]))
	}
	return threadsWait(len(threads))
}

// underRR tells whether the process was recorded by rr, which preloads a library
// into it.
func (a *analyzer) underRR() bool {
	return slices.ContainsFunc(a.core.Mappings, func(m elfcore.Mapping) bool { return strings.Contains(m.Path, "librrpreload") })
}

// deadPIOwners finds threads that glibc has parked for ever, or stopped by an
// assertion, because the owner of a PI mutex had died.
func (a *analyzer) deadPIOwners(*graph) []Verdict {
	var out []Verdict
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Kind != PIMutex || w.Futex.pi() || w.Owner == w.Thread {
			continue // parked threads sleep on a word of their own stack
		}
		v := Verdict{ID: PIOwnerDied, Confidence: Certain, Threads: []int{w.Thread}, Objects: []elfcore.Addr{w.Object}, Evidence: w.Evidence()}
		v.Summary = fmt.Sprintf("thread %d wanted the %s after its owner, %s, had exited: it waits for ever", a.tid(w.Thread), a.object(w), a.owner(w))
		v.Explanation = "The kernel answers ESRCH when the owner of a PI mutex does not exist any more. A mutex that is not robust has no way to report that, so glibc puts the thread to sleep for good, on a word of its own stack."
		v.Remedy = "Find the path on which the owner returns with the lock held, or make the mutex robust (PTHREAD_MUTEX_ROBUST) and handle EOWNERDEAD."
		out = append(out, v)
	}
	return append(out, a.piAssertion()...)
}

// piAssertion finds the thread that died on glibc's assertion that the owner of
// a mutex that is not robust cannot have died: the kernel handed it the mutex of
// an owner that had exited.
func (a *analyzer) piAssertion() []Verdict {
	t := a.core.CrashThread()
	if t == nil {
		return nil
	}
	i := a.tids[t.TID]
	const window = 64 << 10
	m, at, ok := a.mutexOnStack(i, window, func(m mutexImage) bool {
		return m.kind&kindPI != 0 && m.kind&kindRobust == 0 && m.lock&ownerDied != 0 && int(m.lock&futexTIDs) == a.memoryTID(i)
	})
	if !ok {
		return nil
	}
	v := Verdict{ID: PIOwnerDied, Confidence: Certain, Threads: []int{i}, Objects: []elfcore.Addr{m.addr}}
	v.Summary = fmt.Sprintf("thread %d was handed the PI mutex %s of an owner that had exited, and glibc aborted", t.TID, a.name(m.addr))
	v.fact("the stack of thread %d has, at %s, the address of the PI mutex, whose word is %s", t.TID, at, wordText(m.lock))
	if a.report.AbortMessage != "" {
		v.fact("glibc aborted with: %s", a.report.AbortMessage)
	}
	v.Explanation = "The owner of the mutex exited while threads waited for it. The kernel then hands the mutex to one of them and marks it OWNER_DIED, which a mutex that is not robust cannot report: glibc stops with an assertion."
	v.Remedy = "Find the path on which the owner returns with the lock held, or make the mutex robust (PTHREAD_MUTEX_ROBUST) and handle EOWNERDEAD."
	return []Verdict{v}
}

// memoryTID is a thread's id as its own memory has it.
func (a *analyzer) memoryTID(i int) int {
	if h := a.process.Threads[i].Handle; h >= 0 && a.process.Handles[h].TID > 0 {
		return a.process.Handles[h].TID
	}
	return a.core.Threads[i].TID
}
