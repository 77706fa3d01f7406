package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/locks"
)

// findHeld searches for the mutexes that threads hold.
func (v *locksView) findHeld(cmd *cobra.Command) error {
	bar := newProgress(cmd.ErrOrStderr(), v.globals.progress)
	defer bar.done()
	held, err := locks.FindHeld(cmd.Context(), v.Core, v.Process, v.modules, locks.HeldOptions{
		Progress: func(done, total int64) { bar.show("searching "+v.path, done, total, done) },
	})
	v.held = held
	return err
}

// heldText lists each thread with what it waits for and what it holds, in the
// order of Java's thread dumps.
func (v *locksView) heldText(b *strings.Builder, s *style) {
	byThread := make(map[int][]locks.Held)
	for _, h := range v.held.Mutexes {
		byThread[h.Thread] = append(byThread[h.Thread], h)
	}
	for i := range v.Core.Threads {
		if len(byThread[i]) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n  thread %d\n", v.Core.Threads[i].TID)
		if w := v.waits[i]; w != nil {
			b.WriteString(s.wrap("- "+v.predicate(w), "    "))
		}
		for _, h := range byThread[i] {
			text := fmt.Sprintf("- holds %s %s", h.Kind.Noun(), h.Object)
			if sym := v.symbol(h.Object); sym != "" {
				text += " <" + sym + ">"
			}
			text += " (" + h.Name + ")"
			if h.Listed {
				text += ", on its robust list"
			}
			b.WriteString(s.wrap(text, "    "))
		}
	}
	for _, i := range slices.Sorted(maps.Keys(v.held.BrokenLists)) {
		why := v.held.BrokenLists[i]
		b.WriteString("\n" + s.wrap(fmt.Sprintf("the robust list of thread %d is broken: %s", v.Core.Threads[i].TID, why), "  "))
	}
	found := "no mutex is"
	switch n := len(v.held.Mutexes); {
	case n == 1:
		found = "1 mutex is"
	case n > 1:
		found = fmt.Sprintf("%d mutexes are", n)
	}
	searched := diagnose.Bytes(v.held.Searched) + " of writable memory searched"
	if v.held.Searched < v.held.Total {
		searched = fmt.Sprintf("%s of %s of writable memory searched, the rest is not in the core", diagnose.Bytes(v.held.Searched), diagnose.Bytes(v.held.Total))
	}
	b.WriteString("\n" + s.wrap(fmt.Sprintf("%s held; %s", found, searched), "  "))
}
