package locks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// Report is what is to be said about the locks of one core.
type Report struct {
	// Waits are the blocked threads, in the order of the core's threads.
	Waits []Wait
	// Verdicts are what follows, the surest first.
	Verdicts []Verdict
	// Waking are the indices of threads whose futex word has changed already:
	// they are about to go on.
	Waking []int
	// AbortMessage is what glibc wrote before it aborted, empty for nothing.
	AbortMessage string
}

// Analyze reads the waits of all threads and judges them.
func Analyze(c *elfcore.Core, p *nptl.Process, s *module.Set) *Report {
	a := newAnalyzer(c, p, s)
	r := &Report{AbortMessage: a.abortMessage()}
	for i := range c.Threads {
		f, state := a.futexCall(i)
		switch state {
		case blocked:
			r.Waits = append(r.Waits, a.classify(i, f))
		case waking:
			// A word that has changed need not wake anybody: readers of a
			// rwlock of musl's change it while a writer sleeps.
			if w := a.classify(i, f); a.musl && w.Kind == RWLockWrite {
				r.Waits = append(r.Waits, w)
				continue
			}
			r.Waking = append(r.Waking, i)
		case spinning:
			a.spinners = append(a.spinners, spinner{i, f})
		}
	}
	a.report = r
	a.judgeAll()
	slices.SortStableFunc(r.Verdicts, func(x, y Verdict) int { return cmp.Compare(x.Confidence.rank(), y.Confidence.rank()) })
	return r
}

// analyzer holds what the rules need of a core.
type analyzer struct {
	core    *elfcore.Core
	process *nptl.Process
	set     *module.Set
	w       uint64
	layout  layout
	musl    bool

	// pthreads finds a handle by its descriptor; tids a thread by its id.
	pthreads map[elfcore.Addr]*nptl.Handle
	tids     map[int]int
	// cleanups are, for each thread, what it has pushed on its cleanup chain.
	cleanups [][]cleanup
	loader   []loaderLock

	spinners []spinner
	report   *Report
}

type spinner struct {
	thread int
	futex  Futex
}

func newAnalyzer(c *elfcore.Core, p *nptl.Process, s *module.Set) *analyzer {
	a := &analyzer{
		core: c, process: p, set: s, w: uint64(c.Arch.WordSize()),
		musl:     p.Libc.Kind == nptl.Musl,
		pthreads: make(map[elfcore.Addr]*nptl.Handle),
		tids:     make(map[int]int),
	}
	a.layout = layoutOf(a.w)
	for _, h := range slices.Concat(p.Cached, p.Handles) {
		a.pthreads[h.Pthread] = h
	}
	for i := range c.Threads {
		if _, twice := a.tids[c.Threads[i].TID]; !twice {
			a.tids[c.Threads[i].TID] = i
		}
	}
	for i := range c.Threads {
		a.cleanups = append(a.cleanups, a.cleanupChain(i))
	}
	a.loader = a.findLoaderLocks()
	return a
}

// u32 reads a 32-bit field of an object; false where it is not in the core.
func (a *analyzer) u32(at elfcore.Addr) (uint32, bool) {
	x, err := a.core.Uint32(at)
	return x, err == nil
}

// word reads a pointer.
func (a *analyzer) word(at elfcore.Addr) (elfcore.Addr, bool) {
	x, err := a.core.Word(at)
	return elfcore.Addr(x), err == nil
}

// fact adds a piece of evidence.
func (w *Wait) fact(format string, args ...any) {
	w.Evidence = append(w.Evidence, fmt.Sprintf(format, args...))
}

// onOwnStack tells whether an address lies on the stack of a thread, above its
// stack pointer.
func (a *analyzer) onOwnStack(i int, at elfcore.Addr) bool {
	sp, ok := a.core.Threads[i].SP()
	if !ok || at < sp {
		return false
	}
	if h := a.process.Threads[i].Handle; h >= 0 {
		if s := a.process.Handles[h].Stack; s != nil && s.Contains(sp) {
			return s.Contains(at) && at < a.process.Handles[h].Pthread
		}
	}
	seg, ok := a.core.Segment(sp)
	return ok && seg.Contains(at) && at-sp < 16<<20
}

// anyStack tells which thread's stack an address lies on, −1 for none.
func (a *analyzer) anyStack(at elfcore.Addr) int {
	for i := range a.core.Threads {
		if a.onOwnStack(i, at) {
			return i
		}
	}
	return -1
}
