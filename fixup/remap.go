package fixup

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// maxModules bounds the slots of a dtv that are looked at.
const maxModules = 1 << 16

// remapTLS points the dtv of each handle at that of the thread that it stands
// for. libthread_db takes a variable's block from the dtv, but relative to the
// handle itself where the dtv's slot is unset or older than the module
// (td_thr_tlsbase since glibc 2.22), so that a thread with such a slot cannot be
// helped this way.
func (m *maker) remapTLS(gone []int) error {
	refuse := func(format string, args ...any) error {
		return &Refusal{Strategy: RemapTLS, Instead: Retire, Why: fmt.Sprintf(format, args...)}
	}
	if !m.p.PointerKnown {
		return refuse("the cores of %s do not show where the dtv pointer is", m.c.Arch.Name)
	}
	for _, i := range gone {
		h := m.p.Handles[i]
		own, tid := m.owner(m.Debugger.Reported[i])
		if own == 0 {
			if m.options.All {
				continue
			}
			return refuse("thread %d has no descriptor of its own to take the dtv from", tid)
		}
		dtv, err := m.c.Word(m.dtvPointer(own))
		if err != nil || dtv == 0 {
			return refuse("the dtv of thread %d is not in the core", tid)
		}
		if why := m.unsetSlot(elfcore.Addr(dtv)); why != "" {
			return refuse("%s of thread %d, so libthread_db would look for that module's variables relative to handle %s", why, tid, h.Pthread)
		}
		if !m.patch(m.dtvPointer(h.Pthread), dtv, m.w, "handle %s stands for thread %d: point its dtv at that thread's", h.Pthread, tid) {
			return refuse("the descriptor of handle %s is not whole in the core", h.Pthread)
		}
	}
	return nil
}

// owner is the descriptor of the thread with an id, 0 for none.
func (m *maker) owner(tid int) (elfcore.Addr, int) {
	i, ok := m.threads[tid]
	if !ok {
		return 0, tid
	}
	return m.p.Threads[i].Pthread, tid
}

// dtvPointer is where the descriptor at pd keeps the address of its dtv.
func (m *maker) dtvPointer(pd elfcore.Addr) elfcore.Addr {
	tls := m.c.Arch.TLS
	return pd + elfcore.Addr(m.p.PointerDistance-int64(tls.Bias)+tls.DTV)
}

// unsetSlot describes a slot of a dtv that names no block although a module has
// it, empty for none. A dtv is {length}, {generation}, then {block, to_free} a
// module, two words each, and its pointer is that of the generation
// (sysdeps/generic/dl-dtv.h). Slots that no module ever had are 0 to the end.
func (m *maker) unsetSlot(dtv elfcore.Addr) string {
	length, err := m.c.Word(dtv - elfcore.Addr(2*m.w))
	if err != nil || length > maxModules {
		return "the dtv cannot be read"
	}
	empty := uint64(0)
	for id := uint64(1); id <= length; id++ {
		block, err := m.c.Word(dtv + elfcore.Addr(2*m.w*id))
		switch {
		case err != nil:
			return "the dtv cannot be read"
		case block == 0:
			if empty == 0 {
				empty = id
			}
		case empty != 0:
			return fmt.Sprintf("module %d has no block in the dtv", empty)
		case block&1 != 0:
			return fmt.Sprintf("module %d has no block in the dtv", id)
		}
	}
	return ""
}
