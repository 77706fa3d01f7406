package unwind

import (
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// Reasons why a walk ends. The first two are those of a whole stack.
const (
	stopStart    = "the thread starts here"
	stopZero     = "the return address is 0"
	stopLimit    = "more frames than are followed"
	stopCycle    = "the stack leads back to itself"
	stopInner    = "the caller's frame would be below: the stack is damaged, or the function changed to another one"
	stopNoThread = "the core does not have the registers of the thread"
)

// StopEnough is why a walk ends that was not to go on.
const StopEnough = "as many frames as were asked for"

// maxSignals bounds the signal frames of one stack: only there may the stack
// pointer go down, to an alternate stack.
const maxSignals = 256

// walker is one walk up a stack.
type walker struct {
	*Unwinder
	thread *elfcore.Thread
	frame  Frame
	regs   registers
	// cfa is that of the frame below, 0 in the beginning and behind a signal
	// frame; signals are the CFAs of signal frames.
	cfa     uint64
	signals []uint64
	// innermost tells that the frame is the one that the thread was stopped
	// in, or that a signal interrupted.
	innermost bool
	// next are the caller's registers.
	next  registers
	found Found

	stop  string
	whole bool
}

// Walk visits the frames of a thread, given by its index in Core.Threads, from
// the innermost outwards, until visit returns false. The registers are valid
// during the call only. Walk says why it ended, and whether that is because the
// thread starts there.
func (u *Unwinder) Walk(thread int, visit func(Frame, Registers) bool) (stop string, whole bool) {
	if thread < 0 || thread >= len(u.core.Threads) {
		return stopNoThread, false
	}
	w := &walker{Unwinder: u, thread: &u.core.Threads[thread], innermost: true}
	var ok bool
	if w.regs, ok = u.file.of(&u.core.Threads[thread]); !ok {
		return stopNoThread, false
	}
	w.frame = Frame{PC: elfcore.Addr(w.regs.pc), Found: FromThread, exact: true}
	for n := 1; ; n++ {
		more := w.advance()
		if !visit(w.frame, Registers{u.file, &w.regs, u.core.Arch}) {
			return StopEnough, false
		}
		u.work++
		switch {
		case !more:
			return w.stop, w.whole
		case n >= MaxFrames || u.work > maxWork && n >= maxTired:
			return stopLimit, false
		}
		w.innermost = w.frame.Signal
		w.frame = Frame{PC: elfcore.Addr(w.next.pc), Found: w.found, exact: w.frame.Signal}
		w.regs = w.next
	}
}

func (w *walker) end(stop string, whole bool) bool {
	w.stop, w.whole = stop, whole
	return false
}

// advance finds the caller of the frame, and completes what is known of the
// frame itself.
func (w *walker) advance() bool {
	row, err := w.row(uint64(w.frame.Lookup()))
	if row == nil && w.innermost {
		row = w.parentRow()
	}
	t := w.trampoline()
	switch {
	// The code of a trampoline comes first: what AArch64's vDSO had as its
	// call-frame information leads past the function that was interrupted.
	case t != nil:
		if !w.bySignal(t) {
			return w.end("the registers that a signal saved cannot be read", false)
		}
		return w.check(0)
	case w.innermost && len(w.signals) == 0 && w.newborn():
		return w.end(stopStart, true)
	case row != nil:
		return w.byRow(row)
	case w.startsThread():
		return w.end(stopStart, true)
	}
	cfa := uint64(0)
	if w.atCall() {
		cfa = w.byTables(FromTables)
	}
	if cfa == 0 {
		cfa = w.guess()
	}
	if cfa == 0 {
		return w.end(w.nothing(err), false)
	}
	return w.check(cfa)
}

// byRow finds the caller by call-frame information, and where that leads
// nowhere, by guesses.
func (w *walker) byRow(row *row) bool {
	cfa, err := w.byCFI(row)
	if cfa > w.cfa {
		w.frame.CFA = elfcore.Addr(cfa)
	}
	switch {
	case errors.Is(err, errOutermost):
		return w.end(stopStart, true)
	case err != nil:
		if cfa = w.guess(); cfa == 0 {
			return w.end(err.Error(), false)
		}
	case w.frame.Signal || w.executable(w.next.pc):
	case w.next.pc == 0:
		return w.end(stopZero, true)
	default:
		bad := elfcore.Addr(w.next.pc)
		w.frame.BadReturn = &bad
		if w.byScan(cfa, cfa+maxScan*uint64(w.core.Arch.WordSize()), no) == 0 {
			return w.end(fmt.Sprintf("the return address %s lies in no executable mapping", bad), false)
		}
	}
	return w.check(cfa)
}

// nothing says why there is no caller.
func (w *walker) nothing(err error) string {
	why := "there is no call-frame information for this code"
	if m := w.set.At(w.frame.Lookup()); err != nil {
		why = fmt.Sprintf("the call-frame information is damaged (%v)", err)
	} else if m != nil && m.File != nil && !m.File.Proof.Certain() {
		why = "the call-frame information for this code is not used, since its file is not proved to be the one that was mapped"
	}
	sp, ok := w.regs.get(uint64(w.file.sp))
	if !ok {
		return why + ", and where the stack is is not known"
	}
	if _, err := w.load(sp, w.core.Arch.WordSize()); err != nil {
		return fmt.Sprintf("%s, and the stack cannot be searched: %v", why, err)
	}
	return why + ", and nothing on the stack looks like a return address"
}

// lacking is why a piece of memory cannot be read, for people: without its
// address, so that the threads of which the same is to be said are alike.
type lacking elfcore.FaultReason

func (l lacking) Error() string {
	switch elfcore.FaultReason(l) {
	case elfcore.Truncated:
		return "that memory is cut off in the core"
	case elfcore.NotDumped:
		return "that memory was not dumped"
	}
	return "no memory was mapped there"
}

// check keeps the walk going up.
func (w *walker) check(cfa uint64) bool {
	w.frame.CFA = elfcore.Addr(cfa)
	if w.frame.Signal {
		at := w.regs.value[w.file.sp]
		if slices.Contains(w.signals, at) || len(w.signals) == maxSignals {
			return w.end(stopCycle, false)
		}
		w.signals = append(w.signals, at)
		w.cfa = 0
	} else {
		if cfa <= w.cfa {
			w.frame.CFA = 0
			if cfa == w.cfa {
				return w.end(stopCycle, false)
			}
			return w.end(stopInner, false)
		}
		w.cfa = cfa
	}
	if w.file.pc >= 0 {
		w.next.set(uint64(w.file.pc), w.next.pc)
	}
	return true
}

// trim makes an address of a word.
func (u *Unwinder) trim(v uint64) uint64 {
	if u.core.Arch.WordSize() == 4 {
		v &= math.MaxUint32
	}
	return v
}

// executable tells whether the process could run code at an address. A core
// that gdb wrote leaves out what is unchanged from a file, so that the file's
// program headers tell.
func (u *Unwinder) executable(pc uint64) bool {
	if s, ok := u.core.Segment(elfcore.Addr(pc)); ok {
		return s.Executable()
	}
	m := u.set.At(elfcore.Addr(pc))
	if m == nil || !m.BiasKnown {
		return false
	}
	at := fileAddress(elfcore.Addr(pc), m.Bias, u.core.Arch.WordSize())
	for _, p := range m.Programs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && at >= p.Vaddr && at-p.Vaddr < p.Memsz {
			return true
		}
	}
	return false
}

// load reads a value of memory, from the core or a proven file.
func (u *Unwinder) load(at uint64, size int) (uint64, error) {
	b := make([]byte, size)
	if _, err := u.core.ReadMemory(b, elfcore.Addr(u.trim(at))); err != nil {
		if n, inFile := u.set.ReadMemory(b, elfcore.Addr(u.trim(at))); inFile != nil || n < size {
			var f *elfcore.Fault
			if errors.As(err, &f) {
				err = lacking(f.Why)
			}
			return 0, err
		}
	}
	c := cursor{b: b, order: u.core.ByteOrder}
	return c.fixed(size), nil
}

// pointer reads an address.
func (u *Unwinder) pointer(at uint64) (uint64, bool) {
	v, err := u.load(at, u.core.Arch.WordSize())
	return v, err == nil
}
