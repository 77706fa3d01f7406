package unwind

import (
	"encoding/binary"
	"fmt"
)

// aarch64ABI follows AAPCS64, 6.1.1 and 6.4.6, and struct rt_sigframe of
// arch/arm64/kernel/signal.c: siginfo of 128 bytes, then ucontext, whose
// uc_mcontext is aligned to 16 at 176 and begins with the fault address.
func aarch64ABI() *abi {
	return &abi{
		preserved:  append(span(19, 29), 31),
		stackIsCFA: true,
		call: word32(func(w uint32) call {
			if w&0xfc000000 == 0x94000000 { // bl
				return call{is: true, direct: true, offset: signedField(w, 26)*4 - 4}
			}
			return call{is: w&0xfffffc1f == 0xd63f0000 || // blr
				w&0xfefff800 == 0xd63f0800} // blraa, blrab, blraaz, blrabz
		}),
		callSize: 4,
		align:    4,
		frame:    &frameRecord{pointer: 29, previous: 0, link: 8, above: 16},
		trampolines: []trampoline{{
			code:      []byte{0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4}, // mov x8,#139; svc #0
			registers: 128 + 176 + 8,
			order:     append(numbered("x", 31), "sp", "pc"),
		}},
	}
}

// riscvABI follows the RISC-V calling convention and struct rt_sigframe of
// arch/riscv/kernel/signal.c.
func riscvABI() *abi {
	return &abi{
		preserved:  append([]uint64{2, 3, 4, 8, 9}, span(18, 27)...), // sp gp tp s0-s11
		stackIsCFA: true,
		call:       riscvCall,
		prologue:   riscvPrologue,
		callSize:   8,
		align:      2,
		frame:      &frameRecord{pointer: 8, previous: -16, link: -8, above: 0},
		trampolines: []trampoline{{
			code:      []byte{0x93, 0x08, 0xb0, 0x08, 0x73, 0, 0, 0}, // li a7,139; ecall
			registers: 128 + 176,
			order: []string{"pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
				"s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"},
		}},
	}
}

// riscvCall knows c.jalr, jal, and auipc with jalr, with ra or, for calls that
// save registers, t0 as the link register.
func riscvCall(code []byte, order binary.ByteOrder) call {
	n := len(code)
	if n >= 2 {
		if h := order.Uint16(code[n-2:]); h&0xf07f == 0x9002 && h>>7&0x1f != 0 {
			return call{is: true}
		}
	}
	if n < 4 {
		return call{}
	}
	w := order.Uint32(code[n-4:])
	link := w >> 7 & 0x1f
	if link != 1 && link != 5 || w&0x7f != 0x6f && w&0x707f != 0x67 {
		return call{}
	}
	if n < 8 || w&0x7f == 0x6f {
		return call{is: true}
	}
	if high := order.Uint32(code[n-8:]); high&0x7f == 0x17 && high>>7&0x1f == w>>15&0x1f {
		return call{is: true, direct: true, offset: int64(int32(high&^0xfff)) + int64(int32(w)>>20) - 8}
	}
	return call{is: true}
}

// ppc64ABI follows the 64-bit ELF V2 ABI, 2.2.2 and 2.2.3: every frame begins
// with the address of the caller's, and the caller's frame has the return
// address 16 bytes in. The kernel's vDSO has CFI for signal frames.
func ppc64ABI() *abi {
	return &abi{
		preserved:  append([]uint64{1}, span(13, 31)...),
		stackIsCFA: true,
		call: word32(func(w uint32) call {
			if w&0xfc000003 == 0x48000001 { // bl
				return call{is: true, direct: true, offset: signedField(w&^3, 26) - 4}
			}
			return call{is: w&0xfc0007ff == 0x4c000421 || // bcctrl
				w&0xfc0007ff == 0x4c000021} // bclrl
		}),
		callSize: 4,
		align:    4,
		frame:    &frameRecord{pointer: 1, previous: 0, link: 16, linkInCaller: true},
	}
}

