package elfcore

import (
	"debug/elf"
	"encoding/binary"
)

// nt386TLS is NT_386_TLS of linux/elf.h: the thread's struct user_desc entries.
const nt386TLS elf.NType = 0x200

// x8664Regs is struct user_regs_struct (arch/x86/include/asm/user_64.h) with
// the DWARF numbers of the System V ABI, AMD64 supplement, figure 3.36.
func x8664Regs() []Reg {
	rs := regs(0, 8, "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi",
		"orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs")
	rs = withDWARF(rs, 0, "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip")
	return withDWARF(rs, 58, "fs_base", "gs_base")
}

// x8664Syscall is the system call convention of x86-64; the kernel keeps the
// number in orig_rax and leaves the argument registers alone.
func x8664Syscall(futex uint64) Syscall {
	return Syscall{
		Number: "orig_rax",
		Args:   []string{"rdi", "rsi", "rdx", "r10", "r8", "r9"},
		Return: "rax",
		Futex:  futex,
	}
}

func x8664() *Arch {
	return &Arch{
		Name:     "x86_64",
		Machine:  elf.EM_X86_64,
		Class:    elf.ELFCLASS64,
		Order:    binary.LittleEndian,
		PrStatus: PrStatus{Size: 336, CurSig: 12, PID: 32, Regset: 112},
		Regs:     x8664Regs(),
		PC:       "rip",
		SP:       "rsp",
		FP:       "rbp",
		TP:       ThreadPointer{Reg: "fs_base"},
		Syscall:  x8664Syscall(202),
		PageSize: 0x1000,
		TLS:      TLS{Variant: 2, DTV: 8, MuslDTV: 8, NoOffset: 0, ForcedDynamic: -1, GDBLookup: true},
		Descriptor: Descriptor{Header: 0x2c0, RobustHead: []uint64{0x20}, SelfPointers: true, StartRoutines: []StartRoutineOffset{
			{Offset: 0x378, Min: 36, Max: 41}, {Offset: 0x380, Max: 35}, {Offset: 0x380, Min: 42},
		}},
	}
}

// x32 is the ABI of 32-bit pointers in 64-bit mode: struct
// compat_elf_prstatus around the registers of x86-64.
func x32() *Arch {
	return &Arch{
		Name:       "x32",
		Machine:    elf.EM_X86_64,
		Class:      elf.ELFCLASS32,
		Order:      binary.LittleEndian,
		PrStatus:   PrStatus{Size: 296, CurSig: 12, PID: 24, Regset: 72},
		Regs:       x8664Regs(),
		PC:         "rip",
		SP:         "rsp",
		FP:         "rbp",
		TP:         ThreadPointer{Reg: "fs_base"},
		Syscall:    x8664Syscall(0x40000000 + 202), // __X32_SYSCALL_BIT
		PageSize:   0x1000,
		TLS:        TLS{Variant: 2, DTV: 4, MuslDTV: 4, NoOffset: 0, ForcedDynamic: -1, GDBLookup: true},
		Descriptor: Descriptor{Header: 0x280, RobustHead: []uint64{0x14}, SelfPointers: true},
	}
}

// i386 follows struct user_regs_struct of arch/x86/include/asm/user_32.h, with
// the DWARF numbers of the System V ABI, i386 supplement.
func i386() *Arch {
	rs := regs(0, 4, "ebx", "ecx", "edx", "esi", "edi", "ebp", "eax", "ds", "es", "fs", "gs", "orig_eax", "eip", "cs", "eflags", "esp", "ss")
	rs = withDWARF(rs, 0, "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip", "eflags")
	return &Arch{
		Name:        "i386",
		Machine:     elf.EM_386,
		Class:       elf.ELFCLASS32,
		Order:       binary.LittleEndian,
		PrStatus:    PrStatus{Size: 144, CurSig: 12, PID: 24, Regset: 72},
		Regs:        rs,
		PC:          "eip",
		SP:          "esp",
		FP:          "ebp",
		TP:          ThreadPointer{Note: nt386TLS, Selector: "gs"},
		Syscall:     Syscall{Number: "orig_eax", Args: []string{"ebx", "ecx", "edx", "esi", "edi", "ebp"}, Return: "eax", Futex: 240, FutexTime64: 422},
		ThreadNotes: []elf.NType{nt386TLS},
		PageSize:    0x1000,
		TLS:         TLS{Variant: 2, DTV: 4, MuslDTV: 4, NoOffset: 0, ForcedDynamic: -1},
		Descriptor:  Descriptor{Header: 0x60, RobustHead: []uint64{0x0c, 0x10}, SelfPointers: true},
	}
}
