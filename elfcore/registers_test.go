package elfcore_test

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-delve/delve/pkg/dwarf/regnum"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// registerFile says where the kernel's headers put the registers of an
// architecture in pr_reg, counted in entries (asm/ptrace.h, asm/user.h,
// asm/reg.h, ELF_CORE_COPY_REGS).
type registerFile struct {
	abi             coretest.ABI
	pc, sp          int
	registers       map[string]int
	entries         int
	noThreadPointer bool
	// threadPointer is an entry of pr_reg, and 0 where that is not it.
	threadPointer int
	// mask are the bits of pc that are an address, 0 for all; bias is what the
	// ABI has the stack pointer below the stack.
	mask, bias elfcore.Addr
}

var registerFiles = map[string]registerFile{
	"x86_64": {abi: coretest.X86_64, pc: 16, sp: 19, threadPointer: 21, entries: 27, registers: map[string]int{
		"r15": 0, "rbp": 4, "rbx": 5, "rax": 10, "rdi": 14, "orig_rax": 15, "eflags": 18, "gs_base": 22, "gs": 26}},
	"x32": {abi: coretest.X32, pc: 16, sp: 19, threadPointer: 21, entries: 27, registers: map[string]int{"r15": 0, "orig_rax": 15}},
	"i386": {abi: coretest.I386, pc: 12, sp: 15, noThreadPointer: true, entries: 17, registers: map[string]int{
		"ebx": 0, "ecx": 1, "edx": 2, "esi": 3, "edi": 4, "ebp": 5, "eax": 6, "gs": 10, "orig_eax": 11, "eflags": 14}},
	"aarch64": {abi: coretest.AArch64, pc: 32, sp: 31, noThreadPointer: true, entries: 34, registers: map[string]int{
		"x0": 0, "x8": 8, "x29": 29, "x30": 30, "pstate": 33}},
	"armhf": {abi: coretest.ARM, pc: 15, sp: 13, noThreadPointer: true, entries: 18, registers: map[string]int{
		"r0": 0, "r7": 7, "r11": 11, "lr": 14, "cpsr": 16, "orig_r0": 17}},
	"riscv64": {abi: coretest.RISCV64, pc: 0, sp: 2, threadPointer: 4, entries: 32, registers: map[string]int{
		"ra": 1, "gp": 3, "t0": 5, "s0": 8, "s1": 9, "a0": 10, "a7": 17, "s2": 18, "s11": 27, "t3": 28, "t6": 31}},
	"ppc64le": {abi: coretest.PPC64LE, pc: 32, sp: 1, threadPointer: 13, entries: 48, registers: map[string]int{
		"r0": 0, "r3": 3, "r31": 31, "msr": 33, "orig_r3": 34, "ctr": 35, "link": 36, "xer": 37, "ccr": 38, "trap": 40, "result": 43}},
	"ppc": {abi: coretest.PPC32, pc: 32, sp: 1, threadPointer: 2, entries: 48, registers: map[string]int{
		"r0": 0, "r31": 31, "msr": 33, "orig_r3": 34, "ctr": 35, "link": 36, "trap": 40, "result": 43}},
	"ppc64": {abi: coretest.PPC64, pc: 32, sp: 1, threadPointer: 13, entries: 48, registers: map[string]int{
		"r0": 0, "r31": 31, "msr": 33, "orig_r3": 34, "link": 36, "trap": 40, "result": 43}},
	"s390": {abi: coretest.S390, pc: 1, sp: 17, threadPointer: 18, entries: 35, mask: 0x7fffffff, registers: map[string]int{
		"pswm": 0, "r0": 2, "r14": 16, "a1": 19, "a15": 33, "orig_r2": 34}},
	"mips64": {abi: coretest.MIPS64, pc: 34, sp: 29, noThreadPointer: true, entries: 45, registers: map[string]int{
		"r0": 0, "r2": 2, "r4": 4, "r31": 31, "lo": 32, "hi": 33, "badvaddr": 35, "status": 36, "cause": 37}},
	"mips": {abi: coretest.MIPS, pc: 40, sp: 35, noThreadPointer: true, entries: 45, registers: map[string]int{
		"r0": 6, "r2": 8, "r4": 10, "r31": 37, "lo": 38, "hi": 39, "badvaddr": 41, "status": 42, "cause": 43}},
	"loongarch64": {abi: coretest.LoongArch64, pc: 33, sp: 3, threadPointer: 2, entries: 45, registers: map[string]int{
		"r0": 0, "r1": 1, "r4": 4, "r22": 22, "r31": 31, "orig_a0": 32, "badv": 34}},
	"sparc64": {abi: coretest.SPARC64, pc: 33, sp: 14, bias: 2047, threadPointer: 7, entries: 36, registers: map[string]int{
		"g0": 0, "o0": 8, "o7": 15, "l0": 16, "i0": 24, "i6": 30, "i7": 31, "tstate": 32, "tnpc": 34, "y": 35}},
	"alpha": {abi: coretest.Alpha, pc: 31, sp: 30, threadPointer: 32, entries: 33, registers: map[string]int{
		"r0": 0, "r15": 15, "r26": 26, "r29": 29}},
	"hppa": {abi: coretest.HPPA, pc: 40, sp: 30, threadPointer: 53, entries: 80, mask: 0xfffffffc, registers: map[string]int{
		"r0": 0, "r2": 2, "r3": 3, "r31": 31, "sr0": 32, "sr7": 39, "iaoq1": 41, "iasq0": 42, "iasq1": 43, "sar": 44, "iir": 45, "isr": 46, "ior": 47, "ipsw": 48, "cr0": 49, "cr24": 50}},
	"m68k": {abi: coretest.M68K, pc: 18, sp: 15, noThreadPointer: true, entries: 20, registers: map[string]int{
		"d1": 0, "d7": 6, "a0": 7, "a6": 13, "d0": 14, "orig_d0": 16, "sr": 17, "fmtvec": 19}},
	// The thread pointer and orig_gpr2 are behind these: TestS390XRegisters.
	"s390x": {abi: coretest.S390X, pc: 1, sp: 17, entries: 18, noThreadPointer: true, registers: map[string]int{"pswm": 0, "r0": 2, "r2": 4, "r14": 16}},
}

