package locks

import (
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

// loaderChains finds threads that wait for a lock of the dynamic loader whose
// owner itself waits, at the end, for an object that has no owner: for somebody
// to post a semaphore, to signal a condition variable or to exit.
func (a *analyzer) loaderChains(g *graph) []Verdict {
	ends := make(map[int]*Verdict)
	var order []int
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Kind != LoaderLock || w.Owner < 0 {
			continue
		}
		chain, end := g.follow(w)
		if end == nil || !ownerless(end) {
			continue
		}
		v := ends[end.Thread]
		if v == nil {
			v = &Verdict{ID: LoaderLockChain, Confidence: Medium}
			ends[end.Thread] = v
			order = append(order, end.Thread)
		}
		for _, t := range chain {
			if !slices.Contains(v.Threads, t) {
				v.Threads = append(v.Threads, t)
				v.Objects = append(v.Objects, g.of(t).Object)
			}
		}
	}
	var out []Verdict
	for _, t := range order {
		v := ends[t]
		// The one that everybody waits for comes last.
		v.Threads = append(slices.DeleteFunc(v.Threads, func(x int) bool { return x == t }), t)
		v.Objects = v.Objects[:0]
		for _, x := range v.Threads {
			v.Objects = append(v.Objects, g.of(x).Object)
		}
		a.explainLoaderChain(g, v, g.of(t))
		out = append(out, *v)
	}
	return out
}

// follow walks from a wait to the last thread of its chain that waits.
func (g *graph) follow(w *Wait) (threads []int, end *Wait) {
	for w != nil && !slices.Contains(threads, w.Thread) {
		threads = append(threads, w.Thread)
		end = w
		w = g.of(w.Owner)
	}
	if w != nil {
		return nil, nil // a ring, which has a verdict of its own
	}
	return threads, end
}

// ownerless tells whether what a thread waits for is brought about by anyone.
func ownerless(w *Wait) bool {
	switch w.Kind {
	case Sem, Cond, Barrier, RawFutex:
		return true
	case Join:
		return false
	}
	return false
}

// explainLoaderChain tells the story of a chain for people who have never heard
// of the loader's lock, and how sure it is.
func (a *analyzer) explainLoaderChain(g *graph, v *Verdict, end *Wait) {
	holder := a.tid(end.Thread)
	for _, t := range v.Threads[:len(v.Threads)-1] {
		w := g.of(t)
		v.fact("thread %d waits for %s at %s, owned by thread %d", a.tid(t), w.Name, a.name(w.Object), a.tid(w.Owner))
	}
	v.fact("thread %d waits for the %s, which nobody owns", holder, a.object(end))
	v.Evidence = append(v.Evidence, end.Evidence...)

	home := a.set.At(end.Object)
	constructor := a.inConstructor(end.Thread)
	var fromHome []int
	for _, t := range v.Threads[:len(v.Threads)-1] {
		if home != nil && a.startModule(t) == home && !home.IsLoader && !home.IsExecutable {
			fromHome = append(fromHome, a.tid(t))
			v.fact("thread %d started in %s, in whose data the %s lies", a.tid(t), home, end.Kind)
		}
	}
	if constructor {
		v.fact("the stack of thread %d holds addresses in the loader's code below the frame that waits: it runs inside dlopen, in a constructor", holder)
	}
	if len(fromHome) > 0 || constructor || a.runnable(v.Threads) == 0 {
		v.Confidence = High
	}
	if end.Timed {
		v.lower()
		v.doubt("thread %d waits with a time-out: the program stalls until then", holder)
	}
	if end.Shared {
		v.lower()
		v.doubt("another process could post: the %s can be shared", end.Kind)
	}
	if n := a.runnable(v.Threads); n > 0 {
		v.doubt("%s of this process %s in no futex wait and could still post; so could a signal handler", plural(n, "other thread"), isAre(n))
	} else {
		v.doubt("a signal handler could still post")
	}
	what := map[Kind]string{Sem: "a semaphore to be posted", Cond: "a condition variable to be signalled", Barrier: "others to arrive at a barrier", RawFutex: "a futex to be woken"}[end.Kind]
	v.Summary = fmt.Sprintf("thread %d holds the dynamic loader's lock and waits for %s, while %s for that lock", holder, what, waitText(len(v.Threads)-1))
	where := "inside dlopen, dlclose or a dl_iterate_phdr callback"
	if constructor {
		where = "in a library's constructor, which the loader runs inside dlopen"
	}
	v.Explanation = fmt.Sprintf("The dynamic loader has one lock for the whole process. Whoever loads or unloads a library holds it, and keeps it while the library's constructors run; dlopen, dlsym, dladdr and, in older glibc, the first touch of a thread-local variable in another thread need it as well. Thread %d holds it, %s, and waits for %s. ", holder, where, what)
	if len(fromHome) > 0 {
		v.Explanation += fmt.Sprintf("The one to do that would be thread %d, which the same library %s has started; but it needs the loader's lock first. Neither can go on.", fromHome[0], home)
	} else {
		v.Explanation += "If one of the threads that wait for the lock is the one to do that, neither can go on."
	}
	v.Remedy = "Do not wait for another thread in a constructor, or in a callback of dl_iterate_phdr: start the thread there, and wait for it when the library is first used."
}

