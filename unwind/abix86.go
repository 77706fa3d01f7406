package unwind

import "encoding/binary"

// x8664ABI follows the System V ABI, AMD64 supplement, 3.2, and struct
// rt_sigframe (arch/x86/include/asm/sigframe.h) with struct sigcontext_64: when
// the handler has returned, the stack pointer is at uc, and uc_mcontext lies 40
// bytes behind that.
func x8664ABI() *abi {
	return &abi{
		preserved:  []uint64{3, 6, 7, 12, 13, 14, 15, 58, 59}, // rbx rbp rsp r12-r15 fs_base gs_base
		stackIsCFA: true,
		call:       x86Call,
		callSize:   x86CallSize,
		align:      1,
		frame:      &frameRecord{pointer: 6, previous: 0, link: 8, above: 16},
		clones:     &cloneCalls{56, 435},
		trampolines: []trampoline{{
			code:      []byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, // mov $15,%rax; syscall
			registers: 40,
			order: []string{"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx",
				"rdx", "rax", "rcx", "rsp", "rip"},
		}},
	}
}

// i386ABI follows the System V ABI, i386 supplement, and struct sigframe_ia32
// and rt_sigframe_ia32: the handler's arguments are still on the stack. That of
// SA_SIGINFO has a number and two pointers, and the trampoline of the other
// pops its number.
func i386ABI() *abi {
	order := []string{"gs", "fs", "es", "ds", "edi", "esi", "ebp", "esp", "ebx", "edx", "ecx", "eax", "", "", "eip"}
	return &abi{
		preserved:  []uint64{3, 4, 5, 6, 7}, // ebx esp ebp esi edi
		stackIsCFA: true,
		call:       x86Call,
		callSize:   x86CallSize,
		align:      1,
		frame:      &frameRecord{pointer: 5, previous: 0, link: 4, above: 8},
		clones:     &cloneCalls{120, 435},
		trampolines: []trampoline{
			// pop %eax; mov $119,%eax; int $0x80
			{code: []byte{0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80}, registers: 4, order: order},
			// mov $173,%eax; int $0x80: number, pointers, siginfo of 128
			// bytes, then uc_mcontext 20 bytes into ucontext
			{code: []byte{0xb8, 0xad, 0, 0, 0, 0xcd, 0x80}, registers: 12 + 128 + 20, order: order},
		},
	}
}

const x86CallSize = 8

// x86Call knows CALL rel32 and the indirect forms, FF /2 with every addressing
// mode (Intel SDM, volume 2, CALL, and 2.1.5).
func x86Call(code []byte, order binary.ByteOrder) call {
	n := len(code)
	if n >= 5 && code[n-5] == 0xe8 {
		return call{is: true, direct: true, offset: int64(int32(order.Uint32(code[n-4:])))}
	}
	for size := 2; size <= 7 && size <= n; size++ {
		at := code[n-size:]
		if at[0] != 0xff || at[1]>>3&7 != 2 {
			continue
		}
		if x86Indirect(at) == size {
			return call{is: true}
		}
	}
	return call{}
}

// x86Indirect is the length in bytes of an instruction of one byte of opcode
// with a ModRM byte: SIB and displacement follow from that.
func x86Indirect(code []byte) int {
	mod, rm := code[1]>>6, code[1]&7
	size := 2
	base := rm
	if mod != 3 && rm == 4 {
		if len(code) < 3 {
			return 0
		}
		base = code[2] & 7
		size++
	}
	switch {
	case mod == 1:
		size++
	case mod == 2, mod == 0 && base == 5:
		size += 4
	}
	return size
}
