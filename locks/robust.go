package locks

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// robustList reads the robust mutexes that a thread holds, from its descriptor:
// struct robust_list_head {list, futex_offset, list_op_pending} (linux/futex.h),
// whose entries are the lock word minus futex_offset, with bit 0 set for a PI
// mutex. The second result says what is wrong with a list that does not end.
func (a *analyzer) robustList(thread int) (held []mutexImage, broken string) {
	pd, l := a.process.Threads[thread].Pthread, a.process.Layout
	if pd == 0 || l.RobustHead == 0 || a.musl {
		return nil, ""
	}
	head := pd + elfcore.Addr(l.Header+l.RobustHead)
	raw, ok := a.word(head + elfcore.Addr(a.w))
	if !ok {
		return nil, ""
	}
	offset := raw
	if a.w == 4 {
		offset = elfcore.Addr(int64(int32(raw)))
	}
	at, ok := a.word(head)
	if ok && at&^1 == head {
		return nil, "" // as it is for nearly all threads
	}
	seen := make(map[elfcore.Addr]bool)
	const limit = 2048 // ROBUST_LIST_LIMIT, where the kernel stops
	for ok && at&^1 != head {
		entry := at &^ 1
		m, readable := a.mutexAt(entry + offset)
		switch {
		case !readable:
			return held, fmt.Sprintf("it leads to %s, which is not in the core", entry)
		case seen[entry] || len(held) >= limit:
			return held, fmt.Sprintf("it does not end: it comes to %s again", entry)
		case m.kind&kindRobust == 0:
			return held, fmt.Sprintf("its entry %s is no robust mutex (kind %#x)", entry, m.kind)
		}
		seen[entry] = true
		held = append(held, m)
		at, ok = a.word(entry)
	}
	return held, ""
}

// robustDeaths finds robust mutexes whose owner died, and whose new owner was
// told so but did not make the state consistent; and those that wait for an
// owner that is gone.
func (a *analyzer) robustDeaths(*graph) []Verdict {
	var out []Verdict
	for i := range a.core.Threads {
		held, _ := a.robustList(i)
		for _, m := range held {
			if m.owner != ownerInconsistent {
				continue
			}
			v := Verdict{ID: RobustOwnerDied, Confidence: Certain, Threads: []int{i}, Objects: []elfcore.Addr{m.addr}}
			v.Summary = fmt.Sprintf("thread %d holds the robust mutex %s of an owner that died, and has not made it consistent", a.tid(i), a.name(m.addr))
			v.fact("the mutex is on the thread's robust list; its word is %s, its owner field %#x (inconsistent)", wordText(m.lock), m.owner)
			v.Explanation = "pthread_mutex_lock has returned EOWNERDEAD: the thread owns the mutex, but what it protects may be half-changed. If it unlocks without pthread_mutex_consistent, the mutex can never be locked again (ENOTRECOVERABLE)."
			v.Remedy = "Handle EOWNERDEAD: repair the data, call pthread_mutex_consistent, then unlock. And find out why the owner died."
			out = append(out, v)
		}
	}
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Kind != RobustMutex || w.Owner >= 0 || w.OwnerTID == 0 || w.Shared || w.OwnerState == OwnerParent || w.OwnerState == OwnerUnknown {
			continue
		}
		v := Verdict{ID: RobustOwnerDied, Confidence: Medium, Threads: []int{w.Thread}, Objects: []elfcore.Addr{w.Object}, Evidence: w.Evidence()}
		v.Summary = fmt.Sprintf("thread %d waits for the %s, whose owner, %s, is gone", a.tid(w.Thread), a.object(w), a.owner(w))
		v.doubt("the kernel wakes a waiter when the owner of a robust mutex dies; kernels before 5.16 do that while they dump")
		out = append(out, v)
	}
	return out
}
