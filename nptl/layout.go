package nptl

import (
	"github.com/corethreads/corethreads/elfcore"
)

// Layout is where the fields of struct pthread are in this core. Offsets are in
// bytes and count from the list node; Header is what lies in front of it. An
// offset of 0 is one that was not found.
type Layout struct {
	Header         uint64
	TID            uint64 // 32 bits
	RobustHead     uint64
	CancelHandling uint64 // 32 bits
	// UserStack is the flag of a stack that the program supplied: a byte
	// user_stack, or since glibc 2.42 the 32-bit enum stack_mode.
	UserStack uint64
	StackMode bool
	// Join is joinid, a pointer, or since glibc 2.43 the 32-bit joinstate.
	Join      uint64
	JoinState bool
	// StackBlock is the stack's lowest address; its size and that of its
	// guard are the two words behind it.
	StackBlock   uint64
	StartRoutine uint64
	// PID is the process id next to the tid, as glibc up to 2.24 has it.
	PID uint64
	// Source says how the offsets were found.
	Source string
}

// Bits of cancelhandling and values of stack_mode and joinstate
// (nptl/descr.h; the bits are the same from 2.12 to 2.43).
const (
	exitingBit    = 0x10
	terminatedBit = 0x20

	// user_stack and stack_mode stand behind specific[].
	userStackOffset = 2
	stackModeOffset = 4
	stackModeUser   = 2

	joinStateExited   = 0
	joinStateDetached = 3
)

// raw is a descriptor as it was read: the bytes from its node on.
type raw struct {
	node  elfcore.Addr
	bytes []byte
}

func (v *view) rawWord(r *raw, offset uint64) (elfcore.Addr, bool) {
	if offset+v.w > uint64(len(r.bytes)) {
		return 0, false
	}
	return elfcore.Addr(v.WordOf(r.bytes[offset:])), true
}

func (v *view) raw32(r *raw, offset uint64) (uint32, bool) {
	if offset+4 > uint64(len(r.bytes)) {
		return 0, false
	}
	return v.ByteOrder.Uint32(r.bytes[offset:]), true
}

// readRaw reads a descriptor in one read; short where memory ends. The bytes are
// not to be changed.
func (v *view) readRaw(n elfcore.Addr) *raw {
	if held := v.Keep(n, v.descriptorSize()); held != nil {
		return &raw{node: n, bytes: held}
	}
	b := make([]byte, v.descriptorSize())
	got, _ := v.ReadMemory(b, n)
	return &raw{node: n, bytes: b[:got]}
}

// inferLayout finds the offsets on which the descriptors agree.
func (v *view) inferLayout(rs []*raw) Layout {
	l := Layout{Header: v.header, TID: 2 * v.w, Source: "inferred"}
	votes := make(map[uint64]int)
	for _, r := range rs {
		if robust, ok := v.robustOffset(r.node); ok {
			votes[robust]++
		}
	}
	for _, r := range v.Arch.Descriptor.RobustHead {
		if votes[r] > votes[l.RobustHead] || l.RobustHead == 0 {
			l.RobustHead = r
		}
	}
	l.CancelHandling = v.cancelOffset(l.RobustHead)
	flags := v.flagsOffset(l.RobustHead)
	l.StackBlock = v.findStackBlock(rs, flags)
	l.StartRoutine = v.findStartRoutine(rs, flags)
	if l.StartRoutine != 0 {
		// joinid, result, schedparam and schedpolicy (32 bits each) stand in
		// front of start_routine.
		l.Join = l.StartRoutine - 2*v.w - 8
		l.JoinState = v.hasJoinState(rs, l.Join)
	}
	l.UserStack, l.StackMode = v.findUserStack(rs, &l, flags)
	if v.hasPID(rs, &l) {
		l.PID = l.TID + 4
	}
	return l
}

// hasPID tells whether the process id stands behind the tid, as up to glibc
// 2.24: what took its place, if anything, has always been 0. It need not be the
// core's idea of the process id.
func (v *view) hasPID(rs []*raw, l *Layout) bool {
	if l.RobustHead < l.TID+8 {
		return false
	}
	n := 0
	for _, r := range rs {
		if pid, ok := v.raw32(r, l.TID+4); ok && pid != 0 {
			n++
		}
	}
	return n > len(rs)/2
}

// maxStackAbove is how far above its descriptor a stack's memory can reach:
// static TLS lies there on some architectures.
const maxStackAbove = 16 << 20

