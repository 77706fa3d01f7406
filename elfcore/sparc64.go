package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// sparc64 follows elf_gregset_t (arch/sparc/include/asm/elf_64.h): globals,
// outs, locals, ins, then tstate, tpc, tnpc, y. g7 is the thread pointer, and
// the stack pointer o6 points 2047 bytes below the frame.
func sparc64() *Arch {
	var names []string
	for _, window := range []string{"g", "o", "l", "i"} {
		names = append(names, numbered(window, 8)...)
	}
	rs := regs(0, 8, append(names, "tstate", "tpc", "tnpc", "y")...)
	return &Arch{
		Name:       "sparc64",
		Machine:    elf.EM_SPARCV9,
		Class:      elf.ELFCLASS64,
		Order:      binary.BigEndian,
		StackBias:  2047,
		PrStatus:   PrStatus{Size: 408, CurSig: 12, PID: 32, Regset: 112},
		Regs:       withDWARF(rs, 0, names...),
		PC:         "tpc",
		SP:         "o6",
		FP:         "i6",
		Return:     "o7",
		TP:         ThreadPointer{Reg: "g7", Self: true},
		Signals:    bsdSignals,
		PageSize:   0x2000,
		TLS:        TLS{Variant: 2, DTV: 8, MuslDTV: 8, NoOffset: 0, ForcedDynamic: -1},
		Descriptor: Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}, SelfPointers: true},
	}
}