// value is what entry i of pr_reg holds: in 64 bits, another one in each half.
func value(abi coretest.ABI, i int) uint64 {
	v := 0xc0000000 + uint64(i)*0x01010101
	if abi.RegSize == 8 {
		v |= (0x70000000 + uint64(i)) << 32
	}
	return v
}

func TestRegisters(t *testing.T) {
	for name, file := range registerFiles {
		t.Run(name, func(t *testing.T) {
			abi := file.abi
			values := make([]uint64, file.entries)
			for i := range values {
				values[i] = value(abi, i)
			}
			b := withNotes(abi, abi.Prstatus(4711, 11), abi.Prstatus(-4712, 0, values...)).Bytes()
			c := read(t, b)
			wantWarnings(t, c)
			if !slices.Equal(tids(c), []int{4711, -4712}) || c.Threads[0].Signal != 11 || c.Threads[1].Signal != 0 {
				t.Fatalf("threads %v with signals %d, %d", tids(c), c.Threads[0].Signal, c.Threads[1].Signal)
			}
			if c.Thread(4711) != &c.Threads[0] || c.Thread(-4712) != &c.Threads[1] || c.Thread(1) != nil {
				t.Error("threads are not found by their ids")
			}
			th := &c.Threads[1]
			address := func(entry int) elfcore.Addr {
				if isWide(abi) {
					return elfcore.Addr(values[entry])
				}
				return elfcore.Addr(uint32(values[entry]))
			}
			wantPC := address(file.pc)
			if file.mask != 0 {
				wantPC &= file.mask
			}
			if pc, ok := th.PC(); !ok || pc != wantPC {
				t.Errorf("pc is %s, want %s", pc, wantPC)
			}
			if sp, ok := th.SP(); !ok || sp != address(file.sp)+file.bias {
				t.Errorf("sp is %s, want %s", sp, address(file.sp)+file.bias)
			}
			offset := func(entry int) int64 {
				return int64(len(b) - (abi.PrstatusSize+3)&^3 + abi.RegOffset + entry*abi.RegSize)
			}
			for r, entry := range file.registers {
				if got, ok := th.Register(r); !ok || got != values[entry] {
					t.Errorf("%s is %#x, want %#x", r, got, values[entry])
				}
				if got, ok := th.RegisterOffset(r); !ok || got != offset(entry) {
					t.Errorf("%s stands at %#x, want %#x", r, got, offset(entry))
				}
			}
			if _, ok := th.Register("nonesuch"); ok {
				t.Error("there is a register that is not")
			}
			if _, ok := th.RegisterOffset("nonesuch"); ok {
				t.Error("a register that is not stands somewhere")
			}
			if name == "s390x" {
				return
			}
			tp, at, ok := th.ThreadPointer()
			if ok == file.noThreadPointer || ok && (tp != address(file.threadPointer) || at != offset(file.threadPointer)) {
				t.Errorf("the thread pointer is %s at %#x (%v)", tp, at, ok)
			}
		})
	}
}

