package diagnose_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// found is a finding in what scripts rely on.
type found struct {
	ID       diagnose.ID
	Severity diagnose.Severity
	Cause    string
	Fixable  bool
	TIDs     []int
	Pthreads []elfcore.Addr
}

// findings are those of a report but libthread-db, which nearly all have.
func findings(t *testing.T, r *diagnose.Report) []found {
	t.Helper()
	var out []found
	for _, f := range r.Findings {
		if f.Summary == "" || strings.HasSuffix(f.Summary, ".") {
			t.Errorf("%s: the summary is no headline: %q", f.ID, f.Summary)
		}
		if f.ID != diagnose.LibthreadDB {
			out = append(out, found{f.ID, f.Severity, f.Cause, f.Fixable, f.TIDs, f.Pthreads})
		}
	}
	return out
}

// TestFindings: what is found in each case, and the verdict that follows.
func TestFindings(t *testing.T) {
	two := notes{tids: []int{100, 101}, pid: 100, ppid: 50}
	shadow := func(cause string, pthread elfcore.Addr) found {
		return found{diagnose.ShadowedThread, diagnose.Error, cause, true, []int{100}, []elfcore.Addr{pthread}}
	}
	for name, c := range map[string]struct {
		notes
		handles []handle
		edit    func(p *nptl.Process)
		want    []found
		verdict diagnose.Verdict
	}{
		"healthy": {notes: two, handles: []handle{mainHandle, workerHandle}, verdict: diagnose.Healthy},
		"retired": {
			notes: two, handles: []handle{{pthread: 0xc000, tid: -1, state: nptl.Retired, exiting: true}, mainHandle, workerHandle},
			verdict: diagnose.Healthy,
		},
		"shadowed by a zombie": {
			notes: two, handles: []handle{userZombie, mainHandle, workerHandle},
			want: []found{shadow("zombie", 0xc000)}, verdict: diagnose.Misleading,
		},
		"shadowed by a thread that starts": {
			notes: two, handles: []handle{{pthread: 0xc000, state: nptl.Starting}, mainHandle, workerHandle},
			want: []found{shadow("starting", 0xc000)}, verdict: diagnose.Misleading,
		},
		// Since 2.43 the thread itself clears its id.
		"shadowed by a thread that exits": {
			notes: two, handles: []handle{{pthread: 0xb000, state: nptl.Live, owner: 101, exiting: true}, mainHandle},
			want: []found{
				shadow("exiting", 0xb000),
				{diagnose.HandleIDMismatch, diagnose.Error, "exiting", true, []int{101}, []elfcore.Addr{0xb000}},
			},
			verdict: diagnose.Misleading,
		},
		"shadowed by a thread of another process": {
			notes: two, handles: []handle{{pthread: 0xc000, tid: 100, state: nptl.Foreign}, mainHandle, workerHandle},
			want: []found{shadow("foreign", 0xc000)}, verdict: diagnose.Misleading,
		},
		"child of a raw fork": {
			notes: notes{tids: []int{100}, pid: 100, ppid: 50},
			handles: []handle{
				{pthread: 0xa000, tid: 50, state: nptl.Live, owner: 100, initial: true},
				{pthread: 0xb000, used: true, tid: 51, state: nptl.Foreign},
			},
			want: []found{
				{diagnose.HandleIDMismatch, diagnose.Error, "raw-fork", true, []int{100}, []elfcore.Addr{0xa000}},
				{diagnose.PhantomThread, diagnose.Warning, "", true, []int{51}, []elfcore.Addr{0xb000}},
			},
			verdict: diagnose.Misleading,
		},
		"dumped from outside of its pid namespace": {
			notes: notes{tids: []int{9100, 9101}, pid: 9100, ppid: 50, gcore: true},
			handles: []handle{
				userZombie, {pthread: 0xa000, tid: 2, state: nptl.Live, owner: 9100, initial: true}, {pthread: 0xb000, used: true, tid: 3, state: nptl.Live, owner: 9101},
			},
			want: []found{
				{diagnose.ShadowedThread, diagnose.Error, "zombie", true, []int{9100}, []elfcore.Addr{0xc000}},
				{diagnose.HandleIDMismatch, diagnose.Error, "pid-namespace", true, []int{9100, 9101}, []elfcore.Addr{0xa000, 0xb000}},
			},
			verdict: diagnose.Misleading,
		},
		"main has exited": {
			notes: notes{tids: []int{101}, pid: 100}, handles: []handle{{pthread: 0xa000, state: nptl.Zombie, exiting: true, initial: true}, workerHandle},
			want: []found{{diagnose.PhantomThread, diagnose.Warning, "", true, []int{100}, []elfcore.Addr{0xa000}}}, verdict: diagnose.Warnings,
		},
		"harmless zombies": {
			notes: two, handles: []handle{mainHandle, usedZombie, workerHandle, {pthread: 0xe000, used: true, state: nptl.Zombie, exiting: true}},
			want: []found{{diagnose.ZombieHandle, diagnose.Note, "", true, nil, []elfcore.Addr{0xd000, 0xe000}}}, verdict: diagnose.Healthy,
		},
		"a zombie that shadows is not said to be harmless": {
			notes: two, handles: []handle{userZombie, mainHandle, usedZombie, workerHandle},
			want: []found{
				shadow("zombie", 0xc000), {diagnose.ZombieHandle, diagnose.Note, "", true, nil, []elfcore.Addr{0xd000}},
			},
			verdict: diagnose.Misleading,
		},
		"a thread that glibc does not know": {
			notes: two, handles: []handle{mainHandle},
			want: []found{{diagnose.ThreadWithoutHandle, diagnose.Warning, "", false, []int{101}, nil}}, verdict: diagnose.Warnings,
		},
		"a detached thread that is leaving": {
			notes: two, handles: []handle{mainHandle},
			edit: func(p *nptl.Process) { p.Threads[1].Pthread, p.Threads[1].Leaving = 0xb000, true },
			want: []found{{diagnose.ThreadWithoutHandle, diagnose.Note, "", false, []int{101}, nil}}, verdict: diagnose.Healthy,
		},
		"a thread that is on no list": {
			notes: two, handles: []handle{mainHandle},
			edit: func(p *nptl.Process) { p.Threads[1].Pthread = 0xb000 },
			want: []found{{diagnose.ThreadWithoutHandle, diagnose.Warning, "", false, []int{101}, nil}}, verdict: diagnose.Warnings,
		},
		"no threads of glibc's at all": {
			notes: two, edit: func(p *nptl.Process) { *p = nptl.Process{Threads: p.Threads, Libc: nptl.Libc{Kind: nptl.NoLibc}} }, verdict: diagnose.Healthy,
		},
		"wrong thread pointers": {
			notes: notes{tids: []int{100, 101}, pid: 100, regs: running(0x41)}, handles: []handle{mainHandle, workerHandle},
			edit: func(p *nptl.Process) {
				for i := range p.Threads {
					p.Threads[i].Pointer, p.Threads[i].PointerSource = p.Threads[i].Pthread, nptl.FromHandle
				}
			},
			want: []found{{diagnose.ThreadPointerBad, diagnose.Warning, "", true, []int{100, 101}, []elfcore.Addr{0xa000, 0xb000}}}, verdict: diagnose.Warnings,
		},
		"no registers": {
			notes: notes{tids: []int{100, 101}, pid: 100, regs: []uint64{}}, handles: []handle{mainHandle, workerHandle},
			want: []found{{diagnose.RegistersImplausible, diagnose.Warning, "", false, []int{100, 101}, nil}}, verdict: diagnose.Warnings,
		},
		"memory was not dumped": {
			notes: two, handles: []handle{mainHandle, workerHandle},
			edit: func(p *nptl.Process) {
				p.Lists[1].End, p.Lists[1].Fault = nptl.Unreadable, elfcore.NotDumped
				p.Limits = []nptl.Limit{{Kind: nptl.ListLeaves, Text: "the list goes on", Fault: elfcore.NotDumped}}
			},
			want: []found{{diagnose.CoreFiltered, diagnose.Warning, "", false, nil, nil}}, verdict: diagnose.Limited,
		},
		// What is damaged is not missing.
		"lists were not found in a core that is whole": {
			notes: two, edit: func(p *nptl.Process) {
				p.Lists = []nptl.List{{Kind: nptl.StackCache}}
				p.Limits = []nptl.Limit{{Kind: nptl.HeadsMissing, Text: "neither was found"}}
			},
			verdict: diagnose.Limited,
		},
		"an error is worse than what is not known": {
			notes: two, handles: []handle{userZombie, mainHandle, workerHandle},
			edit: func(p *nptl.Process) {
				p.Limits = []nptl.Limit{{Kind: nptl.RoleUndecided, Text: "a list"}}
			},
			want: []found{shadow("zombie", 0xc000)}, verdict: diagnose.Misleading,
		},
		"what is not known is worse than a warning": {
			notes: two, handles: []handle{mainHandle},
			edit: func(p *nptl.Process) {
				p.Limits = []nptl.Limit{{Kind: nptl.RoleUndecided, Text: "a list"}}
			},
			want: []found{{diagnose.ThreadWithoutHandle, diagnose.Warning, "", false, []int{101}, nil}}, verdict: diagnose.Limited,
		},
	} {
		t.Run(name, func(t *testing.T) {
			core := c.notes.core(t)
			p := process(core, c.handles...)
			if c.edit != nil {
				c.edit(p)
			}
			r := diagnose.Core(core, p)
			if diff := cmp.Diff(c.want, findings(t, r)); diff != "" {
				t.Errorf("(- should be found, + is):\n%s", diff)
			}
			if r.Verdict != c.verdict {
				t.Errorf("verdict %s, should be %s", r.Verdict, c.verdict)
			}
		})
	}
}

