package unwind

import (
	"debug/elf"
	"encoding/binary"

	"github.com/corethreads/corethreads/elfcore"
)

// abi is what the walk must know of an architecture beyond package elfcore's
// table.
type abi struct {
	// preserved are the registers, by DWARF number, that a function leaves as
	// they were: what call-frame information does not mention of them is
	// unchanged, and all else is lost at a call.
	preserved []uint64
	// stackIsCFA tells that the caller's stack pointer is the CFA where
	// call-frame information does not say.
	stackIsCFA bool
	// call decodes the call that ends at the end of code; callSize is how many
	// bytes it wants to see.
	call     func(code []byte, order binary.ByteOrder) call
	callSize int
	// align is the alignment of instructions in bytes.
	align uint64
	// frame is where a frame pointer leads; nil where there is no convention.
	frame *frameRecord
	// trampolines are the code that a signal handler returns to.
	trampolines []trampoline
	// exits are code that makes the system call exit, at which a thread's
	// function returns to clone.
	exits [][]byte
	// clones are the calls that make threads; nil where the child's registers do
	// not tell them.
	clones *cloneCalls
	// prologue reads the first instructions of a function; nil where none is
	// known that could.
	prologue func(code []byte, order binary.ByteOrder) *prologue
	// exceptionTables tells that there are those of the ARM exception ABI.
	exceptionTables bool
}

// call is what an instruction is that can be a call.
type call struct {
	is bool
	// direct tells that the instruction holds its target, which lies offset
	// bytes from the return address.
	direct bool
	offset int64
}

// frameRecord is what a frame pointer points to; offsets in bytes.
type frameRecord struct {
	// pointer is the DWARF number of the frame pointer.
	pointer uint64
	// previous is where the caller's frame pointer is saved, and link where
	// the return address is: in the caller's record where linkInCaller is set.
	previous, link int64
	linkInCaller   bool
	// above is the distance up to the CFA; with linkInCaller that is where the
	// caller's record begins.
	above int64
}

// trampoline is code that makes the system call sigreturn, and where the kernel
// saved the registers that it restores.
type trampoline struct {
	code []byte
	// registers counts in bytes from the stack pointer to an array of words
	// with the registers in order; an empty name is a word without one.
	registers int64
	order     []string
}

// abiOf gives the facts of an architecture. One that is not known has none:
// only what CFI says can be followed.
func abiOf(a *elfcore.Arch) *abi {
	switch {
	case a.Machine == elf.EM_X86_64:
		return x8664ABI()
	case a.Machine == elf.EM_386:
		return i386ABI()
	case a.Machine == elf.EM_AARCH64:
		return aarch64ABI()
	case a.Machine == elf.EM_RISCV:
		return riscvABI()
	case a.Machine == elf.EM_PPC64:
		return ppc64ABI()
	case a.Machine == elf.EM_S390:
		return s390ABI()
	case a.Machine == elf.EM_ARM:
		return armABI()
	}
	return &abi{stackIsCFA: true, align: 1, call: func([]byte, binary.ByteOrder) call { return call{} }}
}

// span gives the numbers from first to last.
func span(first, last uint64) []uint64 {
	var out []uint64
	for n := first; n <= last; n++ {
		out = append(out, n)
	}
	return out
}
