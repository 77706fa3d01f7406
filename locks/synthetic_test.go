package locks_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// Threads of the synthetic cores, and where their memory is.
const (
	caller   = 1001 // blocked in the futex call
	neighbor = 1002 // runs
	data     = 0x10000
	stack    = 0x20000
)

// Operations and results that the kernel leaves (linux/futex.h, linux/errno.h).
const (
	wait        = 0
	lockPI      = 6
	waitBitset  = 9
	private     = 128
	realtime    = 256
	restart     = -512 // ERESTARTSYS
	restartPI   = -513 // ERESTARTNOINTR
	restartTime = -516 // ERESTART_RESTARTBLOCK
)

// blockedCall is a futex call of one thread in a core that is otherwise bare:
// there is no libc, so that bytes and registers are all there is.
type blockedCall struct {
	address, value uint64
	op             uint64
	timed          bool
	// memory are the 32-bit words from data on, stackWords those of 64 bits from
	// the stack pointer on.
	memory     []uint32
	stackWords []uint64
}

// heap is a second piece of memory, where Go's heap begins.
const heap = 0xc000100000

// amd64 makes the core; user_regs_struct (asm/user_64.h) has the registers.
func (x blockedCall) amd64() *coretest.Core {
	const r10, rax, rdx, rsi, rdi, origRax, rsp, count = 7, 10, 12, 13, 14, 15, 19, 27
	regs := make([]uint64, count)
	regs[rdi], regs[rsi], regs[rdx], regs[origRax], regs[rsp] = x.address, x.op, x.value, 202, stack
	result := int64(restart)
	if x.timed {
		regs[r10], result = stack+0x800, restartTime
	}
	if x.op&^private == lockPI {
		result = restartPI
	}
	regs[rax] = uint64(result)
	return x.core(coretest.X86_64, regs)
}

// aarch64 makes the core as the kernel leaves a blocked thread there: x0 is put
// back, and there is no result.
func (x blockedCall) aarch64() *coretest.Core {
	regs := make([]uint64, 34)
	regs[0], regs[1], regs[2], regs[8], regs[31] = x.address, x.op, x.value, 98, stack
	return x.core(coretest.AArch64, regs)
}

func (x blockedCall) core(abi coretest.ABI, regs []uint64) *coretest.Core {
	memory, words := make([]byte, 0x1000), make([]byte, 0x1000)
	for i, word := range x.memory {
		abi.Order.PutUint32(memory[4*i:], word)
	}
	for i, word := range x.stackWords {
		abi.Order.PutUint64(words[8*i:], word)
	}
	return &coretest.Core{ABI: abi,
		Notes: []coretest.NoteSegment{{Notes: []coretest.Note{
			abi.Prstatus(neighbor, 6), abi.Prpsinfo(coretest.Prpsinfo{PID: 1000, PPID: 1}), abi.Prstatus(caller, 0, regs...),
		}}},
		Loads: []coretest.Load{{Addr: data, Data: memory, Flags: coretest.RW}, {Addr: stack, Data: words, Flags: coretest.RW}, {Addr: heap, Data: make([]byte, 0x30000), Flags: coretest.RW}},
	}
}

