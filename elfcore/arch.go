package elfcore

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// To add an architecture:
//
//  1. write one file with a function that returns its *Arch, all facts with
//     the kernel structure they come from;
//  2. list that function in architectures below;
//  3. add a core of it, with its truth, to testdata/cores.
//
// No other code names an architecture.

// Arch is everything that the tool must know of an architecture's ABI and that
// no core tells.
type Arch struct {
	// Name is uname's machine name: x86_64, i386, aarch64, …
	Name string
	// Machine and Class are the ELF identification. Order is nil where both
	// byte orders share the table.
	Machine elf.Machine
	Class   elf.Class
	Order   binary.ByteOrder

	// PrStatus is the layout of the kernel's struct elf_prstatus.
	PrStatus PrStatus
	// Regs are the registers of pr_reg, in its order.
	Regs []Reg
	// numbers are the places in Regs by name: thousands of threads are asked for
	// several registers each.
	numbers map[string]int
	// PC, SP and FP are names of Regs; FP is empty where the ABI has none.
	PC, SP, FP string
	// Return is the register that holds the return address at a call, empty
	// where the call pushes it.
	Return string
	// AddressMask are the bits of PC that are an address, 0 for all: others can
	// be a mode or a privilege level.
	AddressMask uint64
	// StackBias is what the stack pointer must be raised by to get the address
	// of the stack's end, in bytes.
	StackBias uint64
	// TP says where the thread pointer is.
	TP ThreadPointer
	// Syscall says where a thread that is blocked in a system call left its
	// number and arguments.
	Syscall Syscall
	// Signals are the names of the signals from number 1 on, without "SIG" and
	// separated by spaces; empty for those of asm-generic/signal.h.
	Signals string
	// CodeFirst tells that siginfo_t has si_code before si_errno.
	CodeFirst bool
	// ThreadNotes are the per-thread note types that are worth keeping.
	ThreadNotes []elf.NType

	// PageSize is the smallest page size of the architecture in bytes.
	PageSize uint64
	// TLS is how the ABI lays out thread-local storage.
	TLS TLS
	// Descriptor holds the facts about glibc's struct pthread that cannot be
	// proved from a core.
	Descriptor Descriptor
}

// PrStatus is the layout of struct elf_prstatus (linux/elfcore.h); offsets and
// sizes in bytes.
type PrStatus struct {
	Size                int
	CurSig, PID, Regset int
}

// Reg is one register of pr_reg.
type Reg struct {
	Name string
	// Offset counts from the start of pr_reg; Size is in bytes.
	Offset, Size int
	// DWARF is the register's number in call-frame information, -1 for none.
	DWARF int
}

// ThreadPointer says where a core keeps the thread pointer of a thread. The
// zero value means that cores of this architecture do not have it.
type ThreadPointer struct {
	// Reg is a register of pr_reg that holds it whole.
	Reg string
	// High and Low are registers of 32 bits whose concatenation it is.
	High, Low string
	// Note is a per-thread note whose first word it is.
	Note elf.NType
	// Selector is a segment register that picks an entry of struct user_desc
	// (asm/ldt.h) in the note NT_386_TLS.
	Selector string
	// Self tells that libthread_db finds a thread that is on no list by these
	// registers (DB_THREAD_SELF REGISTER in glibc's sysdeps/*/nptl/tls.h). On
	// other architectures it asks the kernel, which knows nothing of a core.
	Self bool
}

// Syscall says where the registers of a blocked thread name its system call.
type Syscall struct {
	// Number is the register with the system call's number.
	Number string
	// Note is the per-thread note with the number, where no register has it.
	Note elf.NType
	// Args are the registers of the arguments, as they are left when the
	// kernel stopped the thread; Return is the one with the result.
	Args   []string
	Return string
	// Rewound tells that the kernel, before it dumps, sets a blocked thread's pc
	// back to the system call and its first argument back in its register, so
	// that the result is lost.
	Rewound bool
	// Trap is a register that tells why the kernel was entered, and InCall its
	// values for a system call; empty where Number tells by itself.
	Trap   string
	InCall []uint64
	// Futex is the number of futex(2), FutexTime64 that of futex_time64(2) on
	// 32-bit systems.
	Futex, FutexTime64 uint64
}

