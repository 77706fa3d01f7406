package diagnose

import (
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// thread names a thread for people.
func (r *Report) thread(i int) string {
	if r.leader(i) {
		return fmt.Sprintf("thread %d (main)", r.Core.Threads[i].TID)
	}
	return fmt.Sprintf("thread %d", r.Core.Threads[i].TID)
}

// shadowedThreads finds threads for which a debugger takes another one's handle.
func shadowedThreads(r *Report) []Finding {
	var out []Finding
	for i, h := range r.Process.Handles {
		t := r.Debugger.Shadows[i]
		if t < 0 {
			continue
		}
		f := Finding{
			ID:       ShadowedThread,
			Severity: Error,
			TIDs:     []int{r.Core.Threads[t].TID},
			Pthreads: []elfcore.Addr{h.Pthread},
			Fixable:  true,
		}
		whose := "another thread"
		switch {
		case h.Owner >= 0 && h.TID == 0:
			f.Cause, whose = "exiting", fmt.Sprintf("%s, which is about to exit", r.thread(h.Owner))
		case h.Owner >= 0:
			f.Cause, whose = "foreign", r.thread(h.Owner)
		case h.State == nptl.Zombie:
			f.Cause, whose = "zombie", "a thread that has exited"
		case h.State == nptl.Starting:
			f.Cause, whose = "starting", "a thread that was still being created"
		default:
			f.Cause, whose = "foreign", "a thread that this core does not have"
		}
		f.Summary = fmt.Sprintf("gdb will read the thread-locals of %s from %s", r.thread(t), whose)
		f.Detail = r.shadowDetail(i, t)
		if r.sameDTV(h.Pthread, r.Process.Threads[t].Pthread) {
			f.Severity = Warning
			f.Summary = fmt.Sprintf("gdb will show %s by the handle of %s; its thread-locals are right all the same", r.thread(t), whose)
			f.Detail += fmt.Sprintf(" But its dtv is that of %d's own descriptor, so that both lead to the same variables.", f.TIDs[0])
		}
		out = append(out, f)
	}
	return out
}

// shadowDetail says how a handle came to stand for a thread.
func (r *Report) shadowDetail(handle, thread int) string {
	h := r.Process.Handles[handle]
	tid := r.Core.Threads[thread].TID
	text := fmt.Sprintf("handle %s", h.Pthread)
	switch {
	case h.State == nptl.Zombie:
		text += " belonged to a thread that "
		if h.StartRoutine != nil {
			text += fmt.Sprintf("started at %s; it ", r.at(*h.StartRoutine))
		}
		text += "exited and nobody joined it"
	case h.State == nptl.Starting:
		text += " is of a thread that pthread_create had not started yet"
	case h.Owner >= 0:
		text += fmt.Sprintf(" is of thread %d", r.Core.Threads[h.Owner].TID)
	default:
		text += fmt.Sprintf(" is of a thread %d that this core does not have", h.TID)
	}
	if h.TID == 0 {
		text += fmt.Sprintf(": its id is 0, for which libthread_db reports the process id, %d.", r.Debugger.Reported[handle])
	} else {
		text += fmt.Sprintf(", and it carries the id %d.", h.TID)
	}
	own := r.Process.Threads[thread].Handle
	switch {
	case own < 0:
		text += fmt.Sprintf(" Thread %d has no handle of its own on the lists.", tid)
	case r.Process.Handles[own].Position > h.Position:
		text += fmt.Sprintf(" It comes before %d's own handle, %s, on the list %s, and gdb keeps the first handle that it sees for an id.",
			tid, r.Process.Handles[own].Pthread, listName(h, r.Process.Handles[own]))
	default:
		text += fmt.Sprintf(" Thread %d's own handle, %s, carries the id %d.", tid, r.Process.Handles[own].Pthread, r.Process.Handles[own].TID)
	}
	return text
}

func listName(first, second *nptl.Handle) string {
	if first.List != second.List {
		return fmt.Sprintf("%s, which is read before %s", first.List, second.List)
	}
	return first.List.String()
}

// mismatchedIDs finds living threads whose handles carry another id than the
// core gives them.
func mismatchedIDs(r *Report) []Finding {
	byCause := make(map[string]*Finding)
	var order []string
	for i, h := range r.Process.Handles {
		if h.Owner < 0 || h.Position < 0 || r.Debugger.Reported[i] == r.Core.Threads[h.Owner].TID {
			continue
		}
		cause := r.mismatchCause(h)
		f := byCause[cause]
		if f == nil {
			f = &Finding{ID: HandleIDMismatch, Severity: Error, Cause: cause, Fixable: true}
			byCause[cause] = f
			order = append(order, cause)
		}
		f.TIDs = append(f.TIDs, r.Core.Threads[h.Owner].TID)
		f.Pthreads = append(f.Pthreads, h.Pthread)
		if len(f.TIDs) == 1 {
			f.Detail = fmt.Sprintf("handle %s is of thread %d, but carries the id %d", h.Pthread, f.TIDs[0], h.TID)
		}
	}
	var out []Finding
	for _, cause := range order {
		f := byCause[cause]
		who := fmt.Sprintf("thread %d", f.TIDs[0])
		if len(f.TIDs) > 1 {
			who = fmt.Sprintf("%d threads", len(f.TIDs))
		}
		f.Summary = fmt.Sprintf("gdb will find no thread-locals for %s: %s", who, map[string]string{
			"exiting":       "it is about to exit and its handle has lost its id",
			"raw-fork":      "the process was forked behind glibc's back and its handle still has the parent's id",
			"pid-namespace": "the core has the ids of another pid namespace than the process itself",
		}[cause])
		if len(f.TIDs) > 1 {
			f.Detail += fmt.Sprintf(", and %d more alike", len(f.TIDs)-1)
		}
		f.Detail += ". gdb looks for handles by id and will show a thread with the id of the handle that does not exist."
		out = append(out, *f)
	}
	return out
}

// mismatchCause tells why a living handle carries another id. A kernel writes
// the ids of the process's own namespace, so that there only clone(2) without
// libc remains.
func (r *Report) mismatchCause(h *nptl.Handle) string {
	switch {
	case h.TID == 0 && h.Exiting():
		return "exiting"
	case r.Core.Producer == elfcore.Kernel || r.Core.Process != nil && h.TID == r.Core.Process.PPID:
		return "raw-fork"
	}
	return "pid-namespace"
}

// phantoms finds threads that gdb will show and the core does not have. Those
// that a living thread's wrong id makes are part of that finding.
func phantoms(r *Report) []Finding {
	var out []Finding
	for _, p := range r.Debugger.Phantoms {
		h := r.Process.Handles[p.Handle]
		if h.Owner >= 0 {
			continue
		}
		what := "a thread that has exited"
		switch {
		case r.Core.Process != nil && p.TID == r.Core.Process.PID && h.Initial:
			what = "main, which has left by pthread_exit"
		case h.State == nptl.Starting:
			what = "a thread that was still being created"
		case h.State == nptl.Foreign:
			what = "a thread that this core does not have"
		}
		out = append(out, Finding{
			ID:       PhantomThread,
			Severity: Warning,
			Summary:  fmt.Sprintf("gdb will show a thread %d without registers: %s", p.TID, what),
			Detail:   fmt.Sprintf("handle %s is still on the list %s and stands for the id %d, which no thread of the core has.", h.Pthread, h.List, p.TID),
			TIDs:     []int{p.TID},
			Pthreads: []elfcore.Addr{h.Pthread},
			Fixable:  true,
		})
	}
	return out
}

// threadsWithoutHandle finds threads that are on none of the lists that
// libthread_db goes through.
func threadsWithoutHandle(r *Report) []Finding {
	if !r.usesPthreads() || !r.Debugger.ThreadDebugging {
		return nil
	}
	var refused, byRegister, leaving []int
	for i := range r.Core.Threads {
		t := r.Process.Threads[i]
		// No debugger looks at the lists of a second copy of the library.
		second := t.Handle >= 0 && r.Process.Handles[t.Handle].List == nptl.SecondCopy
		if t.Handle >= 0 && !second || r.Debugger.Handle[i] >= 0 {
			continue
		}
		if t.Leaving {
			leaving = append(leaving, r.Core.Threads[i].TID)
			continue
		}
		if r.foundByRegister(i) {
			byRegister = append(byRegister, r.Core.Threads[i].TID)
			continue
		}
		refused = append(refused, r.Core.Threads[i].TID)
	}
	const origin = "Such threads are made by clone(2) without pthread_create, by a runtime of their own, or by a second copy of glibc (dlmopen)."
	var out []Finding
	if len(refused) > 0 {
		out = append(out, Finding{
			ID:       ThreadWithoutHandle,
			Severity: Warning,
			Summary:  fmt.Sprintf("gdb will refuse the thread-locals of %s: glibc knows nothing of %s", count(refused, "thread"), pronoun(refused)),
			Detail:   origin,
			TIDs:     refused,
		})
	}
	if arch := r.Core.Arch.Name; len(byRegister) > 0 {
		out = append(out, Finding{
			ID:       ThreadWithoutHandle,
			Severity: Warning,
			Summary:  fmt.Sprintf("only a gdb that runs on %s will show the thread-locals of %s: glibc knows nothing of %s", arch, count(byRegister, "thread"), pronoun(byRegister)),
			Detail:   fmt.Sprintf("There libthread_db goes by the thread pointer in the registers. gdb-multiarch on another architecture hands it registers of that one, and refuses. %s", origin),
			TIDs:     byRegister,
		})
	}
	if len(leaving) > 0 {
		out = append(out, Finding{
			ID:       ThreadWithoutHandle,
			Severity: Note,
			Summary:  fmt.Sprintf("%s was leaving when the process died: glibc has already taken the handle off its lists", count(leaving, "detached thread")),
			TIDs:     leaving,
		})
	}
	return out
}

// foundByRegister tells whether libthread_db, where the architecture lets it,
// finds a descriptor by a thread's registers: its own, or that of the thread with
// which a raw clone shares its thread pointer.
func (r *Report) foundByRegister(thread int) bool {
	t := r.Process.Threads[thread]
	if !r.Core.Arch.TP.Self || t.PointerSource != nptl.FromNote {
		return false
	}
	return slices.ContainsFunc(r.Process.Threads, func(o nptl.Thread) bool {
		return o.Pthread != 0 && o.Pointer == t.Pointer
	})
}

func count(ids []int, noun string) string {
	if len(ids) == 1 {
		return fmt.Sprintf("%s %d", noun, ids[0])
	}
	return fmt.Sprintf("%d %ss", len(ids), noun)
}

func pronoun(ids []int) string {
	if len(ids) == 1 {
		return "it"
	}
	return "them"
}

// zombies sums up exited and unjoined threads that mislead nobody.
func zombies(r *Report) []Finding {
	f := Finding{ID: ZombieHandle, Severity: Note, Fixable: true}
	var gone []*nptl.Handle
	phantom := make(map[int]bool)
	for _, p := range r.Debugger.Phantoms {
		phantom[p.Handle] = true
	}
	for i, h := range r.Process.Handles {
		if h.State != nptl.Zombie || r.Debugger.Shadows[i] >= 0 || phantom[i] {
			continue
		}
		f.Pthreads = append(f.Pthreads, h.Pthread)
		gone = append(gone, h)
	}
	n := len(f.Pthreads)
	if n == 0 {
		return nil
	}
	effect := "debuggers are right all the same"
	if len(r.Process.Limits) > 0 {
		effect = "whether that misleads a debugger cannot be told"
	}
	f.Summary = fmt.Sprintf("%d threads have exited and were not joined; %s", n, effect)
	if n == 1 {
		f.Summary = "a thread has exited and was not joined; " + effect
	}
	f.Detail = "Each keeps its descriptor and its stack until somebody joins it"
	if leak := r.leak(gone); leak != "" {
		f.Detail += ": " + leak
	}
	f.Detail += "."
	return []Finding{f}
}
