package elfcore

// Signal is why the process was dumped.
type Signal struct {
	Number int
	// Code is si_code, nil where only the number is known.
	Code *int
	// Address is si_addr: what the process touched, or executed, that it must
	// not. Nil for signals without an address.
	Address *Addr
	// Sender is si_pid of a signal that a process sent, nil else.
	Sender *int

	name string
}

// Name is the signal's name, SIGSEGV and so on: numbers differ by architecture.
func (s *Signal) Name() string { return s.name }

// parseSigInfo reads siginfo_t (include/uapi/asm-generic/siginfo.h). What its
// union holds depends on the code: siginfo_layout of kernel/signal.c.
func (c *Core) parseSigInfo(desc []byte, offset int64) {
	if !c.Arch.Known() {
		return // it may have an order or numbers of its own, as MIPS has
	}
	if len(desc) < 12 {
		c.warn(offset, "NT_SIGINFO has only %d bytes: the cause of death is not known", len(desc))
		return
	}
	codeAt := 8
	if c.Arch.CodeFirst {
		codeAt = 4
	}
	number := int(int32(c.ByteOrder.Uint32(desc[0:])))
	code := int(int32(c.ByteOrder.Uint32(desc[codeAt:])))
	if number == 0 {
		return
	}
	s := &Signal{Number: number, Code: &code, name: c.Arch.signalName(number)}
	union := 12
	w := c.Arch.WordSize()
	if w == 8 {
		union = 16
	}
	if len(desc) >= union+w {
		switch {
		case code > 0 && code < siKernel && faults(s.name):
			a := Addr(c.WordOf(desc[union:]))
			s.Address = &a
		case code <= 0 && code != siTimer && code != siSigIO:
			pid := int(int32(c.ByteOrder.Uint32(desc[union:])))
			s.Sender = &pid
		}
	}
	if c.Signal == nil {
		// gcore writes one note a thread; the kernel one, behind the thread
		// that died, which it writes first.
		c.Signal = s
		c.signalThread = max(len(c.Threads)-1, 0)
	}
}

// Codes of a signal's origin that come without an address or a sender.
const (
	siKernel = 0x80 // SI_KERNEL: the kernel, which does not tell an address
	siTimer  = -2   // SI_TIMER
	siSigIO  = -5   // SI_SIGIO
)

// settleSignal takes the signal from pr_cursig where NT_SIGINFO did not tell,
// and drops the one with which gdb had stopped a living process for gcore.
func (c *Core) settleSignal() {
	if c.Signal != nil {
		if t := c.CrashThread(); c.Producer == GCore && t != nil && t.Signal == 0 {
			c.Signal = nil
		}
		return
	}
	for i := range c.Threads {
		if n := c.Threads[i].Signal; n != 0 {
			c.Signal, c.signalThread = &Signal{Number: n, name: c.Arch.signalName(n)}, i
			return
		}
	}
}
