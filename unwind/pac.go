package unwind

import (
	"debug/elf"

	"github.com/corethreads/corethreads/elfcore"
)

// noteARMPACMask is NT_ARM_PAC_MASK of linux/elf.h: struct user_pac_mask, the
// bits of a pointer to data and of one to instructions that hold a code.
const noteARMPACMask elf.NType = 0x406

// userBits are those of an address in user space with 48 bits, the default of
// AArch64 Linux (https://docs.kernel.org/arch/arm64/pointer-authentication.html).
const userBits = 1<<48 - 1

// pacMask gives the bits of a pointer authentication code, 0 where the core
// does not tell. They are the same for all threads.
func pacMask(c *elfcore.Core) uint64 {
	if len(c.Threads) == 0 {
		return 0
	}
	desc, _, ok := c.Threads[0].Note(noteARMPACMask)
	if !ok || len(desc) < 16 {
		return 0
	}
	return c.ByteOrder.Uint64(desc[8:])
}

// strip takes a pointer authentication code off a return address: by the bits
// that the core names, else where CFI says that there is a code, or where only
// that leads to code. On ARM it clears the bit that marks the instruction set.
func (u *Unwinder) strip(pc uint64, signed bool) uint64 {
	switch {
	case u.core.Arch.Machine == elf.EM_ARM:
		return pc &^ 1
	case u.core.Arch.Machine != elf.EM_AARCH64:
		return pc
	case u.pac != 0:
		return pc &^ u.pac
	case (signed || !u.executable(pc)) && u.executable(pc&userBits):
		return pc & userBits
	}
	return pc
}