// TestBrokenLists: how a list ends says why it is broken. Memory that the core
// lacks is no fault of the list.
func TestBrokenLists(t *testing.T) {
	for _, c := range []struct {
		end   nptl.EndReason
		fault elfcore.FaultReason
		cause string
		said  string
	}{
		{nptl.Cycle, 0, "cycle", "gdb will hang"},
		{nptl.Zero, 0, "zero", "for any thread"},
		{nptl.Zeroes, 0, "zeroes", "for any thread"},
		{nptl.Unreadable, elfcore.Unmapped, "unmapped", "for any thread"},
		{nptl.Unreadable, elfcore.NotDumped, "", ""},
		{nptl.Unreadable, elfcore.Truncated, "", ""},
	} {
		for list := range 2 {
			core := notes{tids: []int{100, 101}, pid: 100}.core(t)
			p := process(core, userZombie, mainHandle, workerHandle)
			p.Lists[list].End, p.Lists[list].Fault, p.Lists[list].At = c.end, c.fault, 0xb2c0
			r := diagnose.Core(core, p)
			broken := r.Find(diagnose.ListBroken)
			if c.cause == "" {
				if len(broken) > 0 {
					t.Errorf("%s, %s: %+v", c.end, c.fault, broken)
				}
				continue
			}
			if len(broken) != 1 || broken[0].Severity != diagnose.Error || broken[0].Cause != c.cause || !broken[0].Fixable ||
				!strings.Contains(broken[0].Summary, c.said) || !strings.Contains(broken[0].Summary, p.Lists[list].Kind.String()) {
				t.Errorf("%s, %s: %+v", c.end, c.fault, broken)
			}
			if r.Verdict != diagnose.Misleading || len(r.Find(diagnose.ShadowedThread)) > 0 {
				t.Errorf("%s: verdict %s, shadows %+v: libthread_db tells gdb nothing", c.end, r.Verdict, r.Find(diagnose.ShadowedThread))
			}
		}
	}
}