// stackAt takes the words at an offset for stackblock and its size, and tells
// whether that is a stack around the descriptor. At offset 0, that of a member
// which was not found, there never is one.
func (v *view) stackAt(r *raw, offset uint64) (elfcore.Range, bool) {
	start, ok1 := v.rawWord(r, offset)
	size, ok2 := v.rawWord(r, offset+v.w)
	pd := r.node - elfcore.Addr(v.header)
	if offset == 0 || !ok1 || !ok2 || start == 0 || size == 0 {
		return elfcore.Range{}, false
	}
	end, ok := start.Add(uint64(size))
	return elfcore.Range{Start: start, End: end}, ok && start <= pd && pd < end && uint64(end-pd) < maxStackAbove
}

func (v *view) findStackBlock(rs []*raw, flags uint64) uint64 {
	best, most := uint64(0), 0
	for offset := flags; offset+2*v.w <= v.descriptorSize(); offset += v.w {
		n := 0
		for i, r := range rs {
			if n+len(rs)-i <= most {
				break // it cannot win any more
			}
			if _, ok := v.stackAt(r, offset); ok {
				n++
			}
		}
		if n > most {
			best, most = offset, n
		}
	}
	if best != 0 {
		return best
	}
	// Only the initial thread: stackblock is 0 and its size is
	// __libc_stack_end, an address in the stack's segment.
	for _, r := range rs {
		for offset := flags; offset+2*v.w <= v.descriptorSize(); offset += v.w {
			start, ok1 := v.rawWord(r, offset)
			end, ok2 := v.rawWord(r, offset+v.w)
			if ok1 && ok2 && start == 0 && v.onStackOfThread(end) {
				return offset
			}
		}
	}
	return 0
}

// onStackOfThread tells whether an address lies above some thread's stack
// pointer, in the same segment.
func (v *view) onStackOfThread(a elfcore.Addr) bool {
	if a == 0 || uint64(a)%v.w != 0 {
		return false
	}
	s, ok := v.Core.Segment(a)
	return ok && v.stackPointerIn(elfcore.Range{Start: s.Start, End: a})
}

// findStartRoutine tries the offsets that start_routine had in any version: a
// few words behind specific[].
func (v *view) findStartRoutine(rs []*raw, flags uint64) uint64 {
	from, to := flags+0x28, flags+0x30
	if v.w == 4 {
		from, to = flags+0x1c, flags+0x28
	}
	best, most := uint64(0), 0
	for offset := from; offset <= to; offset += v.w {
		n := 0
		for _, r := range rs {
			if v.startsAt(r, offset) {
				n++
			}
		}
		if n > most {
			best, most = offset, n
		}
	}
	return best
}

// startsAt tells whether start_routine can stand at an offset: a code address
// behind schedparam and schedpolicy, two small numbers.
func (v *view) startsAt(r *raw, offset uint64) bool {
	pc, ok1 := v.rawWord(r, offset)
	priority, ok2 := v.raw32(r, offset-8)
	policy, ok3 := v.raw32(r, offset-4)
	return ok1 && ok2 && ok3 && v.executable(pc) && priority < 100 && policy < 8
}

// hasJoinState tells joinstate from joinid: a number of 1 to 3, with padding
// behind it where words have 64 bits, is no pointer.
func (v *view) hasJoinState(rs []*raw, offset uint64) bool {
	for _, r := range rs {
		x, ok := v.raw32(r, offset)
		if !ok || x < 1 || x > joinStateDetached {
			continue
		}
		if padding, ok := v.raw32(r, offset+4); v.w == 8 && (!ok || padding != 0) {
			continue
		}
		return true
	}
	return false
}

// findUserStack tells user_stack from stack_mode by the initial thread, whose
// stack glibc did not allocate, else by the version that joinstate proves.
func (v *view) findUserStack(rs []*raw, l *Layout, flags uint64) (offset uint64, mode bool) {
	asByte, asEnum := flags+userStackOffset, flags+stackModeOffset
	for _, r := range rs {
		if asEnum+4 > uint64(len(r.bytes)) {
			continue
		}
		if v.initial(r, l) {
			if x, _ := v.raw32(r, asEnum); x == stackModeUser && r.bytes[asByte] == 0 {
				return asEnum, true
			}
			if r.bytes[asByte] == 1 {
				return asByte, false
			}
		}
	}
	if l.JoinState {
		return asEnum, true
	}
	for _, r := range rs {
		if asByte < uint64(len(r.bytes)) && r.bytes[asByte] == 1 {
			return asByte, false
		}
	}
	return 0, false
}

// initial tells whether a descriptor is the initial thread's: the only one
// without a stack block.
func (v *view) initial(r *raw, l *Layout) bool {
	if l.StackBlock == 0 {
		return false
	}
	start, ok := v.rawWord(r, l.StackBlock)
	size, ok2 := v.rawWord(r, l.StackBlock+v.w)
	return ok && ok2 && start == 0 && size != 0
}
