package nptl_test

import (
	"fmt"

	"github.com/corethreads/corethreads/internal/coretest"
)

// libc is how one version of glibc on one architecture lays out struct pthread.
// Offsets are in bytes and count from the member list, 0 for a member that the
// version does not have. They are from nptl/descr.h of each version and, for
// those that move, from the DWARF of libraries; nothing is taken from the code
// under test.
type libc struct {
	machine
	minor int // 2.minor

	pid                 uint64 // since 2.25 there is none
	robustHead          uint64
	cancelHandling      uint64
	firstBlock          uint64 // specific_1stblock
	specific            uint64
	userStack           uint64 // bool user_stack, up to 2.41
	stackMode           uint64 // enum stack_mode, since 2.42
	startRoutine        uint64
	stackBlock          uint64
	size                uint64 // sizeof(struct pthread)
	above               uint64 // thread pointer − struct pthread
	joinState           bool   // joinid has become joinstate, since 2.43
	retiresJoinedByZero bool   // pthread_join no longer writes −1, since 2.43
}

func (l libc) String() string { return fmt.Sprintf("%s-2.%d", l.machine.name, l.minor) }

// tid and joinID are where they have always been: behind the list, and in front of
// result, schedparam, schedpolicy and start_routine.
func (l libc) tid() uint64    { return 2 * l.word }
func (l libc) joinID() uint64 { return l.startRoutine - 2*l.word - 8 }

// machine is what an architecture adds to its ABI of cores.
type machine struct {
	name string
	abi  coretest.ABI
	word uint64
	// list is the size of struct pthread in front of its member list.
	list uint64
	// selfPointers: tcbhead_t has its own address in its first and third word.
	selfPointers bool
	// pc and sp are the indices of these registers in pr_reg, tp that of the
	// thread pointer, -1 where it is not among them.
	pc, sp, tp int
	// tpNote is the note with the thread pointer.
	tpNote uint32
}

const (
	ntARMTLS = 0x401
	nt386TLS = 0x200
)

var (
	x8664   = machine{"x86_64", coretest.X86_64, 8, 0x2c0, true, 16, 19, 21, 0}
	i386    = machine{"i386", coretest.I386, 4, 0x60, true, 12, 15, -1, nt386TLS}
	aarch64 = machine{"aarch64", coretest.AArch64, 8, 0xc0, false, 32, 31, -1, ntARMTLS}
	armhf   = machine{"armhf", coretest.ARM, 4, 0x60, false, 15, 13, -1, 0}
	riscv64 = machine{"riscv64", coretest.RISCV64, 8, 0xc0, false, 0, 2, 4, 0}
	ppc64le = machine{"ppc64le", coretest.PPC64LE, 8, 0xc0, false, 32, 1, 13, 0}
	// The access registers 0 and 1, a word together, follow psw and the 16
	// general registers.
	s390x = machine{"s390x", coretest.S390X, 8, 0xc0, true, 1, 17, 18, 0}
)

// lp64 is the layout with words of 64 bits.
func lp64(m machine, minor int, startRoutine, size, above uint64) libc {
	l := libc{
		machine: m, minor: minor,
		robustHead: 0x20, cancelHandling: 0x48, firstBlock: 0x50, specific: 0x250, userStack: 0x352, stackBlock: 0x3d0,
		startRoutine: startRoutine, size: size, above: above,
	}
	if minor <= 24 {
		l.pid = 0x14
	}
	return l.modern(0x354)
}

// ilp32 is the layout with words of 32 bits. Up to 2.35 the process id, and then
// an unused word in its place, moves all that follows by 4.
func ilp32(m machine, minor int, startRoutine, stackBlock, size, above uint64) libc {
	l := libc{
		machine: m, minor: minor,
		robustHead: 0x0c, cancelHandling: 0x20, firstBlock: 0x28, specific: 0x128, userStack: 0x1aa, stackBlock: stackBlock,
		startRoutine: startRoutine, size: size, above: above,
	}
	if minor <= 35 {
		for _, member := range []*uint64{&l.robustHead, &l.cancelHandling, &l.firstBlock, &l.specific, &l.userStack} {
			*member += 4
		}
	}
	if minor <= 24 {
		l.pid = 0x0c
	}
	return l.modern(0x1ac)
}

// modern applies what 2.42 and 2.43 changed.
func (l libc) modern(stackMode uint64) libc {
	if l.minor >= 42 {
		l.userStack, l.stackMode = 0, stackMode
	}
	l.joinState = l.minor >= 43
	l.retiresJoinedByZero = l.minor >= 43
	return l
}

// libcs are the layouts that the tests build processes with: one for each change
// of a member that matters. start_routine moves with cpuclock_offset (up to
// 2.35, not everywhere) and with stack_mode (since 2.42).
func libcs() []libc {
	return []libc{
		lp64(x8664, 24, 0x380, 0x900, 0), lp64(x8664, 31, 0x380, 0x900, 0), lp64(x8664, 36, 0x378, 0x940, 0),
		lp64(x8664, 42, 0x380, 0x940, 0), lp64(x8664, 43, 0x380, 0x940, 0),
		ilp32(i386, 24, 0x1d4, 0x210, 0x4c0, 0), ilp32(i386, 31, 0x1d4, 0x210, 0x4c0, 0), ilp32(i386, 36, 0x1c8, 0x200, 0x4c0, 0),
		ilp32(i386, 43, 0x1d0, 0x208, 0x4c0, 0),
		lp64(aarch64, 24, 0x378, 0x6f0, 0x6f0), lp64(aarch64, 31, 0x378, 0x700, 0x700), lp64(aarch64, 36, 0x378, 0x740, 0x740),
		lp64(aarch64, 42, 0x380, 0x720, 0x720), lp64(aarch64, 43, 0x380, 0x720, 0x720),
		ilp32(armhf, 36, 0x1c8, 0x240, 0x500, 0x500), ilp32(armhf, 43, 0x1d0, 0x248, 0x4e0, 0x4e0),
		lp64(riscv64, 36, 0x378, 0x740, 0x760), lp64(riscv64, 42, 0x380, 0x720, 0x740), lp64(riscv64, 43, 0x380, 0x720, 0x740),
		lp64(ppc64le, 24, 0x380, 0x6b0, 0x7730), lp64(ppc64le, 36, 0x378, 0x740, 0x77c0), lp64(ppc64le, 43, 0x380, 0x720, 0x77a0),
		lp64(s390x, 24, 0x378, 0x900, 0), lp64(s390x, 31, 0x380, 0x900, 0), lp64(s390x, 36, 0x378, 0x740, 0), lp64(s390x, 43, 0x380, 0x720, 0),
	}
}

// version gives one of libcs.
func version(m machine, minor int) libc {
	for _, l := range libcs() {
		if l.machine == m && l.minor == minor {
			return l
		}
	}
	panic(fmt.Sprintf("no layout of glibc 2.%d on %s", minor, m.name))
}
