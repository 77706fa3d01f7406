package elfcore_test

import (
	"debug/elf"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// What the union of a siginfo_t holds depends on the code (kernel/signal.c,
// siginfo_layout): the address that faulted, who sent the signal, or neither.
func TestSignalOrigin(t *testing.T) {
	const value = 0x51525354
	for name, abi := range map[string]coretest.ABI{"64 little": coretest.X86_64, "64 big": coretest.S390X, "32 little": coretest.I386} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				signal       unix.Signal
				code         int
				address, pid bool
			}{
				{unix.SIGSEGV, 1, true, false},     // SEGV_MAPERR
				{unix.SIGSEGV, 2, true, false},     // SEGV_ACCERR
				{unix.SIGBUS, 3, true, false},      // BUS_OBJERR
				{unix.SIGILL, 2, true, false},      // ILL_ILLOPN
				{unix.SIGFPE, 1, true, false},      // FPE_INTDIV
				{unix.SIGTRAP, 1, true, false},     // TRAP_BRKPT
				{unix.SIGSEGV, 0x80, false, false}, // SI_KERNEL: the address is not told
				{unix.SIGSYS, 1, false, false},     // SYS_SECCOMP
				{unix.SIGCHLD, 1, false, false},    // CLD_EXITED
				{unix.SIGSEGV, 0, false, true},     // SI_USER
				{unix.SIGQUIT, 0, false, true},
				{unix.SIGABRT, -1, false, true},  // SI_QUEUE
				{unix.SIGALRM, -2, false, false}, // SI_TIMER
				{unix.SIGUSR1, -3, false, true},  // SI_MESGQ
				{unix.SIGIO, -5, false, false},   // SI_SIGIO
				{unix.SIGABRT, -6, false, true},  // SI_TKILL
			} {
				cn := readNotes(t, abi, abi.Prstatus(1, uint16(c.signal)), siginfo(abi, int32(c.signal), int32(c.code), value))
				s := cn.Signal
				if s == nil || s.Number != int(c.signal) || s.Name() != unix.SignalName(c.signal) || s.Code == nil || *s.Code != c.code {
					t.Errorf("%v with code %d is read as %+v", c.signal, c.code, s)
					continue
				}
				if (s.Address != nil) != c.address || c.address && *s.Address != value {
					t.Errorf("%v with code %d: address %v", c.signal, c.code, s.Address)
				}
				if (s.Sender != nil) != c.pid || c.pid && *s.Sender != value {
					t.Errorf("%v with code %d: sender %v", c.signal, c.code, s.Sender)
				}
				if cn.CrashThread() != &cn.Threads[0] {
					t.Errorf("the thread that died is %+v", cn.CrashThread())
				}
			}
		})
	}
}

// siginfo has a value at the start of its union: si_addr, or si_pid.
func siginfo(abi coretest.ABI, signo, code int32, value uint32) coretest.Note {
	n := abi.Siginfo(coretest.Siginfo{Signo: signo, Errno: 0x77, Code: code, Addr: uint64(value)})
	if code <= 0 {
		abi.Order.PutUint32(n.Desc[unionOffset(abi):], value)
	}
	return n
}

// unionOffset is offsetof(siginfo_t, _sifields): three ints, then what has the
// alignment of a word.
func unionOffset(abi coretest.ABI) int {
	if isWide(abi) {
		return 16
	}
	return 12
}

func TestShortSiginfo(t *testing.T) {
	abi := coretest.X86_64
	whole := abi.Siginfo(coretest.Siginfo{Signo: 11, Code: 1, Addr: 0x1234})
	for size := range unionOffset(abi) + 8 {
		short := whole
		short.Desc = whole.Desc[:size]
		c := readNotes(t, abi, abi.Prstatus(1, 6), short)
		switch {
		case size < 12:
			wantWarnings(t, c, elfcore.Warning{Offset: c.Size - int64(size+3)&^3, Text: "NT_SIGINFO"})
			if c.Signal.Number != 6 || c.Signal.Code != nil { // from NT_PRSTATUS
				t.Errorf("of %d bytes: %+v", size, c.Signal)
			}
		case c.Signal.Number != 11 || *c.Signal.Code != 1 || c.Signal.Address != nil || c.Signal.Sender != nil:
			t.Errorf("of %d bytes: %+v", size, c.Signal)
		}
	}
}

