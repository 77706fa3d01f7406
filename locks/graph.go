package locks

import (
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// graph is who waits for whom: each thread for the owner of its object, one at
// the most.
type graph struct {
	*analyzer
	// wait finds a thread's wait in the report, −1 for none.
	wait []int
}

func (a *analyzer) graph() *graph {
	g := &graph{analyzer: a, wait: make([]int, len(a.core.Threads))}
	for i := range g.wait {
		g.wait[i] = -1
	}
	for i := range a.report.Waits {
		g.wait[a.report.Waits[i].Thread] = i
	}
	return g
}

// of gives the wait of a thread, nil for none.
func (g *graph) of(thread int) *Wait {
	if thread < 0 || g.wait[thread] < 0 {
		return nil
	}
	return &g.report.Waits[g.wait[thread]]
}

// cycles finds the rings of threads that wait for each other. Every thread waits
// for one other at the most, so that following the owners with colours finds
// each ring once.
func (g *graph) cycles() []Verdict {
	const (
		unseen = iota
		onPath
		done
	)
	colour := make([]int, len(g.core.Threads))
	var out []Verdict
	for start := range colour {
		var path []int
		t := start
		for t >= 0 && colour[t] == unseen {
			colour[t] = onPath
			path = append(path, t)
			w := g.of(t)
			if w == nil {
				t = -1
				break
			}
			t = w.Owner
		}
		if t >= 0 && colour[t] == onPath {
			out = append(out, g.cycle(path[slices.Index(path, t):]))
		}
		for _, x := range path {
			colour[x] = done
		}
	}
	return out
}

// cycle is the verdict about one ring.
func (g *graph) cycle(threads []int) Verdict {
	v := Verdict{ID: DeadlockCycle, Confidence: Certain, Threads: threads}
	kinds := make(map[Kind]int)
	for _, t := range threads {
		w := g.of(t)
		v.Objects = append(v.Objects, w.Object)
		kinds[w.Kind]++
		v.fact("thread %d waits for the %s, owned by thread %d", g.tid(t), g.object(w), g.tid(w.Owner))
		v.Evidence = append(v.Evidence, w.Evidence()[1:]...)
		if w.Timed {
			v.Confidence = Medium
			v.doubt("thread %d waits with a time-out: it will go on by itself", g.tid(t))
		}
		if w.Guess {
			v.lower()
			v.doubt("what thread %d waits for was told by its bytes alone", g.tid(t))
		}
	}
	if len(threads) == 1 {
		v.ID = SelfDeadlock
		v.Summary = fmt.Sprintf("thread %d waits for the %s, which it holds itself", g.tid(threads[0]), g.object(g.of(threads[0])))
		v.Remedy = "Do not take it twice, or make it recursive."
		return v
	}
	v.Summary = fmt.Sprintf("%d threads wait for each other in a ring", len(threads))
	switch {
	case kinds[Join] > 0 && kinds[LoaderLock] > 0:
		v.Remedy = "Do not wait for a thread in a library's constructor or in a callback of dl_iterate_phdr: the dynamic loader's lock is held there, and dlopen, dlsym and dladdr in that thread need it."
	case kinds[Join] > 0:
		v.Remedy = "Do not join a thread while holding a lock that it needs."
	case kinds[Once] > 0:
		v.Remedy = "Take no lock in a routine of pthread_once that is also held around a call of pthread_once."
	default:
		v.Remedy = "Take these locks in the same order everywhere."
	}
	return v
}

func (a *analyzer) tid(thread int) int { return a.core.Threads[thread].TID }

// object names what a thread waits for.
func (a *analyzer) object(w *Wait) string {
	name := w.Kind.Noun()
	if w.Name != "" && w.Kind == LoaderLock {
		name += " " + w.Name
	}
	if w.Object != 0 {
		name += " " + a.name(w.Object)
	}
	return name
}

// owner names the owner of what a thread waits for.
func (a *analyzer) owner(w *Wait) string {
	if w.OwnerTID == 0 {
		return "a thread whose id is gone"
	}
	return fmt.Sprintf("thread %d", w.OwnerTID)
}

// goneOwners finds chains that end at an owner that is no thread of the core.
func (a *analyzer) goneOwners(*graph) []Verdict {
	var out []Verdict
	byOwner := make(map[int]int)
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Owner >= 0 || w.OwnerTID == 0 && w.OwnerState != OwnerZombie || w.OwnerState == OwnerUnknown || w.Kind == RawFutex {
			continue
		}
		if w.Kind == Join {
			continue // joining a thread that has exited returns at once
		}
		if w.Kind == PIMutex || w.Kind == RobustMutex {
			continue // their words tell more: see pi.go and robust.go
		}
		if j, ok := byOwner[w.OwnerTID]; ok {
			out[j].Threads = append(out[j].Threads, w.Thread)
			out[j].Objects = append(out[j].Objects, w.Object)
			continue
		}
		v := Verdict{Threads: []int{w.Thread}, Objects: []elfcore.Addr{w.Object}, Evidence: w.Evidence()}
		what := a.object(w)
		switch w.OwnerState {
		case OwnerZombie:
			v.ID, v.Confidence = OwnerExited, High
			v.Summary = fmt.Sprintf("the owner of the %s, %s, has exited without unlocking it", what, a.owner(w))
			v.Remedy = "Find the path on which that thread returns with the lock held."
		case OwnerParent:
			v.ID, v.Confidence = OwnerInParent, High
			v.Summary = fmt.Sprintf("the owner of the %s is %s of the parent process: fork copied the lock, not the thread", what, a.owner(w))
			v.Remedy = "Between fork and exec, use only async-signal-safe functions, or take the lock in a pthread_atfork handler."
		default:
			if w.Shared {
				continue // another process's thread is no news
			}
			v.ID, v.Confidence = OwnerMissing, Medium
			v.Summary = fmt.Sprintf("the owner of the %s, %s, is not in the core", what, a.owner(w))
			v.doubt("the word may have been overwritten, or the notes may lack a thread")
		}
		if w.Timed {
			v.lower()
			v.doubt("thread %d waits with a time-out: it will go on by itself", a.tid(w.Thread))
		}
		byOwner[w.OwnerTID] = len(out)
		out = append(out, v)
	}
	return out
}

// condDestroys finds threads that destroy a condition variable on which others
// wait.
func (a *analyzer) condDestroys(*graph) []Verdict {
	var out []Verdict
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Kind != CondDestroy {
			continue
		}
		v := Verdict{ID: CondDestroyInUse, Confidence: Certain, Threads: []int{w.Thread}, Objects: []elfcore.Addr{w.Object}, Evidence: w.Evidence()}
		for j := range a.report.Waits {
			if x := &a.report.Waits[j]; x.Kind == Cond && x.Object == w.Object {
				v.Threads = append(v.Threads, x.Thread)
				v.fact("thread %d waits on it", a.tid(x.Thread))
			}
		}
		v.Summary = fmt.Sprintf("thread %d destroys the %s while %s on it", a.tid(w.Thread), a.object(w), threadsWait(len(v.Threads)-1))
		v.Explanation = "pthread_cond_destroy waits until nobody uses the condition variable any more, and nobody is left to wake those who do."
		v.Remedy = "Wake all waiters and let them leave before the condition variable is destroyed."
		out = append(out, v)
	}
	return out
}
