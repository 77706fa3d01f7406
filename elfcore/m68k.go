package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// m68k follows ELF_CORE_COPY_REGS (arch/m68k/include/asm/elf.h). Numbers are
// aligned to 2 bytes, so that struct elf_prstatus is shorter than elsewhere. No
// core has the thread pointer.
func m68k() *Arch {
	rs := regs(0, 4, "d1", "d2", "d3", "d4", "d5", "d6", "d7", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "d0", "usp", "orig_d0", "sr", "pc", "fmtvec")
	rs = withDWARF(rs, 0, numbered("d", 8)...)
	rs = withDWARF(rs, 8, "a0", "a1", "a2", "a3", "a4", "a5", "a6", "usp")
	return &Arch{
		Name:       "m68k",
		Machine:    elf.EM_68K,
		Class:      elf.ELFCLASS32,
		Order:      binary.BigEndian,
		PrStatus:   PrStatus{Size: 154, CurSig: 12, PID: 22, Regset: 70},
		Regs:       rs,
		PC:         "pc",
		SP:         "usp",
		FP:         "a6",
		PageSize:   0x1000,
		TLS:        TLS{Variant: 1, Bias: 0x7000, DTV: -4, MuslDTV: -4, MuslDTPOffset: 0x8000, NoOffset: -1, ForcedDynamic: -2},
		Descriptor: Descriptor{Header: 0x60, RobustHead: []uint64{0x0c, 0x10, 0x14}},
	}
}