func waitText(n int) string {
	if n == 1 {
		return "another thread waits"
	}
	return fmt.Sprintf("%d other threads wait", n)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// startModule is the module that a thread's start routine lies in, nil for
// unknown.
func (a *analyzer) startModule(thread int) *module.Module {
	h := a.process.Threads[thread].Handle
	if h < 0 || a.process.Handles[h].StartRoutine == nil {
		return nil
	}
	return a.set.At(*a.process.Handles[h].StartRoutine)
}

// inConstructor tells whether a thread's stack holds return addresses into the
// loader above the frame that waits: dlopen calls constructors through
// _dl_init.
func (a *analyzer) inConstructor(thread int) bool {
	ld := a.set.Loader()
	sp, ok := a.core.Threads[thread].SP()
	if !ok || ld == nil {
		return false
	}
	const window = 32 << 10
	b := make([]byte, window)
	n, _ := a.core.ReadMemory(b, sp)
	hits := 0
	for at := uint64(0); at+a.w <= uint64(n); at += a.w {
		p := elfcore.Addr(a.core.WordOf(b[at:]))
		if !ld.Contains(p) {
			continue
		}
		if s, ok := a.core.Segment(p); ok && s.Executable() {
			hits++
		}
	}
	return hits >= 3
}

// runnable counts the threads, besides those of a verdict and the one that died,
// that are blocked in no futex wait.
func (a *analyzer) runnable(except []int) int {
	waits := make(map[int]bool)
	for i := range a.report.Waits {
		waits[a.report.Waits[i].Thread] = true
	}
	n := 0
	for i := range a.core.Threads {
		if !waits[i] && !slices.Contains(except, i) && !a.crashed(i) {
			n++
		}
	}
	return n
}

// arenaSelf finds threads that wait for a lock of malloc inside a signal handler
// that has interrupted malloc itself: the lock is the thread's own.
func (a *analyzer) arenaSelf(*graph) []Verdict {
	var out []Verdict
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Kind != MallocArena {
			continue
		}
		at, ok := a.signalFrame(w.Thread)
		if !ok {
			continue
		}
		v := Verdict{ID: SelfDeadlock, Confidence: High, Threads: []int{w.Thread}, Objects: []elfcore.Addr{w.Object}, Evidence: slices.Clone(w.Evidence)}
		v.fact("its stack has, at %s, the return address of a signal frame", at)
		v.Summary = fmt.Sprintf("thread %d waits in a signal handler for malloc's lock, which the code that the signal interrupted holds", a.tid(w.Thread))
		v.Explanation = "A signal handler called malloc or free while the same thread was inside malloc. The lock is not recursive."
		v.Remedy = "Do not allocate in signal handlers; use only async-signal-safe functions there."
		v.doubt("malloc does not record who holds its lock: another thread could")
		out = append(out, v)
	}
	return out
}

// signalFrame looks for a signal frame on a thread's stack: the address of the
// code that returns from one, which is in libc or in the vDSO.
func (a *analyzer) signalFrame(thread int) (elfcore.Addr, bool) {
	sp, ok := a.core.Threads[thread].SP()
	if !ok {
		return 0, false
	}
	const window = 64 << 10
	b := make([]byte, window)
	n, _ := a.core.ReadMemory(b, sp)
	for at := uint64(0); at+a.w <= uint64(n); at += a.w {
		p := elfcore.Addr(a.core.WordOf(b[at:]))
		if s, ok := a.core.Segment(p); !ok || !s.Executable() {
			continue
		}
		code := make([]byte, 9)
		if _, err := a.set.ReadMemory(code, p); err == nil && string(code) == "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05" {
			return sp + elfcore.Addr(at), true // mov $15,%rax; syscall: rt_sigreturn on x86-64
		}
		if sym, _, ok := a.set.Symbolize(p); ok && (sym.Name == "__restore_rt" || sym.Name == "__kernel_rt_sigreturn") {
			return sp + elfcore.Addr(at), true
		}
	}
	return 0, false
}
