package nptl

import (
	"slices"
	"sort"

	"github.com/corethreads/corethreads/elfcore"
)

// view is the core's memory in units of the dead process's words.
type view struct {
	*elfcore.Core
	// w is the size of a word in bytes.
	w uint64
	// header is the size of struct pthread in front of its list node.
	header uint64
	// proofs remembers what probe found: the offset of robust_head by node, 0
	// for what is no node.
	proofs map[elfcore.Addr]uint8
	// anyExecutable tells whether the core has segments with PF_X at all; old
	// gcores have none.
	anyExecutable bool
	// ids are the ids of the core's threads, stackPointers their stack
	// pointers in ascending order.
	ids           map[int]bool
	stackPointers []elfcore.Addr
}

func newView(c *elfcore.Core) *view {
	v := &view{
		Core:   c,
		w:      uint64(c.Arch.WordSize()),
		header: c.Arch.Descriptor.Header,
		proofs: make(map[elfcore.Addr]uint8, len(c.Threads)),
		ids:    make(map[int]bool, len(c.Threads)),
	}
	for i := range c.Threads {
		v.ids[c.Threads[i].TID] = true
		if sp, ok := c.Threads[i].SP(); ok {
			v.stackPointers = append(v.stackPointers, sp)
		}
	}
	slices.Sort(v.stackPointers)
	for i := range c.Segments {
		if c.Segments[i].Executable() {
			v.anyExecutable = true
			break
		}
	}
	return v
}

// pointer reads the word at a as an address.
func (v *view) pointer(a elfcore.Addr) (elfcore.Addr, bool) {
	x, err := v.Word(a)
	return elfcore.Addr(x), err == nil
}

// points tells whether the word at a is target.
func (v *view) points(a, target elfcore.Addr) bool {
	x, ok := v.pointer(a)
	return ok && x == target
}

// pair reads two words that lie side by side.
func (v *view) pair(a elfcore.Addr) (first, second uint64, ok bool) {
	var b [16]byte
	if _, err := v.ReadMemory(b[:2*v.w], a); err != nil {
		return 0, 0, false
	}
	return v.WordOf(b[:]), v.WordOf(b[v.w:]), true
}

// signed takes a word as a signed number.
func (v *view) signed(x uint64) int64 {
	if v.w == 4 {
		return int64(int32(x))
	}
	return int64(x)
}

// plausible tells whether x could be a pointer to a word of the process's data.
func (v *view) plausible(x elfcore.Addr) bool {
	if x == 0 || uint64(x)%v.w != 0 {
		return false
	}
	s, ok := v.Core.Segment(x)
	return ok && s.Writable()
}

// executable tells whether code could be at a.
func (v *view) executable(a elfcore.Addr) bool {
	if a == 0 {
		return false
	}
	if !v.anyExecutable {
		_, ok := v.Core.Segment(a)
		return ok
	}
	s, ok := v.Core.Segment(a)
	return ok && s.Executable()
}

// fault asks why the word at a cannot be read.
func (v *view) fault(a elfcore.Addr) (elfcore.FaultReason, bool) {
	_, err := v.Word(a)
	if f, ok := err.(*elfcore.Fault); ok {
		return f.Why, true
	}
	return 0, false
}

// zeroes tells whether all that can be read of the n bytes at a is zero, at
// least a few words.
func (v *view) zeroes(a elfcore.Addr, n uint64) bool {
	b := make([]byte, n)
	got, _ := v.ReadMemory(b, a)
	for _, x := range b[:got] {
		if x != 0 {
			return false
		}
	}
	return uint64(got) >= 4*v.w
}

// segmentIndex finds the segment that an address lies in.
func (v *view) segmentIndex(a elfcore.Addr) (int, bool) {
	i := sort.Search(len(v.Segments), func(i int) bool { return v.Segments[i].End > a })
	return i, i < len(v.Segments) && v.Segments[i].Start <= a
}

// stackPointerIn tells whether the stack pointer of any thread lies in a range.
func (v *view) stackPointerIn(r elfcore.Range) bool {
	i, _ := slices.BinarySearch(v.stackPointers, r.Start)
	return i < len(v.stackPointers) && r.Contains(v.stackPointers[i])
}
