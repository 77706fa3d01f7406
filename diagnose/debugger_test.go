package diagnose_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// view is what gdb makes of a process: for each thread and phantom the handle
// that it takes, and which handles are wrong.
type view struct {
	Handles map[int]elfcore.Addr // by thread id
	Shadows map[elfcore.Addr]int // the thread that a handle is wrongly taken for
	Phantom map[int]elfcore.Addr
}

func seen(c *elfcore.Core, r *diagnose.Report) view {
	v := view{map[int]elfcore.Addr{}, map[elfcore.Addr]int{}, map[int]elfcore.Addr{}}
	for i, h := range r.Debugger.Handle {
		if h >= 0 {
			v.Handles[c.Threads[i].TID] = r.Process.Handles[h].Pthread
		}
	}
	for i, t := range r.Debugger.Shadows {
		if t >= 0 {
			v.Shadows[r.Process.Handles[i].Pthread] = c.Threads[t].TID
		}
	}
	for _, p := range r.Debugger.Phantoms {
		v.Phantom[p.TID] = r.Process.Handles[p.Handle].Pthread
	}
	return v
}

// TestModel follows td_ta_thr_iter, td_thr_get_info and gdb's
// find_new_threads_callback through one case for each thing that they do.
func TestModel(t *testing.T) {
	two := notes{tids: []int{100, 101}, pid: 100}
	for name, c := range map[string]struct {
		notes
		handles []handle
		edit    func(p *nptl.Process)
		want    view
	}{
		"healthy": {
			notes: two, handles: []handle{mainHandle, workerHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}},
		},
		"stack_user comes first, and the first handle wins": {
			notes: two, handles: []handle{userZombie, mainHandle, workerHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xc000, 101: 0xb000}, Shadows: map[elfcore.Addr]int{0xc000: 100}},
		},
		"a zombie behind main is harmless": {
			notes: two, handles: []handle{mainHandle, usedZombie, workerHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}},
		},
		"in a fork child main's handle is on stack_used": {
			notes:   notes{tids: []int{100}, pid: 100},
			handles: []handle{usedZombie, {pthread: 0xb000, used: true, tid: 100, state: nptl.Live, owner: 100}},
			want:    view{Handles: map[int]elfcore.Addr{100: 0xd000}, Shadows: map[elfcore.Addr]int{0xd000: 100}},
		},
		"-1 is skipped": {
			notes: two, handles: []handle{{pthread: 0xc000, tid: -1, state: nptl.Retired, exiting: true}, mainHandle, workerHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}},
		},
		"-2 is not": {
			notes: two, handles: []handle{{pthread: 0xc000, tid: -2, state: nptl.UnknownState}, mainHandle, workerHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}, Phantom: map[int]elfcore.Addr{-2: 0xc000}},
		},
		"an id without a thread is a phantom, once": {
			notes: two, handles: []handle{
				mainHandle, workerHandle,
				{pthread: 0xc000, used: true, tid: 77, state: nptl.Foreign}, {pthread: 0xd000, used: true, tid: 77, state: nptl.Foreign},
			},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}, Phantom: map[int]elfcore.Addr{77: 0xc000}},
		},
		"main has exited: its id is a phantom": {
			notes: notes{tids: []int{101}, pid: 100}, handles: []handle{
				userZombie, {pthread: 0xa000, state: nptl.Zombie, exiting: true, initial: true}, workerHandle,
			},
			want: view{Handles: map[int]elfcore.Addr{101: 0xb000}, Phantom: map[int]elfcore.Addr{100: 0xc000}},
		},
		"without NT_PRPSINFO the process is 1": {
			notes: notes{tids: []int{100, 101}}, handles: []handle{userZombie, mainHandle, workerHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}, Phantom: map[int]elfcore.Addr{1: 0xc000}},
		},
		"in a container main may be 1": {
			notes: notes{tids: []int{1}}, handles: []handle{userZombie, {pthread: 0xa000, tid: 1, state: nptl.Live, owner: 1}},
			want: view{Handles: map[int]elfcore.Addr{1: 0xc000}, Shadows: map[elfcore.Addr]int{0xc000: 1}},
		},
		"handles without a place are not iterated": {
			notes: two, handles: []handle{{pthread: 0xc000, state: nptl.Zombie, unplaced: true}, mainHandle, workerHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}},
		},
		"a living thread's handle has another's id": {
			notes: two, handles: []handle{mainHandle, {pthread: 0xb000, used: true, tid: 100, state: nptl.Live, owner: 101}},
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000}},
		},
		"and comes before that": {
			notes: two, handles: []handle{{pthread: 0xb000, tid: 100, state: nptl.Live, owner: 101}, mainHandle},
			want: view{Handles: map[int]elfcore.Addr{100: 0xb000}, Shadows: map[elfcore.Addr]int{0xb000: 100}},
		},
		"up to 2.24 handles of another process are passed over": {
			notes: two, handles: []handle{
				{pthread: 0xc000, pid: 50, state: nptl.Zombie, exiting: true},
				{pthread: 0xa000, tid: 100, pid: 100, state: nptl.Live, owner: 100},
				{pthread: 0xb000, used: true, tid: 101, pid: 50, state: nptl.Live, owner: 101},
			},
			edit: func(p *nptl.Process) { p.Layout.PID = 0x14 },
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000}},
		},
		"up to 2.24 a negative pid is about to fork, or has forked": {
			notes: two, handles: []handle{
				{pthread: 0xb000, tid: 101, pid: -100, state: nptl.Live, owner: 101},
				{pthread: 0xa000, tid: 100, pid: -50, state: nptl.Live, owner: 100},
				{pthread: 0xc000, tid: 0, pid: -50, state: nptl.Zombie},
			},
			edit: func(p *nptl.Process) { p.Layout.PID = 0x14 },
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000, 101: 0xb000}},
		},
		"a list that does not close ends all": {
			notes: two, handles: []handle{userZombie, mainHandle, workerHandle},
			edit: func(p *nptl.Process) { p.Lists[1].End = nptl.Zero },
		},
		"two threads with one id": {
			notes: notes{tids: []int{100, 100}, pid: 100}, handles: []handle{mainHandle},
			edit: func(p *nptl.Process) { p.Handles[0].Owner = 0 },
			want: view{Handles: map[int]elfcore.Addr{100: 0xa000}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			core := c.notes.core(t)
			p := process(core, c.handles...)
			if c.edit != nil {
				c.edit(p)
			}
			for _, m := range []*map[int]elfcore.Addr{&c.want.Handles, &c.want.Phantom} {
				if *m == nil {
					*m = map[int]elfcore.Addr{}
				}
			}
			if c.want.Shadows == nil {
				c.want.Shadows = map[elfcore.Addr]int{}
			}
			if diff := cmp.Diff(c.want, seen(core, diagnose.Core(core, p))); diff != "" {
				t.Errorf("(- what gdb does, + the model):\n%s", diff)
			}
		})
	}
}

