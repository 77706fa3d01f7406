package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/corethreads/corethreads/locks"
)

// text tells a report to a person: the verdicts first, then the threads in each,
// then the rest in groups.
func (v *locksView) text(w io.Writer, s *style) error {
	var b strings.Builder
	if v.flags.thread != 0 {
		v.oneThread(&b, s)
		_, err := io.WriteString(w, b.String())
		return err
	}
	v.headline(&b, s)
	if v.globals.quiet {
		_, err := io.WriteString(w, b.String())
		return err
	}
	for _, l := range v.report.Limits {
		b.WriteString("\n" + s.wrap("limit: "+l, "  "))
	}
	if v.report.AbortMessage != "" {
		b.WriteString("\n" + s.wrap("glibc aborted: "+v.report.AbortMessage, "  "))
	}
	shown := make(map[int]bool)
	for i := range v.report.Verdicts {
		x := &v.report.Verdicts[i]
		v.verdict(&b, s, x, i > 0)
		for _, t := range x.Threads {
			shown[t] = true
		}
	}
	if v.held != nil {
		v.heldText(&b, s)
	} else {
		v.rest(&b, s, shown)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (v *locksView) headline(b *strings.Builder, s *style) {
	if len(v.report.Verdicts) == 0 {
		answer := s.good.Sprint("no deadlock") + ", and nothing inconsistent"
		if len(v.report.Limits) > 0 {
			answer = s.warn.Sprint("limited") + ": no deadlock that can be seen"
		}
		n, wait := len(v.report.Waits), "wait"
		if n == 1 {
			wait = "waits"
		}
		fmt.Fprintf(b, "%s: %s: %d of %s %s\n", printable(coreName(v.path)), answer, n, plural(len(v.Core.Threads), "thread"), wait)
		return
	}
	x := v.report.Verdicts[0]
	more := ""
	if n := len(v.report.Verdicts) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	fmt.Fprintf(b, "%s: %s [%s]: %s%s\n", printable(coreName(v.path)), s.bad.Sprint(x.ID), x.Confidence, printable(x.Summary), more)
}

// verdict tells one verdict: its threads, the story, what it rests on.
func (v *locksView) verdict(b *strings.Builder, s *style, x *locks.Verdict, title bool) {
	if title {
		b.WriteString("\n" + s.wrap(fmt.Sprintf("%s [%s]: %s", s.bad.Sprint(x.ID), x.Confidence, x.Summary), ""))
	}
	if len(x.Threads) > 0 {
		b.WriteString("\n")
	}
	for _, t := range x.Threads {
		b.WriteString(s.wrap(v.about(t), "  "))
		v.frames(b, s, x, t)
	}
	if x.Explanation != "" {
		b.WriteString("\n" + s.wrap(x.Explanation, "  "))
	}
	if v.globals.verbose {
		b.WriteString("\n")
		for _, e := range x.Evidence {
			b.WriteString(s.wrap("- "+e, "  "))
		}
	}
	for _, e := range x.WeakPoints {
		b.WriteString("\n" + s.wrap("weak point: "+e, "  "))
	}
	if x.Remedy != "" {
		b.WriteString("\n" + s.wrap("remedy: "+x.Remedy, "  "))
	}
}

// verdictFrames is how many frames of a thread in a verdict are shown.
const verdictFrames = 3

// frames shows where a thread of a verdict is: its frames from the first that is
// not the C library's, and the constructor that the loader runs in it.
func (v *locksView) frames(b *strings.Builder, s *style, x *locks.Verdict, thread int) {
	for _, f := range v.ownFrames(v.unwinder, thread, verdictFrames) {
		b.WriteString(s.wrap("in "+f, "    "))
	}
	if c := v.constructor(v.unwinder, thread); c != "" && x.ID == locks.LoaderLockChain {
		b.WriteString(s.wrap("which the loader called as a constructor: "+c, "    "))
	}
}

// about says in a sentence what a thread of a verdict does.
func (v *locksView) about(thread int) string {
	if w := v.waits[thread]; w != nil {
		return v.line(w)
	}
	out := fmt.Sprintf("thread %d", v.Core.Threads[thread].TID)
	if t := v.Core.CrashThread(); t != nil && &v.Core.Threads[thread] == t {
		return out + ", the one that died"
	}
	return out + " was running"
}

// line says in a sentence what a thread waits for and who holds it.
func (v *locksView) line(w *locks.Wait) string {
	return fmt.Sprintf("thread %d %s", v.Core.Threads[w.Thread].TID, v.predicate(w))
}

// predicate is what line says of the thread.
func (v *locksView) predicate(w *locks.Wait) string {
	out := "waits for " + v.what(w)
	if w.Kind != locks.Join {
		out = "waits for the " + v.what(w)
	}
	if holder := v.holder(w); holder != "" {
		out += ", held by " + holder
	}
	if w.Timed {
		out += ", with a time-out"
	}
	if w.Guess {
		out += " (a guess by its bytes)"
	}
	return out
}

// what names the object of a wait.
func (v *locksView) what(w *locks.Wait) string {
	switch {
	case w.Kind == locks.Join && w.OwnerTID != 0:
		return fmt.Sprintf("thread %d to exit (pthread_join)", w.OwnerTID)
	case w.Kind == locks.Join:
		return fmt.Sprintf("the thread of handle %s to exit (pthread_join)", w.Object)
	}
	name := w.Kind.Noun()
	if w.Object != 0 {
		name += " " + w.Object.String()
		if sym := v.symbol(w.Object); sym != "" {
			name += " <" + sym + ">"
		}
	}
	var more []string
	if w.Name != "" {
		more = append(more, w.Name)
	}
	switch w.Kind {
	case locks.RWLockRead:
		more = append(more, "to read")
	case locks.RWLockWrite:
		more = append(more, "to write")
	case locks.CondDestroy:
		more = append(more, "to be free, in pthread_cond_destroy")
	case locks.RawFutex:
		if w.Futex.Readable {
			more = append(more, "not the C library's")
		} else {
			more = append(more, "its memory is not in the core")
		}
	}
	if len(more) > 0 {
		name += " (" + strings.Join(more, "; ") + ")"
	}
	return name
}

// holder names the owner of a wait's object, empty where there is none.
func (v *locksView) holder(w *locks.Wait) string {
	if w.Kind == locks.Join || w.OwnerState == locks.NoOwner {
		return ""
	}
	switch w.OwnerState {
	case locks.OwnerLive:
		out := fmt.Sprintf("thread %d", w.OwnerTID)
		if t := v.Core.CrashThread(); t != nil && w.Owner >= 0 && &v.Core.Threads[w.Owner] == t {
			out += ", the one that died"
		}
		return out
	case locks.OwnerZombie:
		return fmt.Sprintf("thread %d, which has exited", w.OwnerTID)
	case locks.OwnerParent:
		return fmt.Sprintf("thread %d of the parent process", w.OwnerTID)
	case locks.OwnerNotInCore:
		return fmt.Sprintf("thread %d, which is not in the core", w.OwnerTID)
	}
	return ""
}

// oneThread tells all that is known about the wait of one thread.
func (v *locksView) oneThread(b *strings.Builder, s *style) {
	for i := range v.report.Waits {
		w := &v.report.Waits[i]
		if v.Core.Threads[w.Thread].TID != v.flags.thread {
			continue
		}
		if v.globals.quiet {
			b.WriteString(printable(v.line(w)) + "\n")
			return
		}
		b.WriteString(s.wrap(v.line(w), ""))
		for _, e := range w.Evidence() {
			b.WriteString(s.wrap("- "+e, "  "))
		}
		return
	}
	for _, t := range v.report.Waking {
		if v.Core.Threads[t].TID == v.flags.thread {
			fmt.Fprintf(b, "thread %d slept in a futex wait and is about to go on\n", v.flags.thread)
			return
		}
	}
	fmt.Fprintf(b, "thread %d is in no futex wait\n", v.flags.thread)
}
