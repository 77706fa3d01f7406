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
	// Limits are what keeps waits or owners from being told, each a sentence.
	Limits []string
	// AbortMessage is what glibc wrote before it aborted, empty for nothing.
	AbortMessage string
}

// Analyze reads the waits of all threads and judges them.
func Analyze(c *elfcore.Core, p *nptl.Process, s *module.Set) *Report {
	a := newAnalyzer(c, p, s)
	r := &Report{AbortMessage: a.abortMessage(), Waits: make([]Wait, 0, a.blocked())}
	for i := range c.Threads {
		f := a.calls[i].futex
		switch a.calls[i].state {
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
		}
	}
	r.Limits = a.limits(r.Waits)
	a.report = r
	a.judgeAll()
	slices.SortStableFunc(r.Verdicts, func(x, y Verdict) int { return cmp.Compare(x.Confidence.rank(), y.Confidence.rank()) })
	return r
}

// blocked counts the threads that sleep on a futex.
func (a *analyzer) blocked() int {
	n := 0
	for _, c := range a.calls {
		if c.state == blocked {
			n++
		}
	}
	return n
}

// limits says what of the core keeps waits or owners from being told.
func (a *analyzer) limits(waits []Wait) []string {
	var out []string
	if a.core.Arch.Syscall.Futex == 0 {
		out = append(out, fmt.Sprintf("where registers of %s show a futex wait is not known here, so that no wait can be told", a.core.Arch.Name))
	}
	if a.core.NotesCut {
		out = append(out, "notes are cut off: there may have been more threads, and an owner that is not here proves nothing")
	}
	missing := 0
	for i := range waits {
		if !waits[i].Futex.Readable {
			missing++
		}
	}
	if missing > 0 {
		out = append(out, fmt.Sprintf("what %s for is not in the core: it was cut off or not dumped", waitFor(missing)))
	}
	if unowned := a.unowned(waits); unowned > 0 {
		out = append(out, fmt.Sprintf("%s for a lock of musl's that does not record who holds it: a deadlock through it cannot be told", waitFor(unowned)))
	}
	return out
}

// unowned counts the waits for mutexes and rwlocks of musl whose holder is not
// recorded, as it is not for a normal mutex and for a rwlock.
func (a *analyzer) unowned(waits []Wait) int {
	n := 0
	for i := range waits {
		switch w := &waits[i]; w.Kind {
		case Mutex, RWLockRead, RWLockWrite:
			if a.musl && w.OwnerState == OwnerUnknown {
				n++
			}
		}
	}
	return n
}

func waitFor(n int) string {
	if n == 1 {
		return "1 thread waits"
	}
	return fmt.Sprintf("%d threads wait", n)
}

// analyzer holds what the rules need of a core.
type analyzer struct {
	core    *elfcore.Core
	process *nptl.Process
	set     *module.Set
	w       uint64
	layout  layout
	musl    bool
	// rules are what classify tries.
	rules []rule

	// calls are the futex calls of the threads.
	calls []futexCall

	// pthreads finds a handle by its descriptor; tids a thread by its id in the
	// core; living a thread by the id that its living handle has in memory,
	// which is that of the process's own pid namespace.
	pthreads map[elfcore.Addr]*nptl.Handle
	tids     map[int]int
	living   map[int]int
	// stackOf is the stack of each thread; stacks are the known ones by address.
	stackOf []elfcore.Range
	stacks  []stackRange
	// cleanups are, for each thread, what it has pushed on its cleanup chain;
	// cleaners are the threads that have an object there. conds are the
	// condition variables among them, condUsers the threads that name one.
	cleanups  [][]cleanup
	cleaners  map[elfcore.Addr][]int
	conds     []condUse
	condUsers map[elfcore.Addr][]int
	loader    []loaderLock

	// stackPointers and gone are what pointersToStacks and deadOwner found.
	stackPointers map[elfcore.Addr]elfcore.Addr
	gone          map[elfcore.Addr]goneOwner
	// deadBytes is what deadOwner may still read.
	deadBytes uint64

	report *Report
}

type futexCall struct {
	futex Futex
	state state
}

func newAnalyzer(c *elfcore.Core, p *nptl.Process, s *module.Set) *analyzer {
	a := &analyzer{
		core: c, process: p, set: s, w: uint64(c.Arch.WordSize()),
		musl:      p.Libc.Kind == nptl.Musl,
		pthreads:  make(map[elfcore.Addr]*nptl.Handle, len(p.Cached)+len(p.Handles)),
		tids:      make(map[int]int, len(c.Threads)),
		living:    make(map[int]int, len(c.Threads)),
		calls:     make([]futexCall, len(c.Threads)),
		cleanups:  make([][]cleanup, len(c.Threads)),
		conds:     make([]condUse, len(c.Threads)),
		cleaners:  make(map[elfcore.Addr][]int),
		condUsers: make(map[elfcore.Addr][]int),
		gone:      make(map[elfcore.Addr]goneOwner),
		deadBytes: maxDeadBytes,
	}
	a.layout = layoutOf(a.w)
	a.rules = a.classifiers()
	for _, h := range slices.Concat(p.Cached, p.Handles) {
		a.pthreads[h.Pthread] = h
		if h.Owner >= 0 {
			a.living[h.TID] = h.Owner
		}
	}
	for i := range c.Threads {
		if _, twice := a.tids[c.Threads[i].TID]; !twice {
			a.tids[c.Threads[i].TID] = i
		}
	}
	a.findStacks()
	for i := range c.Threads {
		a.calls[i] = a.futexCall(i)
		a.cleanups[i] = a.cleanupChain(i)
		for _, x := range a.cleanups[i] {
			a.cleaners[x.arg] = append(a.cleaners[x.arg], i)
			if x.inner != 0 && x.inner != x.arg {
				a.cleaners[x.inner] = append(a.cleaners[x.inner], i)
			}
		}
		if x, ok := a.condCleanup(i); ok {
			a.conds[i] = x
			a.condUsers[x.cond] = append(a.condUsers[x.cond], i)
		}
	}
	a.loader = a.findLoaderLocks()
	return a
}

func (a *analyzer) bigEndian() bool { return a.core.ByteOrder.String() == "BigEndian" }

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
