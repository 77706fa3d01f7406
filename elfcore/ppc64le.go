package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// ppc64le is 64-bit PowerPC in little-endian order. The thread pointer r13 points
// 0x7000 behind the TCB (Power ELFv2 ABI, 3.7.2).
func ppc64le() *Arch {
	return &Arch{
		Name:     "ppc64le",
		Machine:  elf.EM_PPC64,
		Class:    elf.ELFCLASS64,
		Order:    binary.LittleEndian,
		PrStatus: PrStatus{Size: 504, CurSig: 12, PID: 32, Regset: 112},
		Regs:     ppcRegs(8),
		PC:       "nip",
		SP:       "r1",
		Return:   "link",
		TP:       ThreadPointer{Reg: "r13", Self: true},
		Syscall:  ppcSyscall(),
		PageSize: 0x1000,
		TLS:      TLS{Variant: 1, Bias: 0x7000, DTV: -8, MuslDTV: -8, MuslDTPOffset: 0x8000, NoOffset: -1, ForcedDynamic: -2, GDBLookup: true},
		Descriptor: Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}, Distances: []DescriptorDistance{
			{Distance: 0x7730, Max: 27}, {Distance: 0x77c0, Min: 36, Max: 40}, {Distance: 0x77a0, Min: 41},
		}},
	}
}
