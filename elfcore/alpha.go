package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// alpha follows dump_elf_thread (arch/alpha/kernel/process.c): r0 to r29, the
// user stack pointer, the program counter, and the thread pointer, which only
// PALcode can read.
func alpha() *Arch {
	rs := regs(0, 8, append(numbered("r", 31), "pc", "unique")...)
	return &Arch{
		Name:       "alpha",
		Machine:    elf.EM_ALPHA,
		Class:      elf.ELFCLASS64,
		Order:      binary.LittleEndian,
		PrStatus:   PrStatus{Size: 384, CurSig: 12, PID: 32, Regset: 112},
		Regs:       withDWARF(rs, 0, numbered("r", 31)...),
		PC:         "pc",
		SP:         "r30",
		FP:         "r15",
		Return:     "r26",
		TP:         ThreadPointer{Reg: "unique", Self: true},
		Signals:    bsdSignals,
		PageSize:   0x2000,
		TLS:        TLS{Variant: 1, DTV: 0, TCBSize: 16, NoOffset: 0, ForcedDynamic: -1},
		Descriptor: Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}},
	}
}
