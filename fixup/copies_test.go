package fixup

import (
	"bytes"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// Where the parts of a process with two libpthreads of glibc 2.31 are: offsets
// from the library's start are those of its symbols, rounded.
const (
	firstLibpthread  = 0x7f0000100000
	secondLibpthread = 0x7f0000080000
	usedAt           = 0x1d2d0
	cacheAt          = usedAt + 16
	userAt           = 0x213c0
	mainPthread      = 0x7f0000200740
	mainNode         = mainPthread + listOffset
)

// twoLibpthreads is a process whose initial thread the second libpthread has
// linked into its own stack_user: from the first one's head the way leads to it,
// and from there round the second one's head for ever.
func twoLibpthreads() *coretest.Core {
	abi := coretest.X86_64
	c := &coretest.Core{ABI: abi}
	var files []coretest.FileMapping
	for _, base := range []uint64{secondLibpthread, firstLibpthread} {
		text := make([]byte, 0x1000)
		copy(text, "\x7fELF")
		c.Loads = append(c.Loads,
			coretest.Load{Addr: base, Data: text, Flags: coretest.RX},
			coretest.Load{Addr: base + 0x1d000, Data: make([]byte, 0x1000), Flags: coretest.RW},
			coretest.Load{Addr: base + 0x1e000, Data: make([]byte, 0x4000), Flags: coretest.RW})
		files = append(files,
			coretest.FileMapping{Start: base, End: base + 0x1000, Path: "/usr/lib/libpthread-2.31.so"},
			coretest.FileMapping{Start: base + 0x1d000, End: base + 0x1e000, Offset: 0x1c, Path: "/usr/lib/libpthread-2.31.so"})
	}
	c.Loads = append(c.Loads, coretest.Load{Addr: 0x7f0000200000, Data: make([]byte, 0x2000), Flags: coretest.RW})
	regs := make([]uint64, 27)
	regs[16], regs[19], regs[21] = 0x401000, 0x7f0000200100, mainPthread // rip, rsp, fs_base
	c.Notes = []coretest.NoteSegment{{Notes: []coretest.Note{
		abi.Prstatus(100, 6, regs...), abi.Prpsinfo(coretest.Prpsinfo{PID: 100, Command: "program"}), abi.File(0x1000, files...),
	}}}
	ring := func(nodes ...uint64) {
		for i, n := range nodes {
			c.Poke(n, nodes[(i+1)%len(nodes)])
			c.Poke(nodes[(i+1)%len(nodes)]+8, n)
		}
	}
	for _, base := range []uint64{firstLibpthread, secondLibpthread} {
		ring(base + usedAt)
		ring(base + cacheAt)
	}
	ring(firstLibpthread+userAt, mainNode)
	ring(secondLibpthread+userAt, mainNode)
	// struct pthread of 2.31, nptl/descr.h.
	c.Poke(mainPthread, mainPthread)
	c.Poke(mainPthread+0x10, mainPthread)
	c.Poke32(mainPthread+0x2d0, 100)                  // tid
	c.Poke(mainPthread+0x2e0, mainPthread+0x2e0)      // robust_head.list
	c.Poke(mainPthread+0x2e8, 1<<64-32)               // its futex_offset
	c.Poke(mainPthread+0x510, mainPthread+0x310)      // specific[0]
	c.Poke32(mainPthread+0x610, 1<<16)                // user_stack
	c.Poke(mainPthread+0x698, uint64(0x7f0000201000)) // stackblock_size
	return c
}

// TestSecondLibpthread closes the list that a second libpthread has broken, and
// takes the initial thread out of that one's, so that the repaired core can be
// read again, by this tool as by gdb.
func TestSecondLibpthread(t *testing.T) {
	b := twoLibpthreads().Bytes()
	c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	r := diagnose.Core(c, nptl.Read(c, nil))
	broken := r.Find(diagnose.ListBroken)
	if len(broken) != 1 || broken[0].Cause != "cycle" {
		t.Fatalf("the findings are %+v", r.Findings)
	}
	plan, err := Make(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[elfcore.Addr]uint64{
		mainNode:                      firstLibpthread + userAt,
		secondLibpthread + userAt:     secondLibpthread + userAt,
		secondLibpthread + userAt + 8: secondLibpthread + userAt,
	}
	for _, p := range plan.Patches {
		if value, ok := want[p.Address]; !ok || c.ByteOrder.Uint64(p.New) != value {
			t.Errorf("at %s %x becomes %x: %s", p.Address, p.Old, p.New, p.Reason)
		}
		delete(want, p.Address)
	}
	if len(want) > 0 {
		t.Errorf("nothing is written at %v", want)
	}
	after, err := Preview(c, nil, plan)
	if err != nil {
		t.Fatal(err)
	}
	if user := after.Process.List(nptl.StackUser); after.Verdict != diagnose.Healthy || user == nil || user.Head != firstLibpthread+userAt {
		t.Errorf("afterwards the verdict is %s, stack_user %+v, and the findings are %+v", after.Verdict, user, after.Findings)
	}
}