// On s390x the access registers have 32 bits; the first two are the thread
// pointer. Offsets are of s390_regs, asm/ptrace.h.
func TestS390XRegisters(t *testing.T) {
	abi := coretest.S390X
	n := abi.Prstatus(1, 0)
	for i := range 16 {
		abi.Order.PutUint32(n.Desc[256+4*i:], 0xac000000+uint32(i))
	}
	abi.Order.PutUint64(n.Desc[320:], 0x1122334455667788)
	c := readNotes(t, abi, n)
	th := &c.Threads[0]
	if tp, at, ok := th.ThreadPointer(); !ok || tp != 0xac000000_ac000001 || at != th.NoteOffset+256 {
		t.Errorf("the thread pointer is %s at %#x (%v)", tp, at, ok)
	}
	for r, want := range map[string]uint64{"a0": 0xac000000, "a1": 0xac000001, "a15": 0xac00000f, "orig_r2": 0x1122334455667788} {
		if got, ok := th.Register(r); !ok || got != want {
			t.Errorf("%s is %#x, want %#x", r, got, want)
		}
	}
}

// Where no register is the thread pointer, a note of the thread has it.
func TestThreadPointerNotes(t *testing.T) {
	arm, i386 := coretest.AArch64, coretest.I386
	tls := func(values ...uint64) coretest.Note {
		return coretest.Note{Name: "LINUX", Type: 0x401, Desc: arm.Words(values...)}
	}
	// struct user_desc of asm/ldt.h: entry_number, base_addr, limit, flags.
	descs := func(values ...uint64) coretest.Note {
		return coretest.Note{Name: "LINUX", Type: 0x200, Desc: i386.Words(values...)}
	}
	const gs = 0x33 // entry 6, global table, privilege 3
	withGS := func(tid int32, selector uint64) coretest.Note {
		return i386.Prstatus(tid, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, selector)
	}
	entries := []uint64{12, 0xbad00000, 1, 1, 6, 0xf7c0d740, 0xfffff, 0x51}
	short := tls(1)
	short.Desc = short.Desc[:7]
	for _, c := range []struct {
		name  string
		abi   coretest.ABI
		notes []coretest.Note
		want  elfcore.Addr // 0 for none
		at    int64        // from the last note's descriptor
	}{
		{"aarch64", arm, []coretest.Note{arm.Prstatus(1, 0), tls(0xffff90001700)}, 0xffff90001700, 0},
		{"aarch64, with tpidr2", arm, []coretest.Note{arm.Prstatus(1, 0), tls(0xffff90001700, 0xbad)}, 0xffff90001700, 0},
		{"aarch64, without the note", arm, []coretest.Note{arm.Prstatus(1, 0)}, 0, 0},
		{"aarch64, the note of another", arm, []coretest.Note{arm.Prstatus(2, 0), tls(0xbad), arm.Prstatus(1, 0)}, 0, 0},
		{"aarch64, the note of none", arm, []coretest.Note{tls(0xbad), arm.Prstatus(1, 0)}, 0, 0},
		{"aarch64, cut", arm, []coretest.Note{arm.Prstatus(1, 0), short}, 0, 0},
		{"i386", i386, []coretest.Note{withGS(1, gs), descs(entries...)}, 0xf7c0d740, 20},
		{"i386, with garbage above the selector", i386, []coretest.Note{withGS(1, 0xbeef0000|gs), descs(entries...)}, 0xf7c0d740, 20},
		{"i386, no entry for the selector", i386, []coretest.Note{withGS(1, 0x63+8), descs(entries...)}, 0, 0},
		{"i386, cut", i386, []coretest.Note{withGS(1, gs), descs(entries[:7]...)}, 0, 0},
		{"i386, without the note", i386, []coretest.Note{withGS(1, gs)}, 0, 0},
	} {
		got := readNotes(t, c.abi, c.notes...)
		at := got.Size - int64(len(c.notes[len(c.notes)-1].Desc)) + c.at
		tp, offset, ok := got.Thread(1).ThreadPointer()
		if ok != (c.want != 0) || ok && (tp != c.want || offset != at) {
			t.Errorf("%s: %s at %#x (%v), want %s at %#x", c.name, tp, offset, ok, c.want, at)
		}
	}
}

