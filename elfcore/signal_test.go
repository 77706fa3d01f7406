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
	for n := range 32 {
		want := unix.SignalName(unix.Signal(n))
		if n == 0 {
			want = "signal 0"
		}
		if got := (&elfcore.Signal{Number: n}).Name(); got != want {
			t.Errorf("signal %d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{32: "signal 32", 64: "signal 64", -1: "signal -1", 1 << 30: "signal 1073741824"} {
		if got := (&elfcore.Signal{Number: n}).Name(); got != want {
			t.Errorf("signal %d is %s, want %s", n, got, want)
		}
	}
}
