package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// Note types of linux/elf.h.
const (
	ntARMTLS     elf.NType = 0x401 // NT_ARM_TLS: tpidr_el0, since Linux 6.3 tpidr2_el0 behind it
	ntARMPACMask elf.NType = 0x406 // NT_ARM_PAC_MASK: data mask, instruction mask
)

// aarch64 follows struct user_pt_regs (arch/arm64/include/uapi/asm/ptrace.h).
func aarch64() *Arch {
	names := append(numbered("x", 31), "sp", "pc", "pstate")
	rs := withDWARF(regs(0, 8, names...), 0, names[:33]...)
	return &Arch{
		Name:        "aarch64",
		Machine:     elf.EM_AARCH64,
		Class:       elf.ELFCLASS64,
		Order:       binary.LittleEndian,
		PrStatus:    PrStatus{Size: 392, CurSig: 12, PID: 32, Regset: 112},
		Regs:        rs,
		PC:          "pc",
		SP:          "sp",
		FP:          "x29",
		Return:      "x30",
		TP:          ThreadPointer{Note: ntARMTLS},
		Syscall:     Syscall{Number: "x8", Args: numbered("x", 6), Return: "x0", Rewound: true, Futex: 98},
		ThreadNotes: []elf.NType{ntARMTLS, ntARMPACMask},
		PageSize:    0x1000,
		TLS:         TLS{Variant: 1, DTV: 0, TCBSize: 16, MuslDTV: -8, NoOffset: 0, ForcedDynamic: -1, GDBLookup: true},
		Descriptor: Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}, Distances: []DescriptorDistance{
			{Distance: 0x6f0, Max: 27}, {Distance: 0x700, Min: 28, Max: 31}, {Distance: 0x790, Min: 32, Max: 34},
			{Distance: 0x7c0, Min: 35, Max: 35}, {Distance: 0x740, Min: 36, Max: 40}, {Distance: 0x720, Min: 41},
		}},
	}
}
