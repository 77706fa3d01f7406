package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// s390 is the 31-bit ABI of System z: psw, general registers, access registers,
// orig_gpr2, 4 bytes each. Bit 31 of an instruction address is the addressing
// mode; the thread pointer is access register 0.
func s390() *Arch {
	rs := regs(0, 4, append([]string{"pswm", "pswa"}, numbered("r", 16)...)...)
	rs = withDWARF(rs, 0, numbered("r", 16)...)
	rs = withDWARF(rs, 64, "pswm", "pswa")
	rs = append(rs, regs(72, 4, numbered("a", 16)...)...)
	rs = append(rs, regs(136, 4, "orig_r2")...)
	return &Arch{
		Name:        "s390",
		Machine:     elf.EM_S390,
		Class:       elf.ELFCLASS32,
		Order:       binary.BigEndian,
		AddressMask: 0x7fffffff,
		PrStatus:    PrStatus{Size: 224, CurSig: 12, PID: 24, Regset: 72},
		Regs:        rs,
		PC:          "pswa",
		SP:          "r15",
		FP:          "r11",
		Return:      "r14",
		TP:          ThreadPointer{Reg: "a0", Self: true},
		Syscall:     Syscall{Note: ntS390SystemCall, Args: append([]string{"orig_r2"}, numbered("r", 8)[3:]...), Return: "r2", Futex: 238},
		ThreadNotes: []elf.NType{ntS390SystemCall},
		PageSize:    0x1000,
		TLS:         TLS{Variant: 2, DTV: 4, MuslDTV: 4, NoOffset: 0, ForcedDynamic: -1},
		Descriptor:  Descriptor{Header: 0x60, RobustHead: []uint64{0x0c, 0x10}, SelfPointers: true},
	}
}
