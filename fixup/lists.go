package fixup

import (
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// link plans to make b the successor of a. Only the forward pointer matters to
// libthread_db; the one back is kept in step for other readers where it can be.
func (m *maker) link(a, b elfcore.Addr, reason string) bool {
	if !m.setWord(a, b, reason) {
		return false
	}
	m.setWord(b+elfcore.Addr(m.w), a, reason)
	return true
}

// setWord plans to write a pointer, once.
func (m *maker) setWord(at, value elfcore.Addr, reason string) bool {
	if planned, ok := m.words[at]; ok && planned == uint64(value) {
		return true
	}
	m.patches = slices.DeleteFunc(m.patches, func(p Patch) bool { return p.Address == at && len(p.New) == int(m.w) })
	m.words[at] = uint64(value)
	return m.patch(at, uint64(value), m.w, "%s", reason)
}

// closeLists plans to close the lists that libthread_db cannot walk to their
// end: behind the last sound member come those that only back links from the
// head reach, then the head.
func (m *maker) closeLists() {
	m.closed = make(map[nptl.ListKind][]elfcore.Addr)
	m.order = make(map[elfcore.Addr]int)
	defer func() {
		for _, kind := range []nptl.ListKind{nptl.StackUser, nptl.StackUsed} {
			for _, n := range m.closed[kind] {
				if _, twice := m.order[n]; !twice {
					m.order[n] = len(m.order)
				}
			}
		}
	}()
	for i := range m.p.Lists {
		l := &m.p.Lists[i]
		if l.Kind != nptl.StackUser && l.Kind != nptl.StackUsed {
			continue
		}
		if l.End == nptl.Closed {
			m.closed[l.Kind] = l.Nodes
			continue
		}
		if l.End == nptl.Unreadable && l.Fault != elfcore.Unmapped {
			// More of the list is in memory that is not in the core: what
			// comes behind is not known, so it stays as it is.
			continue
		}
		members := m.sound(l)
		last := l.Head
		if len(members) > 0 {
			last = members[len(members)-1]
		}
		behind := slices.Clone(l.Behind)
		slices.Reverse(behind)
		next := l.Head
		if len(behind) > 0 {
			next = behind[0]
		}
		reason := fmt.Sprintf("%s does not close (%s at %s): %s is followed by %s", l.Kind, l.End, l.At, m.nodeName(last, l), m.nodeName(next, l))
		if !m.link(last, next, reason) {
			m.fail("the pointer at %s, where %s breaks, is not in the core", last, l.Kind)
			continue
		}
		m.closed[l.Kind] = append(members, behind...)
	}
}

// sound are the members of a damaged list up to the first that is no
// descriptor, that repeats, or that is a member of the list before.
func (m *maker) sound(l *nptl.List) []elfcore.Addr {
	proved := make(map[elfcore.Addr]bool)
	for _, h := range m.p.Handles {
		if h.Proved && h.List == l.Kind {
			proved[h.Node] = true
		}
	}
	for i, n := range l.Nodes {
		if !proved[n] {
			return slices.Clone(l.Nodes[:i])
		}
	}
	return slices.Clone(l.Nodes)
}

func (m *maker) nodeName(n elfcore.Addr, l *nptl.List) string {
	if n == l.Head {
		return fmt.Sprintf("the head %s", n)
	}
	return fmt.Sprintf("handle %s", n-elfcore.Addr(m.p.Layout.Header))
}

// unlink makes the neighbours of handles skip them.
func (m *maker) unlink(gone []int) error {
	skip := make(map[elfcore.Addr]bool)
	for _, i := range gone {
		skip[m.p.Handles[i].Node] = true
	}
	for i := range m.p.Lists {
		l := &m.p.Lists[i]
		members, ok := m.closed[l.Kind]
		if !ok || l.Kind != nptl.StackUser && l.Kind != nptl.StackUsed {
			continue
		}
		before := l.Head
		skipped := 0
		for _, n := range append(slices.Clone(members), l.Head) {
			if skip[n] {
				skipped++
				continue
			}
			if skipped > 0 {
				reason := fmt.Sprintf("%d exited threads on %s: %s is followed by %s", skipped, l.Kind, m.nodeName(before, l), m.nodeName(n, l))
				if !m.link(before, n, reason) {
					return &Refusal{Strategy: Unlink, Instead: Retire, Why: fmt.Sprintf("the pointer at %s, in front of the handle to take out, is not in the core", before)}
				}
			}
			before, skipped = n, 0
		}
	}
	return nil
}
