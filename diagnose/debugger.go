package diagnose

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// Debugger is what gdb makes of the threads of a core, if it finds a
// libthread_db of the core's glibc: td_ta_thr_iter walks stack_user and then
// stack_used, td_thr_get_info gives an id for each handle, and gdb keeps the
// first handle that it sees for an id (find_new_threads_callback in
// gdb/linux-thread-db.c, the same since 2010).
type Debugger struct {
	// ThreadDebugging tells whether libthread_db opens the process at all;
	// Reason says why not, or on what it depends.
	ThreadDebugging bool
	Reason          string
	// Handle is, for each thread of the core, the index of the handle that gdb
	// takes for it, −1 for none.
	Handle []int
	// Reported is, for each handle, the id that libthread_db reports.
	Reported []int
	// Shadows is, for each handle, the index of the thread that gdb wrongly
	// identifies with it, −1 for none.
	Shadows []int
	// Phantoms are threads that gdb will show although the core has none.
	Phantoms []Phantom
}

// Phantom is an LWP that gdb adds because a handle's id belongs to no thread.
type Phantom struct {
	TID    int
	Handle int
}

// corelowPID is CORELOW_PID of gdb/corelow.c: the process id that gdb makes up
// for a core without NT_PRPSINFO.
const corelowPID = 1

// model runs gdb's part over the handles.
func model(c *elfcore.Core, p *nptl.Process) Debugger {
	d := Debugger{
		Handle:   make([]int, len(c.Threads)),
		Reported: make([]int, len(p.Handles)),
		Shadows:  make([]int, len(p.Handles)),
	}
	pid := corelowPID
	if c.Process != nil {
		pid = c.Process.PID
	}
	for i, h := range p.Handles {
		d.Reported[i], d.Shadows[i] = h.TID, -1
		if h.TID == 0 {
			d.Reported[i] = pid
		}
	}
	for i := range d.Handle {
		d.Handle[i] = -1
	}
	if d.ThreadDebugging, d.Reason = opens(c, p); !d.ThreadDebugging {
		return d
	}
	thread := make(map[int]int, len(c.Threads))
	for i := range c.Threads {
		if _, twice := thread[c.Threads[i].TID]; !twice {
			thread[c.Threads[i].TID] = i
		}
	}
	seen := make(map[int]bool, len(thread))
	for i, h := range p.Handles {
		id := d.Reported[i]
		// gdb skips −1 since 7.9 (glibc bug 17707).
		if h.Position < 0 || id == -1 || p.Layout.PID != 0 && !ofProcess(h, pid) || seen[id] {
			continue
		}
		seen[id] = true
		t, ok := thread[id]
		if !ok {
			d.Phantoms = append(d.Phantoms, Phantom{TID: id, Handle: i})
			continue
		}
		d.Handle[t] = i
		if h.Owner != t {
			d.Shadows[i] = t
		}
	}
	return d
}

// ofProcess tells whether libthread_db up to 2.24 takes a handle for one of this
// process, by the member pid. That of a thread which is about to fork is
// negative, and stays so in the child of _Fork, whose id is then in tid
// (nptl_db/td_ta_thr_iter.c).
func ofProcess(h *nptl.Handle, pid int) bool {
	switch {
	case h.PID >= 0:
		return h.PID == pid
	case -h.PID == pid:
		return true
	}
	return h.TID == pid
}

// opens tells whether libthread_db can list the threads, and why not or on what
// that depends.
func opens(c *elfcore.Core, p *nptl.Process) (bool, string) {
	if !p.Found {
		switch {
		case p.Libc.Kind == nptl.Musl:
			return false, "musl has no libthread_db"
		case len(p.Limits) > 0:
			return false, "the lists of threads were not found"
		}
		return false, "the process does not use glibc's threads"
	}
	user, used := p.List(nptl.StackUser), p.List(nptl.StackUsed)
	if user == nil && used == nil {
		return false, "the lists of threads were not found"
	}
	for _, l := range []*nptl.List{user, used} {
		if l == nil || l.End == nptl.Closed {
			continue
		}
		if l.End == nptl.Cycle {
			return false, fmt.Sprintf("%s never ends: gdb hangs while it loads the core", l.Kind)
		}
		return false, fmt.Sprintf("%s does not close: libthread_db refuses the process", l.Kind)
	}
	switch {
	case len(c.Auxv) > 0 && c.Auxv[elfcore.AuxBase] == 0:
		return true, "only if the program was not stripped: libthread_db finds the lists of a static program by its symbol table"
	case p.Libc.Max != 0 && p.Libc.Max <= 33:
		return true, "only if libpthread was not stripped: up to glibc 2.33 libthread_db finds the lists by its symbol table"
	}
	return true, ""
}