// TLS is the part of the ABI for thread-local storage that glibc and musl
// share (Drepper, ELF Handling For Thread-Local Storage).
type TLS struct {
	// Variant is 1 (blocks above the thread pointer) or 2 (below it).
	Variant int
	// Bias is what must be subtracted from the thread pointer to get the end
	// of the TCB: 0x7000 on ppc and mips.
	Bias uint64
	// DTV is the offset of the dtv pointer from the unbiased thread pointer.
	DTV int64
	// TCBSize is what variant 1 reserves between the thread pointer and the
	// first block.
	TCBSize uint64
	// NoOffset and ForcedDynamic are the values of l_tls_offset that name no
	// static block, as signed words.
	NoOffset, ForcedDynamic int64
	// MuslDTV is the offset of musl's dtv pointer from the unbiased thread
	// pointer, MuslDTPOffset what its dtv entries are above the blocks
	// (arch/*/pthread_arch.h, src/internal/pthread_impl.h).
	MuslDTV       int64
	MuslDTPOffset uint64
	// GDBLookup tells that gdb 17 and later can find thread-locals without
	// libthread_db (gdb/svr4-tls-tdep.c).
	GDBLookup bool
}

// Descriptor holds table facts of glibc's struct pthread.
type Descriptor struct {
	// Header is the size in bytes of the part in front of the list node
	// (nptl/descr.h: the union of tcbhead_t and 24 pointers).
	Header uint64
	// RobustHead are the possible offsets of robust_head from the list node.
	RobustHead []uint64
	// SelfPointers tells that tcbhead_t holds its own address in its first and
	// third word.
	SelfPointers bool
	// Distances are the known distances from the descriptor up to the thread
	// pointer, where that depends on the size of struct pthread.
	Distances []DescriptorDistance
	// StartRoutines are the known offsets of start_routine from the list node.
	StartRoutines []StartRoutineOffset
}

// DescriptorDistance says in which versions of glibc the thread pointer lies
// Distance bytes above struct pthread. Min and Max are minor numbers of 2.x, 0
// for no bound.
type DescriptorDistance struct {
	Distance uint64
	Min, Max int
}

// StartRoutineOffset says in which versions of glibc start_routine lies Offset
// bytes above the list node. Min and Max are minor numbers of 2.x, 0 for no
// bound.
type StartRoutineOffset struct {
	Offset   uint64
	Min, Max int
}

// WordSize is the size of a pointer in bytes, 4 or 8.
func (a *Arch) WordSize() int {
	if a.Class == elf.ELFCLASS32 {
		return 4
	}
	return 8
}

// Known tells whether the tables know the layout of a thread's registers.
func (a *Arch) Known() bool { return a.PrStatus.Size != 0 }

// register finds a register of pr_reg by name.
func (a *Arch) register(name string) (Reg, bool) {
	i, ok := a.numbers[name]
	if !ok {
		return Reg{}, false
	}
	return a.Regs[i], true
}

// keeps tells whether notes of this type belong to a thread and are kept.
func (a *Arch) keeps(t elf.NType) bool {
	for _, n := range a.ThreadNotes {
		if n == t {
			return true
		}
	}
	return false
}

// architectures makes all tables.
func architectures() []*Arch {
	return []*Arch{
		x8664(), x32(), i386(), aarch64(), armhf(), riscv64(), ppc64le(), s390x(),
		ppc64(), ppc(), s390(), mips64(), mips(), loongarch64(), sparc64(), alpha(), hppa(), m68k(),
	}
}

// archOf picks the table for an ELF identification. An unknown one gets a
// table that holds the identification and nothing else.
func archOf(machine elf.Machine, class elf.Class, order binary.ByteOrder) *Arch {
	for _, a := range architectures() {
		if a.Machine == machine && a.Class == class && (a.Order == nil || a.Order == order) {
			a.numbers = make(map[string]int, len(a.Regs))
			for i := range a.Regs {
				a.numbers[a.Regs[i].Name] = i
			}
			return a
		}
	}
	bits := 64
	if class == elf.ELFCLASS32 {
		bits = 32
	}
	return &Arch{
		Name:     fmt.Sprintf("%s/%d", machine, bits),
		Machine:  machine,
		Class:    class,
		PageSize: 0x1000,
	}
}

// regs numbers registers of one size from an offset on.
func regs(offset, size int, names ...string) []Reg {
	out := make([]Reg, 0, len(names))
	for i, n := range names {
		out = append(out, Reg{Name: n, Offset: offset + i*size, Size: size, DWARF: -1})
	}
	return out
}

// withDWARF sets the DWARF numbers of registers, first, first+1, … in the order
// of names.
func withDWARF(rs []Reg, first int, names ...string) []Reg {
	for i, n := range names {
		for j := range rs {
			if rs[j].Name == n {
				rs[j].DWARF = first + i
			}
		}
	}
	return rs
}

// numbered gives the names prefix0, prefix1, … prefix(n-1).
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}