// TestReported: what libthread_db reports for a handle does not depend on
// whether gdb asks.
func TestReported(t *testing.T) {
	core := notes{tids: []int{100}, pid: 100}.core(t)
	r := diagnose.Core(core, process(core, userZombie, handle{pthread: 0x1000, tid: -1}, handle{pthread: 0x2000, tid: 7}, mainHandle))
	if diff := cmp.Diff([]int{100, -1, 7, 100}, r.Debugger.Reported); diff != "" {
		t.Error(diff)
	}
}

// TestThreadDebugging: whether libthread_db opens a process, and why not.
func TestThreadDebugging(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(p *nptl.Process)
		auxv  []coretest.AuxEntry
		opens bool
		why   string // part of the reason
	}{
		"healthy":       {opens: true},
		"empty user":    {edit: func(p *nptl.Process) { p.Lists = p.Lists[1:] }, opens: true},
		"cycle":         {edit: func(p *nptl.Process) { p.Lists[0].End = nptl.Cycle }, why: "hangs"},
		"zero":          {edit: func(p *nptl.Process) { p.Lists[1].End = nptl.Zero }, why: "stack_used does not close"},
		"zeroes":        {edit: func(p *nptl.Process) { p.Lists[1].End = nptl.Zeroes }, why: "stack_used does not close"},
		"unreadable":    {edit: func(p *nptl.Process) { p.Lists[0].End = nptl.Unreadable }, why: "stack_user does not close"},
		"no lists":      {edit: func(p *nptl.Process) { p.Lists = nil }, why: "not found"},
		"only a cache":  {edit: func(p *nptl.Process) { p.Lists = []nptl.List{{Kind: nptl.StackCache}} }, why: "not found"},
		"no threads":    {edit: func(p *nptl.Process) { *p = nptl.Process{Threads: p.Threads} }, why: "does not use"},
		"not in core":   {edit: func(p *nptl.Process) { *p = nptl.Process{Threads: p.Threads, Limits: []nptl.Limit{{}}} }, why: "not found"},
		"musl":          {edit: func(p *nptl.Process) { *p = nptl.Process{Threads: p.Threads, Libc: nptl.Libc{Kind: nptl.Musl}} }, why: "musl"},
		"static":        {auxv: []coretest.AuxEntry{{Type: 9, Value: 0x400000}}, opens: true, why: "not stripped"},
		"dynamic":       {auxv: []coretest.AuxEntry{{Type: 7, Value: 0x7f0000}}, opens: true},
		"libpthread":    {edit: func(p *nptl.Process) { p.Libc.Min, p.Libc.Max = 24, 31 }, opens: true, why: "libpthread was not stripped"},
		"no libpthread": {edit: func(p *nptl.Process) { p.Libc.Min, p.Libc.Max = 34, 41 }, opens: true},
	} {
		t.Run(name, func(t *testing.T) {
			core := notes{tids: []int{100, 101}, pid: 100, auxv: c.auxv}.core(t)
			p := process(core, mainHandle, workerHandle)
			if c.edit != nil {
				c.edit(p)
			}
			d := diagnose.Core(core, p).Debugger
			if d.ThreadDebugging != c.opens || !strings.Contains(d.Reason, c.why) || c.why == "" && d.Reason != "" {
				t.Errorf("thread debugging %v because %q, should be %v because %q", d.ThreadDebugging, d.Reason, c.opens, c.why)
			}
		})
	}
}