func TestThreadNotes(t *testing.T) {
	abi := coretest.AArch64
	note := func(typ elf.NType, desc string) coretest.Note {
		return coretest.Note{Name: "LINUX", Type: typ, Desc: []byte(desc)}
	}
	b := withNotes(abi, abi.Prstatus(1, 0), note(0x406, "pac mask of 1"), note(0x401, "tls of 1"), note(0x401, "tls again"), note(0x404, "not kept"), abi.Prstatus(2, 0), note(0x401, "tls of 2")).Bytes()
	c := read(t, b)
	for _, want := range []struct {
		tid  int
		typ  elf.NType
		desc string
	}{{1, 0x406, "pac mask of 1"}, {1, 0x401, "tls of 1"}, {1, 0x404, ""}, {2, 0x406, ""}, {2, 0x401, "tls of 2"}} {
		desc, offset, ok := c.Thread(want.tid).Note(want.typ)
		if string(desc) != want.desc || ok != (want.desc != "") || ok && offset != int64(strings.Index(string(b), want.desc)) {
			t.Errorf("note %#x of thread %d is %q at %#x (%v)", int(want.typ), want.tid, desc, offset, ok)
		}
	}
}

// The first of several threads with one id is found by it.
func TestEqualThreadIDs(t *testing.T) {
	abi := coretest.X86_64
	c := readNotes(t, abi, abi.Prstatus(1, 0), abi.Prstatus(5, 0), abi.Prstatus(5, 0))
	if c.Thread(5) != &c.Threads[1] {
		t.Errorf("thread 5 is %+v", c.Thread(5))
	}
}

func TestShortPrstatus(t *testing.T) {
	for name, file := range registerFiles {
		n := file.abi.Prstatus(1, 0)
		n.Desc = n.Desc[:len(n.Desc)-1]
		c := readNotes(t, file.abi, n, file.abi.Prstatus(2, 0))
		if !slices.Equal(tids(c), []int{2}) {
			t.Errorf("%s: threads %v", name, tids(c))
		}
		wantWarnings(t, c, elfcore.Warning{Offset: c.Threads[0].NoteOffset - int64(len(n.Desc)+3)&^3 - 20, Text: "NT_PRSTATUS has"})
	}
}

// Every name that a table uses is one of its registers.
func TestRegisterNames(t *testing.T) {
	for name, file := range registerFiles {
		a := readNotes(t, file.abi, file.abi.Prstatus(1, 0)).Arch
		names := map[string]bool{"": true}
		for _, r := range a.Regs {
			if names[r.Name] {
				t.Errorf("%s: %s stands twice", name, r.Name)
			}
			names[r.Name] = true
			if end := a.PrStatus.Regset + r.Offset + r.Size; end > a.PrStatus.Size {
				t.Errorf("%s: %s ends at %d, behind struct elf_prstatus", name, r.Name, end)
			}
		}
		used := slices.Concat([]string{a.PC, a.SP, a.FP, a.Return, a.TP.Reg, a.TP.High, a.TP.Low, a.TP.Selector, a.Syscall.Number, a.Syscall.Return}, a.Syscall.Args)
		for _, u := range used {
			if !names[u] {
				t.Errorf("%s: %q is not a register", name, u)
			}
		}
		if a.Known() != (a.PC != "" && a.SP != "") {
			t.Errorf("%s: known, but without pc or sp", name)
		}
	}
}

// TestDWARFNumbers compares the numbers for call-frame information with those
// of Delve and of the ABIs.
func TestDWARFNumbers(t *testing.T) {
	named := func(toName func(uint64) string, count uint64) string {
		var names []string
		for n := range count {
			names = append(names, strings.ToLower(toName(n)))
		}
		return strings.Join(names, " ")
	}
	general := func(n uint64) string { return fmt.Sprint("r", n) }
	for name, want := range map[string]string{ // from number 0 on
		"x86_64":  named(regnum.AMD64ToName, 17),
		"i386":    named(regnum.I386ToName, 10),
		"aarch64": named(regnum.ARM64ToName, 33),
		// 64-Bit ELF V2 ABI for Power, table 2.26.
		"ppc64le": named(general, 32),
		// DWARF for the Arm Architecture, 4.1.
		"armhf": named(general, 13) + " sp lr pc",
		// RISC-V ELF psABI, "DWARF Register Numbers" and "Integer Register Convention".
		"riscv64": "zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6",
		// ELF ABI s390x supplement, table 1.4.
		"s390x": named(general, 16),
	} {
		numbers := map[string]int{"zero": 0} // no core has that
		for _, r := range readNotes(t, registerFiles[name].abi).Arch.Regs {
			numbers[r.Name] = r.DWARF
		}
		for n, register := range strings.Fields(want) {
			if got, ok := numbers[register]; !ok || got != n {
				t.Errorf("%s: %s is DWARF register %d, want %d", name, register, got, n)
			}
		}
	}
}
