package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// riscv64 follows struct user_regs_struct
// (arch/riscv/include/uapi/asm/ptrace.h): pc, then x1 to x31 by ABI name.
func riscv64() *Arch {
	names := []string{"pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
		"s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"}
	rs := withDWARF(regs(0, 8, names...), 1, names[1:]...)
	return &Arch{
		Name:     "riscv64",
		Machine:  elf.EM_RISCV,
		Class:    elf.ELFCLASS64,
		Order:    binary.LittleEndian,
		PrStatus: PrStatus{Size: 376, CurSig: 12, PID: 32, Regset: 112},
		Regs:     rs,
		PC:       "pc",
		SP:       "sp",
		FP:       "s0",
		Return:   "ra",
		TP:       ThreadPointer{Reg: "tp", Self: true},
		Syscall:  Syscall{Number: "a7", Args: numbered("a", 6), Return: "a0", Rewound: true, Futex: 98},
		PageSize: 0x1000,
		TLS:      TLS{Variant: 1, DTV: -16, MuslDTV: -8, MuslDTPOffset: 0x800, NoOffset: -1, ForcedDynamic: -2, GDBLookup: true},
		Descriptor: Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}, Distances: []DescriptorDistance{
			{Distance: 0x760, Min: 36, Max: 40}, {Distance: 0x740, Min: 41},
		}},
	}
}
