package unwind

import (
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

// Found is how a frame was found.
type Found string

const (
	// FromThread: the frame in which the thread was stopped.
	FromThread Found = "registers"
	// FromCFI: by the call-frame information of the function that it called.
	FromCFI Found = "cfi"
	// FromSignal: by the registers that the kernel saved for a signal handler.
	FromSignal Found = "signal"
	// FromTables: by the tables of the ARM exception ABI.
	FromTables Found = "exception-tables"
	// FromTablesInside is a guess: by those tables, for a function that was
	// stopped elsewhere than at a call.
	FromTablesInside Found = "exception-tables-inside"
	// FromEntry is a guess: the return address where a call leaves it, since
	// the function that was called has not moved it, or is none at all.
	FromEntry Found = "entry"
	// FromPrologue is a guess: by the instructions at the start of the function.
	FromPrologue Found = "prologue"
	// FromPointer is a guess: by the frame pointer.
	FromPointer Found = "frame-pointer"
	// FromScan is a guess: the first word on the stack that looks like a
	// return address.
	FromScan Found = "scan"
	// FromTailCall: the function left by a jump, and has no frame on the stack;
	// the calls that debugging information lists leave no other way. PC is
	// where it jumped, the registers are not known.
	FromTailCall Found = "tail-call"
)

// Guessed tells that what the frame was found by can be wrong.
func (f Found) Guessed() bool {
	switch f {
	case FromTablesInside, FromEntry, FromPrologue, FromPointer, FromScan:
		return true
	}
	return false
}

// Frame is one frame of a stack, as the machine has it; functions that the
// compiler put into others are in what Functions makes of it.
type Frame struct {
	// PC is where the thread goes on in this frame: the return address, but
	// for the innermost frame and those that a signal interrupted.
	PC elfcore.Addr
	// CFA is the canonical frame address: the stack pointer of the caller in
	// front of the call (on s390x, 160 bytes above it). 0 where it is not known.
	CFA   elfcore.Addr
	Found Found
	// Signal tells that it is the frame that the kernel made for a signal
	// handler.
	Signal bool
	// BadReturn is the return address that was found for the frame, where no
	// code is at it: the stack has been written over, or the function changed
	// to another stack. What comes behind the frame is then a guess.
	BadReturn *elfcore.Addr

	// exact tells that PC is the instruction itself and not that behind a call.
	exact bool
}

// Lookup is the address that tells the frame's function: PC, or for a return
// address one less, since the call can be the last instruction of a function.
func (f *Frame) Lookup() elfcore.Addr {
	if f.exact || f.PC == 0 {
		return f.PC
	}
	return f.PC - 1
}

// Stack is the stack of a thread, from the innermost frame outwards.
type Stack struct {
	Frames []Frame
	// Stop says why there are no more frames, in words; Whole tells that it is
	// because the thread started there.
	Stop  string
	Whole bool
}

// Unwinder walks the stacks of one core. It keeps what it has read of the
// modules' call-frame information, and is not safe for concurrent use.
type Unwinder struct {
	core *elfcore.Core
	set  *module.Set
	abi  *abi
	file *registerFile
	// pac are the bits of pointer authentication codes, 0 for unknown.
	pac uint64

	frames map[*module.Module]*moduleFrames
	rows   map[uint64]foundRow
	tables map[uint64][]byte
	sites  map[uint64]site
	tramps map[uint64]*trampoline
	names  map[elfcore.Addr][]Function
	debug  map[*module.Module]*lazyDebugInfo
	tails  map[called][]Frame
	// bindings are the functions that names of other modules stand for.
	bindings map[symbolKey]place
	// ahead tells that debugging information is read in the background.
	ahead bool
	work  int
}

// foundRow is what was found for one address; a row of nil is none.
type foundRow struct {
	*row
	err error
}

const (
	// MaxFrames bounds the frames of one stack: a recursion that fills 8 MiB
	// with frames of 48 bytes has less.
	MaxFrames = 1 << 18
	// maxWork bounds the frames and the words searched of all stacks together.
	// When it is spent, every thread still gets the first frames.
	maxWork   = 1 << 23
	maxTired  = 64
	maxCached = 1 << 20
)

// New makes an unwinder. The modules give call-frame information and names.
func New(core *elfcore.Core, set *module.Set) *Unwinder {
	a := abiOf(core.Arch)
	return &Unwinder{
		core: core, set: set, abi: a, file: newRegisterFile(core.Arch, a), pac: pacMask(core),
		frames:   make(map[*module.Module]*moduleFrames),
		rows:     make(map[uint64]foundRow),
		tables:   make(map[uint64][]byte),
		sites:    make(map[uint64]site),
		tramps:   make(map[uint64]*trampoline),
		names:    make(map[elfcore.Addr][]Function),
		debug:    make(map[*module.Module]*lazyDebugInfo),
		tails:    make(map[called][]Frame),
		bindings: make(map[symbolKey]place),
	}
}

// Stack walks the stack of a thread, given by its index in Core.Threads, up to
// a number of frames; 0 is MaxFrames.
func (u *Unwinder) Stack(thread, frames int) Stack {
	if frames <= 0 || frames > MaxFrames {
		frames = MaxFrames
	}
	var s Stack
	s.Stop, s.Whole = u.Walk(thread, func(f Frame, _ Registers) bool {
		s.Frames = append(s.Frames, f)
		return len(s.Frames) < frames
	})
	return s
}

// row finds what call-frame information says for an address of the process; nil
// for nothing.
func (u *Unwinder) row(lookup uint64) (*row, error) {
	if r, ok := u.rows[lookup]; ok {
		return r.row, r.err
	}
	var r foundRow
	if m := u.set.At(elfcore.Addr(lookup)); m != nil && m.BiasKnown {
		if u.ahead {
			u.openAhead(m)
		}
		r.row, r.err = u.framesOf(m).row(fileAddress(elfcore.Addr(lookup), m.Bias, u.core.Arch.WordSize()))
	}
	if len(u.rows) < maxCached {
		u.rows[lookup] = r
	}
	return r.row, r.err
}
