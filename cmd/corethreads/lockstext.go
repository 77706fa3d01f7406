package main

import (
	"fmt"
	"io"
	"slices"
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
		fmt.Fprintf(b, "%s: %s: no deadlock: %s of %d wait for something, none of them in a ring\n", v.path, s.good.Sprint("no verdict"), plural(len(v.report.Waits), "thread"), len(v.Core.Threads))
		return
	}
	x := v.report.Verdicts[0]
	more := ""
	if n := len(v.report.Verdicts) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	fmt.Fprintf(b, "%s: %s [%s]: %s%s\n", v.path, s.bad.Sprint(x.ID), x.Confidence, x.Summary, more)
}

// verdict tells one verdict: its threads, the story, what it rests on.
func (v *locksView) verdict(b *strings.Builder, s *style, x *locks.Verdict, title bool) {
	if title {
		b.WriteString("\n" + s.wrap(fmt.Sprintf("%s [%s]: %s", s.bad.Sprint(x.ID), x.Confidence, x.Summary), ""))
	}
	b.WriteString("\n")
	for _, t := range x.Threads {
		if w := v.wait(t); w != nil {
			b.WriteString(s.wrap(v.line(w), "  "))
		} else {
			b.WriteString(s.wrap(fmt.Sprintf("thread %d", v.Core.Threads[t].TID), "  "))
		}
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

func (v *locksView) wait(thread int) *locks.Wait {
	for i := range v.report.Waits {
		if v.report.Waits[i].Thread == thread {
			return &v.report.Waits[i]
		}
	}
	return nil
}

// line says in a sentence what a thread waits for and who holds it.
func (v *locksView) line(w *locks.Wait) string {
	out := fmt.Sprintf("thread %d waits for %s", v.Core.Threads[w.Thread].TID, v.what(w))
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
	var name string
	switch {
	case w.Kind == locks.LoaderLock:
		name = "the dynamic loader's lock " + w.Name
	case w.Kind == locks.Join:
		if w.OwnerTID != 0 {
			return fmt.Sprintf("thread %d to exit (pthread_join)", w.OwnerTID)
		}
		return fmt.Sprintf("the thread of handle %s to exit (pthread_join)", w.Object)
	default:
		name = string(w.Kind)
	}
	if w.Object != 0 {
		name += " " + w.Object.String()
		if sym := v.symbol(w.Object); sym != "" {
			name += " <" + sym + ">"
		}
	}
	if w.Name != "" && w.Kind != locks.LoaderLock {
		name += " (" + w.Name + ")"
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

// rest lists the threads that are in no verdict, alike ones together.
func (v *locksView) rest(b *strings.Builder, s *style, shown map[int]bool) {
	type group struct {
		text    string
		threads []int
	}
	var order []*group
	groups := make(map[string]*group)
	for i := range v.report.Waits {
		w := &v.report.Waits[i]
		if shown[w.Thread] {
			continue
		}
		if v.flags.all {
			b.WriteString(s.wrap(v.line(w), "  "))
			continue
		}
		text := strings.TrimPrefix(v.line(w), fmt.Sprintf("thread %d waits for ", v.Core.Threads[w.Thread].TID))
		g := groups[text]
		if g == nil {
			g = &group{text: text}
			groups[text] = g
			order = append(order, g)
		}
		g.threads = append(g.threads, w.Thread)
	}
	slices.SortStableFunc(order, func(x, y *group) int { return len(y.threads) - len(x.threads) })
	if len(order) > 0 {
		b.WriteString("\n")
	}
	for _, g := range order {
		who := fmt.Sprintf("thread %d", v.Core.Threads[g.threads[0]].TID)
		if len(g.threads) > 1 {
			who = plural(len(g.threads), "thread")
		}
		b.WriteString(s.wrap(fmt.Sprintf("%s: %s", who, g.text), "  "))
	}
}

// oneThread tells all that is known about the wait of one thread.
func (v *locksView) oneThread(b *strings.Builder, s *style) {
	for i := range v.report.Waits {
		w := &v.report.Waits[i]
		if v.Core.Threads[w.Thread].TID != v.flags.thread {
			continue
		}
		b.WriteString(s.wrap(v.line(w), ""))
		for _, e := range w.Evidence {
			b.WriteString(s.wrap("- "+e, "  "))
		}
		return
	}
	fmt.Fprintf(b, "thread %d waits for nothing that is known\n", v.flags.thread)
}

// dot draws the graph: threads are boxes, what they wait for ellipses.
func (v *locksView) dot(w io.Writer) error {
	var b strings.Builder
	b.WriteString("digraph locks {\n  rankdir=LR;\n")
	bad := make(map[int]bool)
	for _, x := range v.report.Verdicts {
		for _, t := range x.Threads {
			bad[t] = true
		}
	}
	objects := make(map[string]bool)
	for i := range v.report.Waits {
		x := &v.report.Waits[i]
		colour := ""
		if bad[x.Thread] {
			colour = ", color=red"
		}
		id := fmt.Sprintf("%s %s", x.Kind, x.Object)
		fmt.Fprintf(&b, "  t%d [shape=box, label=%q%s];\n", x.Thread, fmt.Sprintf("thread %d", v.Core.Threads[x.Thread].TID), colour)
		if !objects[id] {
			objects[id] = true
			fmt.Fprintf(&b, "  %q [label=%q];\n", id, strings.TrimSpace(fmt.Sprintf("%s\n%s", x.Kind, v.symbol(x.Object))))
			if x.Owner >= 0 {
				fmt.Fprintf(&b, "  t%d [shape=box, label=%q];\n  %q -> t%d [label=\"held by\"];\n", x.Owner, fmt.Sprintf("thread %d", v.Core.Threads[x.Owner].TID), id, x.Owner)
			}
		}
		fmt.Fprintf(&b, "  t%d -> %q [label=\"waits for\"%s];\n", x.Thread, id, colour)
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
