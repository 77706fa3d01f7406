package locks

import (
	"fmt"
	"path"
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
		if end == nil || !a.ownerless(end) {
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
		if a.explainLoaderChain(g, v, g.of(t)) {
			out = append(out, *v)
		}
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

// ownerless tells whether nothing says who is to bring about what a thread waits
// for. An unknown futex of the C library's own is a lock that somebody holds for
// a moment.
func (a *analyzer) ownerless(w *Wait) bool {
	switch w.Kind {
	case Sem, Cond, Barrier:
		return true
	case RawFutex:
		m := a.set.At(w.Object)
		return w.Owner < 0 && (m == nil || !m.IsLoader && !isLibc(path.Base(m.String())))
	}
	return false
}

// explainLoaderChain tells the story of a chain for people who have never heard
// of the loader's lock, and how sure it is. It is false where the chain may well
// be a moment of a sound program: somebody runs who is not known to wait for any
// of it, and nothing ties what the last thread waits for to those behind it.
func (a *analyzer) explainLoaderChain(g *graph, v *Verdict, end *Wait) bool {
	holder := a.tid(end.Thread)
	behind := v.Threads[:len(v.Threads)-1]
	for _, t := range behind {
		w := g.of(t)
		v.fact("thread %d waits for the %s, owned by thread %d", a.tid(t), a.object(w), a.tid(w.Owner))
	}
	v.fact("thread %d waits for the %s, which nobody owns", holder, a.object(end))
	v.Evidence = append(v.Evidence, end.Evidence()...)

	home := a.set.At(end.Object)
	poster := -1
	for _, t := range behind {
		if home != nil && a.startModule(t) == home && !home.IsLoader && !home.IsExecutable {
			poster = t
			v.fact("thread %d started in %s, in whose data the %s lies", a.tid(t), home, end.Kind.Noun())
		} else if at, ok := a.mentions(t, end.Object); ok {
			poster = t
			v.fact("thread %d has the address of the %s on its stack, at %s", a.tid(t), end.Kind.Noun(), at)
		}
	}
	constructor := a.inConstructor(end.Thread)
	if constructor {
		v.fact("the stack of thread %d has addresses in the loader's code above the frame that waits: it runs inside dlopen, in a constructor", holder)
	}
	active, idle := a.others(v.Threads)
	switch {
	case poster >= 0 || active+idle == 0:
		v.Confidence = High
	case active > 0:
		return false
	}
	if end.Timed {
		v.lower()
		v.doubt("thread %d waits with a time-out: the program stalls until then", holder)
	}
	if end.Shared {
		v.lower()
		v.doubt("another process could do it: the %s can be shared", end.Kind.Noun())
	}
	if n := active + idle; n > 0 {
		v.doubt("%s of this process %s in no wait for another thread and could still do it; so could a signal handler", plural(n, "other thread"), isAre(n))
	} else {
		v.doubt("a signal handler could still do it")
	}
	a.tellLoaderChain(v, end, constructor, poster, home)
	return true
}

// tellLoaderChain writes the summary, the explanation and the remedy.
func (a *analyzer) tellLoaderChain(v *Verdict, end *Wait, constructor bool, poster int, home *module.Module) {
	holder := a.tid(end.Thread)
	what := map[Kind]string{Sem: "a semaphore to be posted", Cond: "a condition variable to be signalled", Barrier: "others to arrive at a barrier", RawFutex: "a futex to be woken"}[end.Kind]
	n := len(v.Threads) - 1
	v.Summary = fmt.Sprintf("thread %d holds the dynamic loader's lock and waits for %s, while %s for that lock", holder, what, threadsWait(n))
	where := "inside dlopen, dlclose or a callback of dl_iterate_phdr"
	if constructor {
		where = "in a library's constructor, which the loader runs inside dlopen"
	}
	v.Explanation = fmt.Sprintf("The dynamic loader has a lock for the whole process. Whoever loads or unloads a library holds it, also while the library's constructors run; dlopen, dlsym, dladdr and, in older glibc, the first touch of a thread-local variable in another thread need it, too. Thread %d holds it, %s, and waits for %s. ", holder, where, what)
	switch {
	case poster >= 0 && home != nil && a.startModule(poster) == home:
		v.Explanation += fmt.Sprintf("The one to do that is most likely thread %d, which the same library %s has started; but it needs the loader's lock first. Neither can go on.", a.tid(poster), home)
	case poster >= 0:
		v.Explanation += fmt.Sprintf("The one to do that is most likely thread %d, which has its address; but it needs the loader's lock first. Neither can go on.", a.tid(poster))
	default:
		v.Explanation += "If one of the threads that wait for the lock is the one to do that, neither can go on."
	}
	v.Remedy = "Do not wait for another thread in a constructor, or in a callback of dl_iterate_phdr: start the thread there, and wait for it when the library is first used."
}

// mentions tells where a thread's stack has an address.
func (a *analyzer) mentions(thread int, object elfcore.Addr) (elfcore.Addr, bool) {
	const window = 8 << 10
	for at, p := range a.stackWords(thread, window) {
		if p == object {
			return at, true
		}
	}
	return 0, false
}

// threadsWait is the beginning of a sentence about so many threads.
func threadsWait(n int) string {
	if n == 1 {
		return "1 thread waits"
	}
	return fmt.Sprintf("%d threads wait", n)
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

func hasHave(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
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
	if ld == nil {
		return false
	}
	const window = 32 << 10
	hits := 0
	for _, p := range a.stackWords(thread, window) {
		if !ld.Contains(p) {
			continue
		}
		if s, ok := a.core.Segment(p); ok && s.Executable() {
			hits++
		}
	}
	return hits >= 3
}

// others counts the threads, besides those of a verdict and the one that died,
// that are in no wait for another thread: those that were running, and those
// that slept in a system call, where only something from outside wakes them. On
// architectures whose registers do not tell, they count as asleep.
func (a *analyzer) others(except []int) (active, idle int) {
	skip := make(map[int]bool)
	for _, t := range except {
		skip[t] = true
	}
	for i := range a.report.Waits {
		skip[a.report.Waits[i].Thread] = true
	}
	for i := range a.core.Threads {
		switch {
		case skip[i] || a.crashed(i):
		case a.asleep(i):
			idle++
		default:
			active++
		}
	}
	return active, idle
}

// asleep tells whether a thread slept in a system call when the process died.
func (a *analyzer) asleep(i int) bool {
	c, ok := systemCall(a.core, &a.core.Threads[i])
	if !ok {
		return false
	}
	return a.calls[i].state != waking && (!c.known || restarts(c.result) || c.result == eIntr)
}
