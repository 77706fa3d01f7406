package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// ntS390SystemCall is NT_S390_SYSTEM_CALL of linux/elf.h: the number of the
// system call that a thread is in, 32 bits.
const ntS390SystemCall elf.NType = 0x307

// s390x follows struct s390_regs (arch/s390/include/uapi/asm/ptrace.h): psw,
// general registers, access registers, orig_gpr2. The thread pointer is the
// concatenation of access registers 0 and 1.
func s390x() *Arch {
	rs := regs(0, 8, append([]string{"pswm", "pswa"}, numbered("r", 16)...)...)
	rs = withDWARF(rs, 0, numbered("r", 16)...)
	rs = withDWARF(rs, 64, "pswm", "pswa")
	rs = append(rs, regs(144, 4, numbered("a", 16)...)...)
	rs = append(rs, regs(208, 8, "orig_r2")...)
	return &Arch{
		Name:        "s390x",
		Machine:     elf.EM_S390,
		Class:       elf.ELFCLASS64,
		Order:       binary.BigEndian,
		PrStatus:    PrStatus{Size: 336, CurSig: 12, PID: 32, Regset: 112},
		Regs:        rs,
		PC:          "pswa",
		SP:          "r15",
		FP:          "r11",
		Return:      "r14",
		TP:          ThreadPointer{High: "a0", Low: "a1", Self: true},
		Syscall:     Syscall{Note: ntS390SystemCall, Args: append([]string{"orig_r2"}, numbered("r", 8)[3:]...), Return: "r2", Futex: 238},
		ThreadNotes: []elf.NType{ntS390SystemCall},
		PageSize:    0x1000,
		TLS:         TLS{Variant: 2, DTV: 8, MuslDTV: 8, NoOffset: 0, ForcedDynamic: -1, GDBLookup: true},
		Descriptor:  Descriptor{Header: 0xc0, RobustHead: []uint64{0x20}, SelfPointers: true},
	}
}