// TestOtherListsMayBreak: debuggers do not walk the cache, nor the lists of a
// second libpthread.
func TestOtherListsMayBreak(t *testing.T) {
	core := notes{tids: []int{100, 101}, pid: 100}.core(t)
	p := process(core, mainHandle, workerHandle)
	p.Lists = append(p.Lists, nptl.List{Kind: nptl.StackCache, End: nptl.Cycle}, nptl.List{Kind: nptl.SecondCopy, End: nptl.Zero})
	if r := diagnose.Core(core, p); r.Verdict != diagnose.Healthy {
		t.Errorf("verdict %s: %+v", r.Verdict, r.Findings)
	}
}

// TestOrder: errors come first, then warnings, then notes.
func TestOrder(t *testing.T) {
	core := notes{tids: []int{100, 101}, pid: 100}.core(t)
	p := process(core, userZombie, mainHandle, usedZombie, handle{pthread: 0xe000, used: true, tid: 9, state: nptl.Foreign})
	var order []diagnose.Severity
	for _, f := range diagnose.Core(core, p).Findings {
		order = append(order, f.Severity)
	}
	want := []diagnose.Severity{diagnose.Error, diagnose.Warning, diagnose.Warning, diagnose.Note, diagnose.Note}
	if !slices.Equal(order, want) {
		t.Errorf("severities %v, should be %v", order, want)
	}
}
