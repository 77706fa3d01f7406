package nptl

import (
	"github.com/corethreads/corethreads/elfcore"
)

// view is the core's memory in units of the dead process's words.
type view struct {
	*elfcore.Core
	// w is the size of a word in bytes.
	w uint64
	// header is the size of struct pthread in front of its list node.
	header uint64
	// proofs remembers what probe found, by node.
	proofs map[elfcore.Addr]proof
	// anyExecutable tells whether the core has segments with PF_X at all; old
	// gcores have none.
	anyExecutable bool
}

func newView(c *elfcore.Core) *view {
	v := &view{
		Core:   c,
		w:      uint64(c.Arch.WordSize()),
		header: c.Arch.Descriptor.Header,
		proofs: make(map[elfcore.Addr]proof),
	}
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

// zeroes tells whether the n bytes at a can be read and are all zero.
func (v *view) zeroes(a elfcore.Addr, n uint64) bool {
	b := make([]byte, n)
	if _, err := v.ReadMemory(b, a); err != nil {
		return false
	}
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
