package unwind

import (
	"bytes"
	"debug/elf"
	"fmt"
	"math"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// Results that the kernel leaves when a signal, and the end of the process is
// one, takes a thread out of a system call that it was waiting in
// (include/linux/errno.h): EINTR where the call is not begun again.
var interrupted = []int64{-4, -512, -513, -514, -516}

const (
	stateRunning = "running"
	stateUnknown = ""
)

// State says what a thread was doing when it stopped, in the manner of Go's
// tracebacks: the system call that it waited in, as "futex wait", or "running".
// It is empty where the core does not tell.
func (u *Unwinder) State(thread int) string {
	if thread < 0 || thread >= len(u.core.Threads) {
		return stateUnknown
	}
	t := &u.core.Threads[thread]
	number, in, known := u.systemCall(t)
	switch {
	case !known:
		return stateUnknown
	case !in:
		return stateRunning
	}
	column := numberColumn(u.core.Arch.Machine)
	if column < 0 {
		return stateUnknown
	}
	if u.core.Arch.Machine == elf.EM_X86_64 && u.core.Class == elf.ELFCLASS32 {
		number &^= 1 << 30 // __X32_SYSCALL_BIT
	}
	for _, c := range blockingCalls {
		if c.numbers[column] >= 0 && uint64(c.numbers[column]) == number {
			return c.label
		}
	}
	return fmt.Sprintf("syscall %d", number)
}

// systemCall tells whether a thread waits in a system call, and in which.
func (u *Unwinder) systemCall(t *elfcore.Thread) (number uint64, in, known bool) {
	s := u.core.Arch.Syscall
	if s.Note != 0 {
		desc, _, ok := t.Note(s.Note)
		if !ok || len(desc) < 4 {
			return 0, false, false
		}
		number = uint64(u.core.ByteOrder.Uint32(desc) & math.MaxUint16)
		if number == 0 {
			return 0, false, true
		}
	} else if n, ok := t.Register(s.Number); ok {
		number = u.trim(n)
	} else {
		return 0, false, false
	}
	if s.Trap != "" {
		trap, ok := t.Register(s.Trap)
		if !ok || !slices.Contains(s.InCall, trap) {
			return 0, false, ok
		}
	}
	result, ok := t.Register(s.Return)
	if !ok || u.core.Producer == elfcore.QEMUUser {
		return 0, false, false
	}
	value := int64(extend(result, u.core.Arch.WordSize()))
	if s.Rewound {
		pc, ok := t.PC()
		if !ok {
			return number, false, false
		}
		at, known := u.systemCallAt(pc)
		return number, at == 0 || at == 1 && value == interrupted[0], known
	}
	return number, slices.Contains(interrupted, value), true
}

// systemCallAt tells where an address is by a system call instruction, to which
// the kernel goes back on some architectures: 0 for in front of it, 1 for behind
// it. It is not known without the code.
func (u *Unwinder) systemCallAt(pc elfcore.Addr) (where int, known bool) {
	instructions := systemCallCode(u.core.Arch.Machine)
	for where, back := range []elfcore.Addr{0, 1} {
		known = false
		for _, code := range instructions {
			b := make([]byte, len(code))
			if n, err := u.set.ReadMemory(b, pc-back*elfcore.Addr(len(code))); err != nil || n < len(b) {
				continue
			}
			known = true
			if bytes.Equal(b, code) {
				return where, true
			}
		}
	}
	return -1, known
}

// systemCallCode are the instructions that make a system call, little-endian.
func systemCallCode(m elf.Machine) [][]byte {
	switch m {
	case elf.EM_X86_64:
		return [][]byte{{0x0f, 0x05}} // syscall
	case elf.EM_386:
		return [][]byte{{0xcd, 0x80}} // int $0x80
	case elf.EM_AARCH64:
		return [][]byte{{0x01, 0, 0, 0xd4}} // svc #0
	case elf.EM_RISCV:
		return [][]byte{{0x73, 0, 0, 0}} // ecall
	case elf.EM_ARM:
		return [][]byte{{0x00, 0xdf}, {0, 0, 0, 0xef}} // Thumb and ARM: svc #0
	}
	return nil
}
