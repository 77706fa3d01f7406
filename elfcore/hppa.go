package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// hppa follows ELF_CORE_COPY_REGS (arch/parisc/include/asm/elf.h): general and
// space registers, the instruction address queue, then control registers, of
// which cr27 is the thread pointer. The two low bits of an instruction address
// are the privilege level.
func hppa() *Arch {
	names := append(numbered("r", 32), numbered("sr", 8)...)
	names = append(names, "iaoq0", "iaoq1", "iasq0", "iasq1", "sar", "iir", "isr", "ior", "ipsw", "cr0", "cr24", "cr25", "cr26", "cr27")
	return &Arch{
		Name:        "hppa",
		Machine:     elf.EM_PARISC,
		Class:       elf.ELFCLASS32,
		Order:       binary.BigEndian,
		AddressMask: 0xfffffffc,
		PrStatus:    PrStatus{Size: 396, CurSig: 12, PID: 24, Regset: 72},
		Regs:        withDWARF(regs(0, 4, names...), 0, numbered("r", 32)...),
		PC:          "iaoq0",
		SP:          "r30",
		FP:          "r3",
		Return:      "r2",
		TP:          ThreadPointer{Reg: "cr27", Self: true},
		Signals:     hpSignals,
		PageSize:    0x1000,
		TLS:         TLS{Variant: 1, DTV: 0, TCBSize: 8, NoOffset: 0, ForcedDynamic: -1},
		Descriptor:  Descriptor{Header: 0x60, RobustHead: []uint64{0x0c, 0x10, 0x14}},
	}
}
