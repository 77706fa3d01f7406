package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/locks"
)

// lockGroup is threads that wait for one object.
type lockGroup struct {
	held  bool
	count int
	// alike are those of which the same is to be said, such as with a time-out.
	alike []*alikeWaits
}

type alikeWaits struct {
	text  string
	waits []*locks.Wait
}

// lockGroups puts the threads that are in no verdict together by what they wait
// for: what most of them wait for first, what somebody holds before what nobody
// does.
func (v *locksView) lockGroups(shown map[int]bool) []*lockGroup {
	var order []*lockGroup
	groups := make(map[string]*lockGroup)
	for i := range v.report.Waits {
		w := &v.report.Waits[i]
		if shown[w.Thread] {
			continue
		}
		text := strings.TrimPrefix(strings.TrimPrefix(v.predicate(w), "waits for "), "the ")
		object := w.Object.String()
		if w.Object == 0 {
			object = text
		}
		g := groups[object]
		if g == nil {
			g = &lockGroup{}
			groups[object] = g
			order = append(order, g)
		}
		g.add(text, w)
		g.held = g.held || v.holder(w) != ""
	}
	for _, g := range order {
		slices.SortStableFunc(g.alike, func(a, b *alikeWaits) int { return len(b.waits) - len(a.waits) })
	}
	slices.SortStableFunc(order, func(a, b *lockGroup) int {
		switch {
		case a.count != b.count:
			return b.count - a.count
		case a.held == b.held:
			return 0
		case a.held:
			return -1
		}
		return 1
	})
	return order
}

func (g *lockGroup) add(text string, w *locks.Wait) {
	g.count++
	for _, a := range g.alike {
		if a.text == text {
			a.waits = append(a.waits, w)
			return
		}
	}
	g.alike = append(g.alike, &alikeWaits{text, []*locks.Wait{w}})
}

// rest lists the threads that are in no verdict, alike ones together.
func (v *locksView) rest(b *strings.Builder, s *style, shown map[int]bool) {
	groups := v.lockGroups(shown)
	if len(groups) > 0 {
		b.WriteString("\n")
	}
	for _, g := range groups {
		for _, a := range g.alike {
			v.alike(b, s, a)
		}
	}
}

func (v *locksView) alike(b *strings.Builder, s *style, a *alikeWaits) {
	var threads []int
	for _, w := range a.waits {
		threads = append(threads, w.Thread)
		if v.flags.all {
			b.WriteString(s.wrap(v.line(w), "  "))
		}
	}
	switch {
	case v.flags.all:
	case len(threads) == 1:
		b.WriteString(s.wrap(fmt.Sprintf("thread %d: %s", v.Core.Threads[threads[0]].TID, a.text), "  "))
	default:
		b.WriteString(s.wrap(fmt.Sprintf("%s: %s", plural(len(threads), "thread"), a.text), "  "))
		b.WriteString(s.wrap(listIDs(v.Core, threads, v.globals.verbose), "    "))
	}
}
