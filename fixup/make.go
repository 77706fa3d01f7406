package fixup

import (
	"cmp"
	"fmt"
	"maps"
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
	// StaticTLS gives the modules of the process whose thread-locals have a
	// fixed place beside each thread's descriptor. RemapTLS, and nothing else,
	// asks for them, and refuses without.
	StaticTLS func() ([]TLSModule, error)
}

// Make decides the edit that makes debuggers right about a core. It writes
// nothing. A plan without patches means that there is nothing to repair; the
// error is a *Refusal where the strategy cannot work on this core.
func Make(r *diagnose.Report, o Options) (*Plan, error) {
	if o.Strategy == "" {
		o.Strategy = Retire
	}
	m := newMaker(r, o)
	for _, step := range []func() error{m.closeLists, m.renameLiving, m.repairGone, m.correctPointers} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	plan := &Plan{Strategy: string(o.Strategy), Patches: slices.AppendSeq(m.notes, maps.Values(m.patches))}
	slices.SortFunc(plan.Patches, func(a, b Patch) int { return cmp.Compare(a.Offset, b.Offset) })
	id, err := Identify(r.Core, r.Core.Size, plan.Patches)
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
	// threads finds a thread by its id; living are the nodes of the
	// descriptors that threads run on.
	threads map[int]int
	living  map[elfcore.Addr]bool

	// patches are what is planned for the memory, by address; notes is what is
	// planned for the notes.
	patches map[elfcore.Addr]Patch
	notes   []Patch
	// closed are the members, in order, that each list will have after
	// closeLists; order is where each will stand in libthread_db's iteration.
	closed map[nptl.ListKind][]elfcore.Addr
	order  map[elfcore.Addr]int
}

func newMaker(r *diagnose.Report, o Options) *maker {
	m := &maker{
		Report: r, options: o, c: r.Core, p: r.Process, w: uint64(r.Core.Arch.WordSize()),
		threads: make(map[int]int), living: make(map[elfcore.Addr]bool),
		patches: make(map[elfcore.Addr]Patch),
		closed:  make(map[nptl.ListKind][]elfcore.Addr), order: make(map[elfcore.Addr]int),
	}
	for i := range r.Core.Threads {
		if _, twice := m.threads[r.Core.Threads[i].TID]; !twice {
			m.threads[r.Core.Threads[i].TID] = i
		}
	}
	for _, h := range r.Process.Handles {
		if h.Owner >= 0 {
			m.living[h.Node] = true
		}
	}
	return m
}

// listed tells whether a handle is on one of the lists that libthread_db walks.
func listed(h *nptl.Handle) bool { return h.List == nptl.StackUser || h.List == nptl.StackUsed }

// patch plans to write n bytes (4 or 8) at an address, in place of what was
// planned for it before. A value that is there already needs no patch. It tells
// whether the core holds these bytes.
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
		delete(m.patches, a)
		return true
	}
	m.patches[a] = Patch{Address: a, Offset: offset, Old: old, New: patched, Reason: fmt.Sprintf(reason, args...)}
	return true
}

// setID plans to give a handle an id.
func (m *maker) setID(h *nptl.Handle, id int, reason string, args ...any) bool {
	return m.patch(h.Node+elfcore.Addr(m.p.Layout.TID), uint64(uint32(int32(id))), 4, reason, args...)
}

// renameLiving gives each living thread's handle its owner's id, and its
// process's where glibc filters by that.
func (m *maker) renameLiving() error {
	for i, h := range m.p.Handles {
		if h.Owner < 0 || !listed(h) {
			continue
		}
		tid := m.c.Threads[h.Owner].TID
		if m.Debugger.Reported[i] != tid {
			if !m.setID(h, tid, "handle %s is of thread %d: give it that id", h.Pthread, tid) {
				return m.refuse("", "the id in the descriptor of thread %d at %s is not in the core", tid, h.Pthread)
			}
		}
		if m.passedOver(h) {
			m.patch(h.Node+elfcore.Addr(m.p.Layout.PID), uint64(uint32(int32(m.c.Process.PID))), 4,
				"handle %s: libthread_db of glibc up to 2.24 passes over handles of another process id", h.Pthread)
		}
	}
	return nil
}

// passedOver tells whether libthread_db of glibc up to 2.24 passes over a handle,
// because it carries another process id.
func (m *maker) passedOver(h *nptl.Handle) bool {
	return m.p.Layout.PID != 0 && m.c.Process != nil && h.PID != m.c.Process.PID
}

// refuse says what stands in the way of the strategy, and which one can work.
func (m *maker) refuse(instead Strategy, why string, args ...any) error {
	return &Refusal{Strategy: m.options.Strategy, Instead: instead, Why: fmt.Sprintf(why, args...)}
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
	// A descriptor that is on two lists at once has two handles; what a thread
	// runs on is not gone.
	if m.living[h.Node] || h.State == nptl.Retired || h.State == nptl.UnknownState || !listed(h) {
		return false
	}
	if m.options.All {
		return true
	}
	place, reached := m.order[h.Node]
	t, ok := m.threads[m.Debugger.Reported[i]]
	if !reached || !ok || m.passedOver(h) {
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
			return m.refuse(Unlink, "the id of handle %s is not in the core", h.Pthread)
		}
	}
	return nil
}

// expose sets ids to numbers that no thread and no handle has. A handle that
// gdb shows already, since its id is of no thread, keeps it.
func (m *maker) expose(gone []int) error {
	first := make(map[int]int) // the handle that gdb takes for an id
	for i, id := range m.Debugger.Reported {
		if _, twice := first[id]; !twice {
			first[id] = i
		}
	}
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
		id := m.Debugger.Reported[i]
		if _, thread := m.threads[id]; !thread && id > 0 && first[id] == i {
			continue
		}
		for used[next] || next <= 0 || next > 1<<30 {
			next = (next + 1) & (1<<30 - 1)
		}
		used[next] = true
		h := m.p.Handles[i]
		if !m.setID(h, next, "handle %s: its thread is gone (%s); gdb will show it as LWP %d, an id that no thread has", h.Pthread, h.State, next) {
			return m.refuse(Unlink, "the id of handle %s is not in the core", h.Pthread)
		}
	}
	return nil
}
