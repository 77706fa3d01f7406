package fixup

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// TLSModule is a module whose thread-locals have a fixed place beside each
// thread's descriptor (static TLS).
type TLSModule struct {
	// Name is for people.
	Name string
	// ID is its number in dtvs, counted from 1, and Generation that of its
	// slot in the loader's list (struct dtv_slotinfo of elf/dl-tls.c).
	ID, Generation uint64
}

// remapTLS points the dtv of each handle at that of the thread that it stands
// for.
func (m *maker) remapTLS(gone []int) error {
	if m.options.StaticTLS == nil {
		return m.refuse(Retire, "the modules with thread-locals are not known")
	}
	modules, err := m.options.StaticTLS()
	switch {
	case err != nil:
		return m.refuse(Retire, "%v", err)
	case len(modules) == 0:
		return m.refuse(Retire, "no module with thread-locals was found")
	}
	for _, i := range gone {
		h := m.p.Handles[i]
		tid := m.Debugger.Reported[i]
		t, ok := m.threads[tid]
		if !ok {
			continue // it stands for no thread of the core
		}
		own := m.p.Threads[t].Pthread
		if own == 0 {
			return m.refuse(Retire, "thread %d has no descriptor of its own to take the dtv from", tid)
		}
		from, ok := m.DTVPointer(own)
		if !ok {
			return m.refuse(Retire, "the core does not show where the dtv pointers are")
		}
		dtv, err := m.c.Word(from)
		if err != nil || dtv == 0 {
			return m.refuse(Retire, "the dtv of thread %d is not in the core", tid)
		}
		if why := m.besideDTV(elfcore.Addr(dtv), modules); why != "" {
			return m.refuse(Retire, "%s for thread %d: libthread_db would look for that module's variables beside handle %s", why, tid, h.Pthread)
		}
		to, _ := m.DTVPointer(h.Pthread)
		if !m.patch(to, dtv, m.w, "handle %s stands for thread %d: point its dtv at that thread's", h.Pthread, tid) {
			return m.refuse(Retire, "the descriptor of handle %s is not whole in the core", h.Pthread)
		}
	}
	return nil
}

// besideDTV names a module that libthread_db would not look up in a dtv, empty
// for none: since glibc 2.22 td_thr_tlsbase takes the static place beside the
// descriptor where the slot is unset (bit 0) or the dtv older than the slot, as
// both are in threads that were there before the module was. A dtv is {length},
// {generation}, then {block, to_free} a module, two words each; its pointer is
// that of the generation (sysdeps/generic/dl-dtv.h).
func (m *maker) besideDTV(dtv elfcore.Addr, modules []TLSModule) string {
	generation, err := m.c.Word(dtv)
	if err != nil {
		return "the dtv is not in the core"
	}
	length, err := m.c.Word(dtv - elfcore.Addr(2*m.w))
	if err != nil {
		return "the dtv is not in the core"
	}
	for _, x := range modules {
		var block uint64
		if x.ID <= length {
			if block, err = m.c.Word(dtv + elfcore.Addr(2*m.w*x.ID)); err != nil {
				return "the dtv is not in the core"
			}
		}
		if generation < x.Generation || block == 0 || block&1 != 0 {
			return fmt.Sprintf("the dtv has no block of %s", x.Name)
		}
	}
	return ""
}