// s390ABI follows the s390x ELF ABI, 1.2.2: the caller keeps its own stack
// pointer in r15, which call-frame information saves like any register. Signal
// frames are struct rt_sigframe and sigframe of arch/s390/kernel/signal.c: above
// 160 bytes for the handler, the first has siginfo at 168 and ucontext, with the
// registers at 40, at 296; the second has struct sigcontext of 16 bytes. The PSW
// comes first: its mask, then its address.
func s390ABI() *abi {
	return &abi{
		preserved: append(span(6, 13), 15),
		call: func(code []byte, order binary.ByteOrder) call {
			n := len(code)
			if n >= 6 && code[n-6] == 0xc0 && code[n-5] == 0xe5 { // brasl %r14
				return call{is: true, direct: true, offset: int64(int32(order.Uint32(code[n-4:])))*2 - 6}
			}
			return call{is: n >= 2 && code[n-2] == 0x0d && code[n-1] >= 0xe1 && code[n-1] <= 0xef} // basr %r14
		},
		callSize: 6,
		align:    2,
		trampolines: []trampoline{
			{code: []byte{0x0a, 173}, registers: 296 + 40 + 8, order: append([]string{"pswa"}, numbered("r", 16)...)}, // svc 173
			{code: []byte{0x0a, 119}, registers: 160 + 16 + 8, order: append([]string{"pswa"}, numbered("r", 16)...)}, // svc 119
		},
	}
}

// armABI follows AAPCS32, and struct rt_sigframe and sigframe of
// arch/arm/kernel/signal.c: ucontext, behind siginfo of 128 bytes in the first,
// has the registers at 32. What most ARM files have is neither .eh_frame nor
// .debug_frame, but the tables of the exception ABI.
func armABI() *abi {
	armOrder := append(numbered("r", 13), "sp", "lr", "pc")
	return &abi{
		preserved:  append(span(4, 11), 13),
		stackIsCFA: true,
		call: func(code []byte, order binary.ByteOrder) call {
			n := len(code)
			if n >= 2 {
				// Thumb: blx register
				if h := order.Uint16(code[n-2:]); h&0xff87 == 0x4780 {
					return call{is: true}
				}
			}
			if n < 4 {
				return call{}
			}
			first, second := order.Uint16(code[n-4:]), order.Uint16(code[n-2:])
			w := order.Uint32(code[n-4:])
			return call{is: first&0xf800 == 0xf000 && second&0xc000 == 0xc000 || // Thumb: bl, blx
				w&0x0f000000 == 0x0b000000 || w&0xfe000000 == 0xfa000000 || // bl, blx
				w&0x0ffffff0 == 0x012fff30} // blx register
		},
		callSize:        4,
		align:           2,
		exceptionTables: true,
		exits: [][]byte{
			{0x4f, 0xf0, 1, 7, 0, 0xdf},          // mov.w r7,#1; svc 0
			{1, 0x70, 0xa0, 0xe3, 0, 0, 0, 0xef}, // mov r7,#1; svc 0
		},
		prologue: thumbPrologue,
		trampolines: []trampoline{
			{code: []byte{0xad, 0x70, 0xa0, 0xe3, 0, 0, 0, 0xef}, registers: 128 + 32, order: armOrder}, // mov r7,#173; svc 0
			{code: []byte{0x77, 0x70, 0xa0, 0xe3, 0, 0, 0, 0xef}, registers: 32, order: armOrder},       // mov r7,#119; svc 0
			{code: []byte{0xad, 0x27, 0, 0xdf}, registers: 128 + 32, order: armOrder},                   // the same in Thumb
			{code: []byte{0x77, 0x27, 0, 0xdf}, registers: 32, order: armOrder},
			{code: []byte{0x4f, 0xf0, 0xad, 0x07, 0, 0xdf}, registers: 128 + 32, order: armOrder}, // and with mov.w
			{code: []byte{0x4f, 0xf0, 0x77, 0x07, 0, 0xdf}, registers: 32, order: armOrder},
		},
	}
}

// word32 decodes an instruction of 4 bytes.
func word32(decode func(uint32) call) func([]byte, binary.ByteOrder) call {
	return func(code []byte, order binary.ByteOrder) call {
		if len(code) < 4 {
			return call{}
		}
		return decode(order.Uint32(code[len(code)-4:]))
	}
}

// signedField is the signed number in the low bits of an instruction.
func signedField(w uint32, bits int) int64 { return int64(int32(w<<(32-bits)) >> (32 - bits)) }

// numbered gives the names prefix0, prefix1, … prefix(n-1).
func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}