func read(t testing.TB, c *coretest.Core) dead {
	t.Helper()
	b := c.Bytes()
	core, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	set, err := module.Load(t.Context(), core, module.Config{NoHostFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	return dead{core, nptl.Read(core, nil), set}
}

// mutex is a pthread_mutex_t of a 64-bit system without its list.
func mutex(lock, count, owner, users, kind uint32) []uint32 {
	return []uint32{lock, count, owner, users, kind, 0, 0, 0, 0, 0}
}

const (
	robustKind = 16 | 128
	piKind     = 32
	waitersBit = 0x80000000
	ownerDied  = 0x40000000
)

// TestForeignWords has words of other libraries beside bytes that look like
// pthread objects: they must not be taken for those.
func TestForeignWords(t *testing.T) {
	pi := func(kind uint32, owner uint32) []uint32 { return mutex(waitersBit|owner, 1, owner, 1, kind) }
	for name, x := range map[string]blockedCall{
		"Go mutex, a pointer behind it":                          {data, 2, wait | private, false, []uint32{2, 0, 0x00123456, heap >> 32, 0, 0}, nil},
		"Go mutex, an interface behind it":                       {data, 2, wait | private, false, []uint32{2, 0, 0x004a5b60, 0, 0x00123456, 0xc0}, nil},
		"Rust mutex, like a locked mutex":                        {data, 2, waitBitset | private, false, mutex(2, 0, neighbor, 1, 0), nil},
		"Rust rwlock":                                            {data, 0xffffffff, waitBitset | private, false, mutex(0xffffffff, 0, neighbor, 1, robustKind), nil},
		"C++ future, like a robust mutex":                        {data, 0x80000000, wait, false, mutex(0x80000000, 0, neighbor, 1, robustKind), nil},
		"private word, like a robust mutex":                      {data, waitersBit | neighbor, wait | private, false, mutex(waitersBit|neighbor, 1, neighbor, 1, robustKind), nil},
		"shared word, like a private mutex":                      {data, 2, wait, false, mutex(2, 0, neighbor, 1, 0), nil},
		"mutex with an owner that is no id":                      {data, 2, wait | private, false, mutex(2, 0, 0x00b5c6d7, 1, 0), nil},
		"mutex with something in its list":                       {data, 2, wait | private, false, []uint32{2, 0, neighbor, 1, 0, 0, 0, 1, 0, 0}, nil},
		"like a rwlock, without its clock":                       {data + 8, 2, waitBitset | private, false, []uint32{8, 0, 2, 0, 0, 0, 0}, nil},
		"like a rwlock, wrong kind of futex":                     {data + 8, 2, waitBitset | realtime, false, []uint32{8, 0, 2, 0, 0, 0, 0}, nil},
		"like a barrier, wrong kind of futex":                    {data + 4, 7, wait | private, false, []uint32{8, 7, 2, 128, 0}, nil},
		"a semaphore of absl on the stack":                       {stack + 0x40, 0, waitBitset | realtime | private, false, nil, nil},
		"beside a healthy PI mutex":                              {stack + 0x40, 0, waitBitset | realtime | private, false, pi(piKind, neighbor), []uint64{0, data}},
		"beside a recursive PI mutex it holds":                   {stack + 0x40, 0, waitBitset | realtime | private, false, pi(piKind|1, caller), []uint64{0, data}},
		"far up the stack":                                       {stack + 0x900, 0, waitBitset | realtime | private, false, pi(piKind, 77), []uint64{0, data}},
		"like a condition variable before 2.25, woken too often": {data + 4, 9, wait | private, false, append([]uint32{0, 9, 3, 0, 4, 0, 1, 0, data + 0x100, 0, 4, 0}, make([]uint32, 80)...), nil},
		"LOCK_PI of its own":                                     {data, 0, lockPI | private, false, mutex(waitersBit|neighbor, 0, 0, 0, 0xffff), nil},
	} {
		d := read(t, x.amd64())
		r := d.analyze()
		if len(r.Waits) != 1 || r.Waits[0].Kind != locks.RawFutex || len(r.Verdicts) != 0 {
			t.Errorf("%s: %v, %s", name, described(d.core, r, nil), summaries(r))
		}
	}
}

// TestBytesAlone has objects of the C library in a core without any of its
// descriptors: layouts of versions that no longer run here, and states that last
// for a moment.
func TestBytesAlone(t *testing.T) {
	oldCond := append([]uint32{0, 9, 4, 0, 1, 0, 1, 0, data + 0x100, 0, 6, 1}, make([]uint32, 80)...)
	oldShared := append(slices.Clone(oldCond[:8]), 0xffffffff, 0xffffffff, 6, 1)
	for name, x := range map[string]struct {
		call blockedCall
		want string
	}{
		"mutex": {blockedCall{data, 2, wait | private, false, mutex(2, 0, neighbor, 1, 0), nil},
			"1001: mutex 0x10000 mutex 0x0 owner 1002 live timed false futex 0x10000"},
		"mutex, shared": {blockedCall{data, 2, wait, false, mutex(2, 0, neighbor, 1, 128), nil},
			"1001: mutex 0x10000 mutex 0x0 owner 1002 live timed false futex 0x10000"},
		"mutex with elision": {blockedCall{data, 2, wait | private, false, mutex(2, 0, neighbor, 1, 256), nil},
			"1001: mutex 0x10000 mutex 0x0 owner 1002 live timed false futex 0x10000"},
		"mutex, owner gone": {blockedCall{data, 2, wait | private, false, mutex(2, 0, 77, 1, 0), nil},
			"1001: mutex 0x10000 mutex 0x0 owner 77 not-in-core timed false futex 0x10000\nowner-not-in-core [1001]"},
		"mutex of another process": {blockedCall{data, 2, wait, false, mutex(2, 0, 77, 1, 128), nil},
			"1001: mutex 0x10000 mutex 0x0 owner 77 not-in-core timed false futex 0x10000"},
		"mutex, its own": {blockedCall{data, 2, wait | private, false, mutex(2, 0, caller, 1, 0), nil},
			"1001: mutex 0x10000 mutex 0x0 owner 1001 live timed false futex 0x10000\nself-deadlock [1001]"},
		"PI mutex that changes hands": {blockedCall{data, 0, lockPI | private, false, mutex(waitersBit|neighbor, 1, 0, 1, piKind), nil},
			"1001: pi-mutex 0x10000 mutex 0x0 owner 1002 live timed false futex 0x10000"},
		"PI mutex that was unlocked while the process was killed": {blockedCall{data, 0, lockPI | private, false, mutex(0, 1, 0, 0, piKind), nil},
			"1001: pi-mutex 0x10000 mutex 0x0 owner 0 unknown timed false futex 0x10000"},
		"PI mutex that a kernel before 5.16 handed over while it dumped": {blockedCall{data, 0, lockPI | private, false, mutex(waitersBit|ownerDied|caller, 1, neighbor, 1, piKind), nil},
			"1001: pi-mutex 0x10000 mutex 0x0 owner 1002 live timed false futex 0x10000"},
		"robust mutex that a kernel before 5.16 released while it dumped": {blockedCall{data, waitersBit | neighbor, wait, false, mutex(waitersBit|ownerDied, 1, neighbor, 1, robustKind), nil},
			""},
		"parked by glibc": {blockedCall{stack + 0x40, 0, waitBitset | realtime | private, false, mutex(waitersBit|77, 1, 77, 1, piKind), []uint64{0, data}},
			"1001: pi-mutex 0x10000 mutex 0x0 owner 77 not-in-core timed false futex 0x20040\npi-owner-died [1001]"},
		"condition variable before 2.25": {blockedCall{data + 4, 9, wait | private, false, oldCond, nil},
			"1001: cond 0x10000 mutex 0x10100 owner 0 none timed false futex 0x10004"},
		"condition variable before 2.25, shared": {blockedCall{data + 4, 9, wait, false, oldShared, nil},
			"1001: cond 0x10000 mutex 0x0 owner 0 none timed false futex 0x10004"},
		"rwlock before 2.25, reader": {blockedCall{data + 8, 5, wait | private, false, []uint32{0, 0, 5, 0, 1, 0, neighbor}, nil},
			"1001: rwlock-read 0x10000 mutex 0x0 owner 1002 live timed false futex 0x10008"},
		"rwlock before 2.25, writer": {blockedCall{data + 12, 3, wait | private, false, []uint32{0, 2, 0, 3, 0, 1, 0}, nil},
			"1001: rwlock-write 0x10000 mutex 0x0 owner 0 unknown timed false futex 0x1000c"},
		"barrier before 2.23": {blockedCall{data, 4, wait | private, false, []uint32{4, 0, 1, 3, 0}, nil},
			"1001: barrier 0x10000 mutex 0x0 owner 0 none timed false futex 0x10000"},
		"rwlock": {blockedCall{data + 8, 3, waitBitset | realtime | private, false, []uint32{3, 0, 3, 0, 0, 0, neighbor}, nil},
			"1001: rwlock-read 0x10000 mutex 0x0 owner 1002 live timed false futex 0x10008"},
	} {
		for arch, c := range map[string]*coretest.Core{"amd64": x.call.amd64(), "aarch64": x.call.aarch64()} {
			if arch == "aarch64" && x.call.op&^private == lockPI {
				continue // without a result it is the same as on amd64
			}
			d := read(t, c)
			r := d.analyze()
			if got := strings.Join(described(d.core, r, nil), "\n"); got != x.want {
				t.Errorf("%s on %s:\n%s\nis not\n%s", name, arch, got, x.want)
			}
		}
	}
}

// TestCutNotes has an owner that is not in the core, because notes are not.
func TestCutNotes(t *testing.T) {
	x := blockedCall{data, 2, wait | private, false, mutex(2, 0, 77, 1, 0), nil}
	d := read(t, x.amd64())
	d.core.NotesCut = true
	r := d.analyze()
	if len(r.Verdicts) != 0 || len(r.Waits) != 1 || r.Waits[0].OwnerState != locks.OwnerUnknown || len(r.Limits) != 1 {
		t.Errorf("%v, limits %q", described(d.core, r, nil), r.Limits)
	}
}

// TestMainArena has the lock of malloc's first arena, which is known by the empty
// bins behind it: struct malloc_state of glibc 2.26 and later.
func TestMainArena(t *testing.T) {
	x := blockedCall{data, 2, wait | private, false, []uint32{2}, nil}
	c := x.amd64()
	const bins = data + 8 + 8 + 10*8 + 2*8 // behind mutex, flags, have_fastchunks, fastbinsY, top, last_remainder
	for i := uint64(0); i < 254; i++ {
		binary.LittleEndian.PutUint64(c.Loads[0].Data[bins-data+8*i:], bins+16*(i/2)-16)
	}
	d := read(t, c)
	if r := d.analyze(); len(r.Waits) != 1 || r.Waits[0].Kind != locks.MallocArena {
		t.Errorf("%v", described(d.core, r, nil))
	}
}

// TestOtherCalls has the two system calls that came after futex(2).
func TestOtherCalls(t *testing.T) {
	x := blockedCall{data + 0x100, 7, 2, false, []uint32{7: 0, 0x40: 7}, nil}
	c := x.amd64()
	regs := func(set map[int]uint64) coretest.Note {
		all := make([]uint64, 27)
		for i, v := range set {
			all[i] = v
		}
		return c.Prstatus(caller, 0, all...)
	}
	const rax, rdx, rsi, rdi, r10, origRax, rsp = 10, 12, 13, 14, 7, 15, 19
	minus512 := ^uint64(511)
	c.Notes[0].Notes[2] = regs(map[int]uint64{rdi: data + 0x100, rsi: 7, rdx: 0xffffffff, r10: 2 | private, origRax: 455, rax: minus512, rsp: stack})
	if r := read(t, c).analyze(); len(r.Waits) != 1 || r.Waits[0].Futex.Address != data+0x100 || r.Waits[0].Shared {
		t.Errorf("futex_wait: %+v", r.Waits)
	}
	// struct futex_waitv {val, uaddr, flags, reserved}, twice.
	v := []uint64{7, data + 0x100, 2 | private, 0, data, 2 | private}
	for i, word := range v {
		binary.LittleEndian.PutUint64(c.Loads[1].Data[0x100+8*i:], word)
	}
	c.Notes[0].Notes[2] = regs(map[int]uint64{rdi: stack + 0x100, rsi: 2, origRax: 449, rax: minus512, rsp: stack})
	if r := read(t, c).analyze(); len(r.Waits) != 1 || r.Waits[0].Futex.Address != data+0x100 || r.Waits[0].Kind != locks.RawFutex {
		t.Errorf("futex_waitv: %+v", r.Waits)
	}
}
