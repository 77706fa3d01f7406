package fixup

import (
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// closeLists plans to close the lists that libthread_db cannot walk to their
// end, and settles the order in which it will meet their members. Where a list
// leads out of the core only unlink may close it: the next member may be sound,
// and is taken out unseen.
func (m *maker) closeLists() error {
	for i := range m.p.Lists {
		l := &m.p.Lists[i]
		switch {
		case l.Kind != nptl.StackUser && l.Kind != nptl.StackUsed:
		case m.p.List(l.Kind) != l:
			return m.refuse("", "the lists with their heads at %s and %s both look like %s", m.p.List(l.Kind).Head, l.Head, l.Kind)
		case l.End == nptl.Closed:
			m.closed[l.Kind] = l.Nodes
		case leavesCore(l) && m.options.Strategy != Unlink:
			return m.refuse(Unlink, "the list %s goes on at %s, which is %s, so that libthread_db refuses the whole process", l.Kind, l.At, l.Fault)
		default:
			if err := m.closeList(l); err != nil {
				return err
			}
		}
	}
	for _, kind := range []nptl.ListKind{nptl.StackUser, nptl.StackUsed} {
		for _, n := range m.closed[kind] {
			m.order[n] = len(m.order)
		}
	}
	return nil
}

// leavesCore tells whether a list goes on in memory that the process had and
// the core does not hold.
func leavesCore(l *nptl.List) bool {
	return l.End == nptl.Unreadable && l.Fault != elfcore.Unmapped
}

// closeList plans to close one list around all of its members that can be told.
func (m *maker) closeList(l *nptl.List) error {
	what := fmt.Sprintf("%s does not close (%s at %s)", l.Kind, l.End, l.At)
	if leavesCore(l) {
		what = fmt.Sprintf("%s goes on at %s, which is %s", l.Kind, l.At, l.Fault)
	}
	members := m.members(l)
	before := l.Head
	for _, n := range append(slices.Clone(members), l.Head) {
		if next, err := m.c.Word(before); err != nil || next != uint64(n) {
			if !m.link(before, n, fmt.Sprintf("%s: %s is followed by %s", what, m.nodeName(before, l), m.nodeName(n, l))) {
				return m.refuse("", "the pointer at %s, where %s breaks, is not in the core", before, l.Kind)
			}
		}
		before = n
	}
	m.closed[l.Kind] = members
	return m.release(members)
}

// members are those of a damaged list, in order: what libthread_db reaches,
// then the threads' own that nothing leads to, then what only the links back
// from the head reach.
func (m *maker) members(l *nptl.List) []elfcore.Addr {
	other := m.p.List(nptl.StackUser + nptl.StackUsed - l.Kind)
	onOther := make(map[elfcore.Addr]bool)
	if other != nil {
		for _, n := range slices.Concat(other.Nodes, other.Behind) {
			onOther[n] = true
		}
	}
	proved := make(map[elfcore.Addr]bool)
	for _, h := range m.p.Handles {
		proved[h.Node] = proved[h.Node] || h.Proved && h.List == l.Kind
	}
	var out []elfcore.Addr
	for _, n := range l.Nodes {
		// A stack that was freed and used again can put a descriptor where
		// another list still expects the old one. It belongs to the list that
		// closes, else to the one whose member it looks back at.
		before := l.Head
		if len(out) > 0 {
			before = out[len(out)-1]
		}
		back, err := m.c.Word(n + elfcore.Addr(m.w))
		if !proved[n] || onOther[n] && (other.End == nptl.Closed || err != nil || back != uint64(before)) {
			break
		}
		out = append(out, n)
	}
	reached := make(map[elfcore.Addr]bool)
	for _, n := range slices.Concat(l.Nodes, l.Behind) {
		reached[n] = true
	}
	for _, h := range m.p.Handles {
		if h.Owner >= 0 && h.Proved && h.List == l.Kind && !reached[h.Node] {
			out = append(out, h.Node)
		}
	}
	for _, n := range slices.Backward(l.Behind) {
		out = append(out, n)
	}
	return out
}

// link plans to make b the successor of a. Only the forward pointer matters to
// libthread_db; the one back is kept in step for other readers where it can be.
func (m *maker) link(a, b elfcore.Addr, reason string) bool {
	if !m.patch(a, uint64(b), m.w, "%s", reason) {
		return false
	}
	m.patch(b+elfcore.Addr(m.w), uint64(a), m.w, "%s", reason)
	return true
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
		h := m.p.Handles[i]
		if _, reached := m.order[h.Node]; !reached {
			return m.refuse(Retire, "the list that leads to handle %s is not in the core", h.Pthread)
		}
		skip[h.Node] = true
	}
	for i := range m.p.Lists {
		l := &m.p.Lists[i]
		if members, ok := m.closed[l.Kind]; ok {
			if err := m.skip(l, members, skip); err != nil {
				return err
			}
		}
	}
	return nil
}

// skip links the members of a list past those that are to be left out.
func (m *maker) skip(l *nptl.List, members []elfcore.Addr, out map[elfcore.Addr]bool) error {
	before := l.Head
	var skipped []elfcore.Addr
	for _, n := range append(slices.Clone(members), l.Head) {
		if out[n] {
			skipped = append(skipped, n)
			continue
		}
		if len(skipped) > 0 {
			what := m.nodeName(skipped[0], l)
			if len(skipped) > 1 {
				what = fmt.Sprintf("%d handles from %s on", len(skipped), skipped[0]-elfcore.Addr(m.p.Layout.Header))
			}
			reason := fmt.Sprintf("%s without %s: %s is followed by %s", l.Kind, what, m.nodeName(before, l), m.nodeName(n, l))
			if !m.link(before, n, reason) {
				return m.refuse(Retire, "the pointer at %s, in front of the handle to take out, is not in the core", before)
			}
		}
		before, skipped = n, nil
	}
	return nil
}
