package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// ppcRegs is struct pt_regs (arch/powerpc/include/uapi/asm/ptrace.h) with words
// of a size.
func ppcRegs(size int) []Reg {
	names := append(numbered("r", 32), "nip", "msr", "orig_r3", "ctr", "link", "xer", "ccr", "softe", "trap", "dar", "dsisr", "result")
	rs := withDWARF(regs(0, size, names...), 0, names[:32]...)
	return withDWARF(rs, 65, "link")
}

// ppcSyscall is the system call convention: the kernel keeps the first argument
// in orig_r3, and tells by trap that a thread is in a call (sc or scv).
func ppcSyscall() Syscall {
	return Syscall{
		Number: "r0", Args: append([]string{"orig_r3"}, numbered("r", 9)[4:]...), Return: "r3",
		Trap: "trap", InCall: []uint64{0xc00, 0x3000}, Futex: 221,
	}
}

// ppc64 is 64-bit PowerPC in big-endian order (ELFv1).
func ppc64() *Arch {
	a := ppc64le()
	a.Name, a.Order = "ppc64", binary.BigEndian
	a.Descriptor.Distances = nil
	return a
}

// ppc is 32-bit PowerPC. The thread pointer r2 points 0x7000 behind the TCB.
func ppc() *Arch {
	return &Arch{
		Name:       "ppc",
		Machine:    elf.EM_PPC,
		Class:      elf.ELFCLASS32,
		Order:      binary.BigEndian,
		PrStatus:   PrStatus{Size: 268, CurSig: 12, PID: 24, Regset: 72},
		Regs:       ppcRegs(4),
		PC:         "nip",
		SP:         "r1",
		Return:     "link",
		TP:         ThreadPointer{Reg: "r2", Self: true},
		Syscall:    ppcSyscall(),
		PageSize:   0x1000,
		TLS:        TLS{Variant: 1, Bias: 0x7000, DTV: -4, MuslDTV: -4, MuslDTPOffset: 0x8000, NoOffset: -1, ForcedDynamic: -2},
		Descriptor: Descriptor{Header: 0x60, RobustHead: []uint64{0x0c, 0x10}},
	}
}
