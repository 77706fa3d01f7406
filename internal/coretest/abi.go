package coretest

import (
	"debug/elf"
	"encoding/binary"
)

// ABI is how one architecture writes its cores. Tests that need an odd one
// change a copy.
type ABI struct {
	Class   elf.Class
	Order   binary.ByteOrder
	Machine elf.Machine
	// Flags is e_flags.
	Flags uint32
	// PrstatusSize, PIDOffset and RegOffset are sizeof(struct elf_prstatus),
	// offsetof(…, pr_pid) and offsetof(…, pr_reg), in bytes.
	PrstatusSize, PIDOffset, RegOffset int
	// RegSize is the size of one entry of pr_reg in bytes. It is the word's
	// but for x32.
	RegSize int
	// ShortIDs is for a 16-bit __kernel_uid_t in struct elf_prpsinfo: the
	// 32-bit form is then 124 bytes long instead of 128.
	ShortIDs bool
}

// The ABIs by linux/elfcore.h and each architecture's asm/elf.h. pr_reg is
// preceded by 112 bytes on 64-bit and 72 on 32-bit, and followed by
// pr_fpvalid, padded to the struct's alignment.
var (
	X86_64  = ABI{elf.ELFCLASS64, binary.LittleEndian, elf.EM_X86_64, 0, 336, 32, 112, 8, false}
	I386    = ABI{elf.ELFCLASS32, binary.LittleEndian, elf.EM_386, 0, 144, 24, 72, 4, true}
	AArch64 = ABI{elf.ELFCLASS64, binary.LittleEndian, elf.EM_AARCH64, 0, 392, 32, 112, 8, false}
	// ARM's e_flags says EABI version 5 (EF_ARM_EABI_VER5).
	ARM     = ABI{elf.ELFCLASS32, binary.LittleEndian, elf.EM_ARM, 0x05000000, 148, 24, 72, 4, true}
	RISCV64 = ABI{elf.ELFCLASS64, binary.LittleEndian, elf.EM_RISCV, 0, 376, 32, 112, 8, false}
	// PPC64LE's e_flags says ELF ABI version 2 (EF_PPC64_ABI).
	PPC64LE = ABI{elf.ELFCLASS64, binary.LittleEndian, elf.EM_PPC64, 2, 504, 32, 112, 8, false}
	S390X   = ABI{elf.ELFCLASS64, binary.BigEndian, elf.EM_S390, 0, 336, 32, 112, 8, false}
	// PPC32 and X32 are here for what no other has: a 32-bit big-endian core
	// with 32-bit uids, and a 32-bit core with 64-bit registers.
	PPC32 = ABI{elf.ELFCLASS32, binary.BigEndian, elf.EM_PPC, 0, 268, 24, 72, 4, false}
	X32   = ABI{elf.ELFCLASS32, binary.LittleEndian, elf.EM_X86_64, 0, 296, 24, 72, 8, true}

	PPC64       = ABI{elf.ELFCLASS64, binary.BigEndian, elf.EM_PPC64, 1, 504, 32, 112, 8, false}
	S390        = ABI{elf.ELFCLASS32, binary.BigEndian, elf.EM_S390, 0, 224, 24, 72, 4, true}
	MIPS64      = ABI{elf.ELFCLASS64, binary.LittleEndian, elf.EM_MIPS, 0, 480, 32, 112, 8, false}
	MIPS        = ABI{elf.ELFCLASS32, binary.BigEndian, elf.EM_MIPS, 0, 256, 24, 72, 4, false}
	LoongArch64 = ABI{elf.ELFCLASS64, binary.LittleEndian, elf.EM_LOONGARCH, 0, 480, 32, 112, 8, false}
	SPARC64     = ABI{elf.ELFCLASS64, binary.BigEndian, elf.EM_SPARCV9, 0, 408, 32, 112, 8, false}
	Alpha       = ABI{elf.ELFCLASS64, binary.LittleEndian, elf.EM_ALPHA, 0, 384, 32, 112, 8, false}
	HPPA        = ABI{elf.ELFCLASS32, binary.BigEndian, elf.EM_PARISC, 0, 396, 24, 72, 4, false}
	// M68K aligns to 2 bytes, so that there is no padding behind pr_cursig.
	M68K = ABI{elf.ELFCLASS32, binary.BigEndian, elf.EM_68K, 0, 154, 22, 70, 4, true}
)

func (a ABI) wordSize() int {
	if a.Class == elf.ELFCLASS64 {
		return 8
	}
	return 4
}

// Words encodes values as words (of the class's size) of the ABI.
func (a ABI) Words(values ...uint64) []byte {
	return a.integers(a.wordSize(), values)
}

func (a ABI) integers(size int, values []uint64) []byte {
	b := make([]byte, size*len(values))
	for i, v := range values {
		if size == 8 {
			a.Order.PutUint64(b[8*i:], v)
		} else {
			a.Order.PutUint32(b[4*i:], uint32(v))
		}
	}
	return b
}
