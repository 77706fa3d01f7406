package elfcore

import (
	"fmt"
	"strings"
)

// Names of signals by number, from 1 on. Most architectures have those of
// include/uapi/asm-generic/signal.h; the others follow the systems that were
// there before Linux (arch/*/include/uapi/asm/signal.h).
const (
	genericSignals = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
	mipsSignals    = "HUP INT QUIT ILL TRAP ABRT EMT FPE KILL BUS SEGV SYS PIPE ALRM TERM USR1 USR2 CHLD PWR WINCH URG IO STOP TSTP CONT TTIN TTOU VTALRM PROF XCPU XFSZ"
	bsdSignals     = "HUP INT QUIT ILL TRAP ABRT EMT FPE KILL BUS SEGV SYS PIPE ALRM TERM URG STOP TSTP CONT CHLD TTIN TTOU IO XCPU XFSZ VTALRM PROF WINCH PWR USR1 USR2"
	hpSignals      = "HUP INT QUIT ILL TRAP ABRT STKFLT FPE KILL BUS SEGV XCPU PIPE ALRM TERM USR1 USR2 CHLD PWR VTALRM PROF IO WINCH STOP TSTP CONT TTIN TTOU URG XFSZ SYS"
)

// signalName names a signal of the architecture.
func (a *Arch) signalName(n int) string {
	names := strings.Fields(a.Signals)
	if len(names) == 0 {
		names = strings.Fields(genericSignals)
	}
	if n > 0 && n <= len(names) {
		return "SIG" + names[n-1]
	}
	return fmt.Sprintf("signal %d", n)
}

// faults tells whether the kernel gives an address with a signal.
func faults(name string) bool {
	switch name {
	case "SIGILL", "SIGTRAP", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGEMT":
		return true
	}
	return false
}
