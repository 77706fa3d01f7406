package elfcore

import (
	"debug/elf"
)

// mipsNames are the registers of struct user_pt_regs
// (arch/mips/include/uapi/asm/ptrace.h) in the order of elf_gregset_t.
func mipsNames() []string {
	return append(numbered("r", 32), "lo", "hi", "epc", "badvaddr", "status", "cause")
}

// mips64 is the n64 ABI. The thread pointer is in a register that no core has.
func mips64() *Arch {
	rs := withDWARF(regs(0, 8, mipsNames()...), 0, numbered("r", 32)...)
	return &Arch{
		Name:       "mips64",
		Machine:    elf.EM_MIPS,
		Class:      elf.ELFCLASS64,
		PrStatus:   PrStatus{Size: 480, CurSig: 12, PID: 32, Regset: 112},
		Regs:       rs,
		PC:         "epc",
		SP:         "r29",
		FP:         "r30",
		Return:     "r31",
		Signals:    mipsSignals,
		CodeFirst:  true,
		PageSize:   0x1000,
		TLS:        TLS{Variant: 1, Bias: 0x7000, DTV: -8, MuslDTV: -8, MuslDTPOffset: 0x8000, NoOffset: -1, ForcedDynamic: -2},
		Descriptor: Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}},
	}
}

// mips is the o32 ABI: six words of padding come before the registers.
func mips() *Arch {
	rs := withDWARF(regs(24, 4, mipsNames()...), 0, numbered("r", 32)...)
	return &Arch{
		Name:       "mips",
		Machine:    elf.EM_MIPS,
		Class:      elf.ELFCLASS32,
		PrStatus:   PrStatus{Size: 256, CurSig: 12, PID: 24, Regset: 72},
		Regs:       rs,
		PC:         "epc",
		SP:         "r29",
		FP:         "r30",
		Return:     "r31",
		Signals:    mipsSignals,
		CodeFirst:  true,
		PageSize:   0x1000,
		TLS:        TLS{Variant: 1, Bias: 0x7000, DTV: -4, MuslDTV: -4, MuslDTPOffset: 0x8000, NoOffset: -1, ForcedDynamic: -2},
		Descriptor: Descriptor{Header: 0x60, RobustHead: []uint64{0x0c, 0x10}},
	}
}
