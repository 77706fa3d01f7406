package fixup

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// Options choose what a repair does.
type Options struct {
	// Strategy is Retire where it is empty.
	Strategy Strategy
	// All repairs every handle whose thread is gone, not only those that
	// mislead.
	All bool
}

// Make decides the edit that makes debuggers right about a core. It writes
// nothing. A plan without patches means that there is nothing to repair; the
// error is a *Refusal where the strategy cannot work on this core.
func Make(r *diagnose.Report, o Options) (*Plan, error) {
	if o.Strategy == "" {
		o.Strategy = Retire
	}
	m := &maker{Report: r, options: o, c: r.Core, p: r.Process, w: uint64(r.Core.Arch.WordSize()), words: make(map[elfcore.Addr]uint64), threads: make(map[int]int)}
	for i := range r.Core.Threads {
		if _, twice := m.threads[r.Core.Threads[i].TID]; !twice {
			m.threads[r.Core.Threads[i].TID] = i
		}
	}
	m.closeLists()
	m.renameLiving()
	if err := m.repairGone(); err != nil {
		return nil, err
	}
	if m.err != nil {
		return nil, m.err
	}
	slices.SortFunc(m.patches, func(a, b Patch) int { return cmp.Compare(a.Offset, b.Offset) })
	plan := &Plan{Strategy: string(o.Strategy), Patches: m.patches}
	id, err := Identify(r.Core, r.Core.Size, m.patches)
	if err != nil {
		return nil, err
	}
	plan.Core = id
	if r.Core.Process != nil {
		plan.Core.PID, plan.Core.Command = &r.Core.Process.PID, r.Core.Process.Command()
	}
	if len(plan.Patches) == 0 {
		return plan, nil
	}
	return plan, plan.Validate()
}

// maker collects the patches of one plan.
type maker struct {
	*diagnose.Report
	options Options
	c       *elfcore.Core
	p       *nptl.Process
	w       uint64

	patches []Patch
	// words are the words of memory that the plan already changes.
	words map[elfcore.Addr]uint64
	// closed are the members, in order, that each list will have after
	// closeLists; order is where each will stand in libthread_db's iteration.
	closed map[nptl.ListKind][]elfcore.Addr
	order  map[elfcore.Addr]int
	// threads finds a thread by its id.
	threads map[int]int
	err     error
}

// patch plans to write n bytes (4 or 8) at an address. A value that is there
// already needs no patch.
func (m *maker) patch(a elfcore.Addr, value uint64, n uint64, reason string, args ...any) bool {
	old := make([]byte, n)
	if _, err := m.c.ReadMemory(old, a); err != nil {
		return false
	}
	offset, ok := m.c.Locate(a)
	if !ok {
		return false
	}
	if last, ok := m.c.Locate(a + elfcore.Addr(n-1)); !ok || last != offset+int64(n)-1 {
		return false
	}
	patched := make([]byte, n)
	if n == 4 {
		m.c.ByteOrder.PutUint32(patched, uint32(value))
	} else {
		m.c.ByteOrder.PutUint64(patched, value)
	}
	if string(old) == string(patched) {
		return true
	}
	m.patches = append(m.patches, Patch{Address: a, Offset: offset, Old: old, New: patched, Reason: fmt.Sprintf(reason, args...)})
	return true
}

// setID plans to give a handle an id.
func (m *maker) setID(h *nptl.Handle, id int, reason string, args ...any) bool {
	return m.patch(h.Node+elfcore.Addr(m.p.Layout.TID), uint64(uint32(int32(id))), 4, reason, args...)
}

// renameLiving gives each living thread's handle its owner's id, and its
// process's where glibc filters by that.
func (m *maker) renameLiving() {
	for i, h := range m.p.Handles {
		if h.Owner < 0 || h.List != nptl.StackUser && h.List != nptl.StackUsed {
			continue
		}
		tid := m.c.Threads[h.Owner].TID
		if m.Debugger.Reported[i] != tid {
			if !m.setID(h, tid, "handle %s is of thread %d: give it that id", h.Pthread, tid) {
				m.fail("the descriptor of thread %d at %s is not whole in the core", tid, h.Pthread)
			}
		}
		if m.p.Layout.PID != 0 && m.c.Process != nil && h.PID != m.c.Process.PID {
			m.patch(h.Node+elfcore.Addr(m.p.Layout.PID), uint64(uint32(int32(m.c.Process.PID))), 4,
				"handle %s: libthread_db of glibc up to 2.24 passes over handles of another process id", h.Pthread)
		}
	}
}

func (m *maker) fail(format string, args ...any) {
	if m.err == nil {
		m.err = &Refusal{Strategy: m.options.Strategy, Why: fmt.Sprintf(format, args...)}
	}
}

// repairGone repairs the handles whose threads are gone and that mislead, by the
// strategy that was chosen.
func (m *maker) repairGone() error {
	var gone []int
	for i := range m.p.Handles {
		if m.misleads(i) {
			gone = append(gone, i)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	switch m.options.Strategy {
	case Retire:
		return m.retire(gone)
	case Unlink:
		return m.unlink(gone)
	case RemapTLS:
		return m.remapTLS(gone)
	case Expose:
		return m.expose(gone)
	}
	_, err := ParseStrategy(string(m.options.Strategy))
	return err
}

// misleads tells whether a handle without a thread will stand for a thread of
// the core, once all living ones have their ids: gdb takes the first handle of
// an id, so that all in front of the thread's own matter, not only the first.
func (m *maker) misleads(i int) bool {
	h := m.p.Handles[i]
	if h.Owner >= 0 || h.State == nptl.Retired || h.State == nptl.UnknownState || h.List != nptl.StackUser && h.List != nptl.StackUsed {
		return false
	}
	if m.options.All {
		return true
	}
	place, reached := m.order[h.Node]
	t, ok := m.threads[m.Debugger.Reported[i]]
	if !reached || !ok {
		return false
	}
	own := m.p.Threads[t].Handle
	if own < 0 {
		return true
	}
	ownPlace, reached := m.order[m.p.Handles[own].Node]
	return !reached || place < ownPlace
}

// retire sets ids to −1.
func (m *maker) retire(gone []int) error {
	for _, i := range gone {
		h := m.p.Handles[i]
		if !m.setID(h, -1, "handle %s: its thread is gone (%s); −1 marks it as joined, and gdb passes over it", h.Pthread, h.State) {
			return &Refusal{Strategy: Retire, Instead: Unlink, Why: fmt.Sprintf("the id of handle %s is not in the core", h.Pthread)}
		}
	}
	return nil
}

// expose sets ids to numbers that no thread and no handle has.
func (m *maker) expose(gone []int) error {
	used := make(map[int]bool)
	next := 1
	if m.c.Process != nil {
		used[m.c.Process.PID] = true
		next = max(next, m.c.Process.PID+1)
	}
	for i := range m.c.Threads {
		used[m.c.Threads[i].TID] = true
		next = max(next, m.c.Threads[i].TID+1)
	}
	for _, h := range m.p.Handles {
		used[h.TID] = true
	}
	for _, i := range gone {
		for used[next] || next <= 0 || next > 1<<30 {
			next = (next + 1) & (1<<30 - 1)
		}
		used[next] = true
		h := m.p.Handles[i]
		if !m.setID(h, next, "handle %s: its thread is gone (%s); gdb will show it as LWP %d, an id that no thread has", h.Pthread, h.State, next) {
			return &Refusal{Strategy: Expose, Instead: Unlink, Why: fmt.Sprintf("the id of handle %s is not in the core", h.Pthread)}
		}
	}
	return nil
}
