package diagnose_test

import (
	"bytes"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// notes says what the notes of a core tell; the core holds no memory.
type notes struct {
	tids      []int
	pid, ppid int // 0 for no NT_PRPSINFO
	gcore     bool
	auxv      []coretest.AuxEntry
	// regs are the first registers of pr_reg of each thread; rip is the 17th,
	// rsp the 20th, fs_base the 22nd.
	regs []uint64
}

// running are registers of a thread that can have run.
func running(fsBase uint64) []uint64 {
	regs := make([]uint64, 22)
	regs[16], regs[19], regs[21] = 0x401000, 0x7ffc0000, fsBase
	return regs
}

func (n notes) core(t *testing.T) *elfcore.Core {
	t.Helper()
	abi := coretest.X86_64
	if n.regs == nil {
		n.regs = running(0)
	}
	var process, threads []coretest.Note
	if n.pid != 0 {
		process = append(process, abi.Prpsinfo(coretest.Prpsinfo{PID: int32(n.pid), PPID: int32(n.ppid)}))
	}
	for _, tid := range n.tids {
		threads = append(threads, abi.Prstatus(int32(tid), 6, n.regs...))
	}
	rest := []coretest.Note{abi.Siginfo(coretest.Siginfo{Signo: 6})}
	if n.auxv != nil {
		rest = append(rest, abi.Auxv(n.auxv...))
	}
	c := coretest.Core{ABI: abi, ExtendedCount: n.gcore}
	if n.gcore || len(threads) == 0 {
		// gdb/linux-tdep.c writes the process first.
		c.Notes = []coretest.NoteSegment{{Notes: append(append(process, threads...), rest...)}}
	} else {
		all := append([]coretest.Note{threads[0]}, process...)
		c.Notes = []coretest.NoteSegment{{Notes: append(append(all, rest...), threads[1:]...)}}
	}
	return openBytes(t, c.Bytes())
}

func openBytes(t *testing.T, b []byte) *elfcore.Core {
	t.Helper()
	core, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// handle is one handle of a process that is not real.
type handle struct {
	pthread  elfcore.Addr
	used     bool // on stack_used, else on stack_user
	tid, pid int
	state    nptl.State
	owner    int // the owner's id in the core, 0 for none
	exiting  bool
	initial  bool
	unplaced bool // its place in the iteration is not known
	stack    uint64
	start    elfcore.Addr
}

// process makes what nptl would say of a core with these handles, of which
// those on stack_user come first.
func process(c *elfcore.Core, hs ...handle) *nptl.Process {
	p := &nptl.Process{Found: true, Libc: nptl.Libc{Kind: nptl.Glibc}, Threads: make([]nptl.Thread, len(c.Threads)), PointerKnown: true}
	for i := range p.Threads {
		p.Threads[i] = nptl.Thread{Handle: -1, PointerSource: nptl.FromNowhere}
	}
	lists := []nptl.List{{Kind: nptl.StackUser}, {Kind: nptl.StackUsed}}
	position := 0
	for i, h := range hs {
		x := &nptl.Handle{
			Pthread: h.pthread, Node: h.pthread + 0x2c0, List: nptl.StackUser, Position: -1, TID: h.tid, PID: h.pid, State: h.state,
			Owner: -1, Initial: h.initial, Proved: true, Whole: true,
		}
		if h.exiting {
			x.CancelHandling = 0x10
		}
		if h.used {
			x.List = nptl.StackUsed
		}
		if h.stack != 0 {
			user := !h.used
			x.UserStack = &user
			x.Stack = &nptl.Stack{Range: elfcore.Range{Start: h.pthread - elfcore.Addr(h.stack), End: h.pthread}}
		}
		if h.start != 0 {
			x.StartRoutine = &h.start
		}
		if !h.unplaced {
			x.Position = position
			position++
			l := &lists[0]
			if h.used {
				l = &lists[1]
			}
			l.Nodes = append(l.Nodes, x.Node)
		}
		for t := range c.Threads {
			if h.owner != 0 && c.Threads[t].TID == h.owner {
				x.Owner = t
				p.Threads[t].Handle, p.Threads[t].Pthread = i, x.Pthread
			}
		}
		p.Handles = append(p.Handles, x)
	}
	p.Lists = lists
	return p
}

// Handles that many tests use, of a process 100 with the threads 100 and 101.
var (
	mainHandle   = handle{pthread: 0xa000, tid: 100, state: nptl.Live, owner: 100, initial: true}
	workerHandle = handle{pthread: 0xb000, used: true, tid: 101, state: nptl.Live, owner: 101}
	userZombie   = handle{pthread: 0xc000, state: nptl.Zombie, exiting: true, stack: 0x1000}
	usedZombie   = handle{pthread: 0xd000, used: true, state: nptl.Zombie, exiting: true, stack: 0x1000}
)
