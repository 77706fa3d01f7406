package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// loongarch64 follows struct user_pt_regs
// (arch/loongarch/include/uapi/asm/ptrace.h): r0 to r31, orig_a0, csr_era, the
// program counter, csr_badv. r2 is the thread pointer.
func loongarch64() *Arch {
	rs := regs(0, 8, append(numbered("r", 32), "orig_a0", "era", "badv")...)
	rs = withDWARF(rs, 0, numbered("r", 32)...)
	return &Arch{
		Name:       "loongarch64",
		Machine:    elf.EM_LOONGARCH,
		Class:      elf.ELFCLASS64,
		Order:      binary.LittleEndian,
		PrStatus:   PrStatus{Size: 480, CurSig: 12, PID: 32, Regset: 112},
		Regs:       rs,
		PC:         "era",
		SP:         "r3",
		FP:         "r22",
		Return:     "r1",
		TP:         ThreadPointer{Reg: "r2", Self: true},
		PageSize:   0x1000,
		TLS:        TLS{Variant: 1, DTV: -16, MuslDTV: -8, NoOffset: -1, ForcedDynamic: -2},
		Descriptor: Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}},
	}
}
