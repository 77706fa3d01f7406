package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// armhf follows struct pt_regs (arch/arm/include/uapi/asm/ptrace.h). No note of
// an arm core holds the thread pointer.
func armhf() *Arch {
	names := append(numbered("r", 13), "sp", "lr", "pc", "cpsr", "orig_r0")
	rs := withDWARF(regs(0, 4, names...), 0, names[:16]...)
	return &Arch{
		Name:       "armhf",
		Machine:    elf.EM_ARM,
		Class:      elf.ELFCLASS32,
		Order:      binary.LittleEndian,
		PrStatus:   PrStatus{Size: 148, CurSig: 12, PID: 24, Regset: 72},
		Regs:       rs,
		PC:         "pc",
		SP:         "sp",
		FP:         "r11",
		Return:     "lr",
		Syscall:    Syscall{Number: "r7", Args: append([]string{"orig_r0"}, numbered("r", 6)[1:]...), Return: "r0", Rewound: true, Futex: 240, FutexTime64: 422},
		PageSize:   0x1000,
		TLS:        TLS{Variant: 1, DTV: 0, TCBSize: 8, MuslDTV: -4, NoOffset: 0, ForcedDynamic: -1},
		Descriptor: Descriptor{Header: 0x60, RobustHead: []uint64{0x0c, 0x10, 0x14}},
	}
}