// The thread that died need not be the first.
func TestCrashThread(t *testing.T) {
	abi := coretest.X86_64
	segv, none := abi.Siginfo(coretest.Siginfo{Signo: 11, Code: 1, Addr: 1}), abi.Siginfo(coretest.Siginfo{})
	stop := abi.Siginfo(coretest.Siginfo{Signo: 19})
	process := abi.Prpsinfo(coretest.Prpsinfo{PID: 1})
	for _, c := range []struct {
		name     string
		notes    []coretest.Note
		sections coretest.Sections
		signal   int // 0 for none
		tid      int // 0 for none
	}{
		{"the kernel's first", []coretest.Note{abi.Prstatus(7, 11), process, segv, abi.Prstatus(8, 11)}, 0, 11, 7},
		{"behind others", []coretest.Note{abi.Prstatus(7, 0), abi.Prstatus(8, 11), segv, abi.Prstatus(9, 0)}, 0, 11, 8},
		{"no NT_SIGINFO", []coretest.Note{abi.Prstatus(7, 0), abi.Prstatus(8, 4)}, 0, 4, 8},
		{"one without a signal", []coretest.Note{abi.Prstatus(7, 0), none, abi.Prstatus(8, 4)}, 0, 4, 8},
		{"a living process", []coretest.Note{process, abi.Prstatus(7, 0), abi.Prstatus(8, 0)}, 0, 0, 0},
		{"a living process, gdb's way", []coretest.Note{process, abi.Prstatus(7, 0), stop, abi.Prstatus(8, 0), stop}, coretest.NullSection, 0, 0},
		{"a dead process, gdb's way", []coretest.Note{process, abi.Prstatus(7, 11), segv, abi.Prstatus(8, 0), stop}, coretest.NullSection, 11, 7},
		{"no threads", []coretest.Note{segv}, 0, 11, 0},
	} {
		core := withNotes(abi, c.notes...)
		core.Sections = c.sections
		if c.sections != coretest.NoSections {
			core.EditHeader = func(h *elf.Header64) { h.Shnum = 2 }
		}
		got := read(t, core.Bytes())
		if (got.Signal != nil) != (c.signal != 0) || got.Signal != nil && got.Signal.Number != c.signal {
			t.Errorf("%s: signal %+v, want %d", c.name, got.Signal, c.signal)
		}
		if died := got.CrashThread(); (died != nil) != (c.tid != 0) || died != nil && died.TID != c.tid {
			t.Errorf("%s: thread %+v died, want %d", c.name, died, c.tid)
		}
	}
}

func TestSignalNames(t *testing.T) {
	name := func(abi coretest.ABI, n int) string {
		return readNotes(t, abi, abi.Prstatus(1, uint16(n))).Signal.Name()
	}
	for n := 1; n < 32; n++ {
		if got, want := name(coretest.X86_64, n), unix.SignalName(unix.Signal(n)); got != want {
			t.Errorf("signal %d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{32: "signal 32", 64: "signal 64", 0xffff: "signal 65535"} {
		if got := name(coretest.X86_64, n); got != want {
			t.Errorf("signal %d is %s, want %s", n, got, want)
		}
	}
	// What cpp of each architecture says of signal.h.
	for _, x := range []struct {
		abi  coretest.ABI
		want map[int]string
	}{
		{coretest.MIPS, map[int]string{7: "SIGEMT", 10: "SIGBUS", 11: "SIGSEGV", 12: "SIGSYS", 16: "SIGUSR1", 18: "SIGCHLD", 23: "SIGSTOP", 31: "SIGXFSZ"}},
		{coretest.MIPS64, map[int]string{6: "SIGABRT", 10: "SIGBUS", 31: "SIGXFSZ"}},
		{coretest.SPARC64, map[int]string{10: "SIGBUS", 12: "SIGSYS", 17: "SIGSTOP", 20: "SIGCHLD", 29: "SIGPWR", 31: "SIGUSR2"}},
		{coretest.Alpha, map[int]string{10: "SIGBUS", 12: "SIGSYS", 17: "SIGSTOP", 20: "SIGCHLD", 31: "SIGUSR2"}},
		{coretest.HPPA, map[int]string{7: "SIGSTKFLT", 10: "SIGBUS", 12: "SIGXCPU", 18: "SIGCHLD", 24: "SIGSTOP", 31: "SIGSYS"}},
		{coretest.M68K, map[int]string{7: "SIGBUS", 10: "SIGUSR1", 31: "SIGSYS"}},
	} {
		for n, want := range x.want {
			if got := name(x.abi, n); got != want {
				t.Errorf("%s: signal %d is %s, want %s", x.abi.Machine, n, got, want)
			}
		}
	}
}

// MIPS alone has si_code in front of si_errno.
func TestSignalCodeOfMIPS(t *testing.T) {
	for _, abi := range []coretest.ABI{coretest.MIPS, coretest.MIPS64} {
		note := abi.Siginfo(coretest.Siginfo{Signo: 10, Errno: 2, Code: 0, Addr: 0x1234})
		s := readNotes(t, abi, abi.Prstatus(1, 10), note).Signal
		if s == nil || *s.Code != 2 || s.Address == nil || *s.Address != 0x1234 {
			t.Errorf("%s: the signal is %+v", abi.Class, s)
		}
	}
}
