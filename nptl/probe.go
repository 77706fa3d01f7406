package nptl

import (
	"github.com/corethreads/corethreads/elfcore"
)

// probe tells whether n is the list node of a struct pthread, by either of two
// facts: specific[0] points at the descriptor's own specific_1stblock, which
// allocate_stack sets before it links the node; or robust_head.list points at
// itself and a negative futex_offset follows, which holds unless a robust mutex
// is held.
func (v *view) probe(n elfcore.Addr) bool {
	_, ok := v.robustOffset(n)
	return ok
}

// robustOffset gives the offset of robust_head from the node for which probe's
// proof holds.
func (v *view) robustOffset(n elfcore.Addr) (uint64, bool) {
	r, ok := v.proofs[n]
	if !ok {
		r = v.prove(n)
		v.proofs[n] = r
	}
	return uint64(r), r != 0
}

func (v *view) prove(n elfcore.Addr) uint8 {
	if n == 0 || uint64(n)%v.w != 0 {
		return 0
	}
	for _, r := range v.Arch.Descriptor.RobustHead {
		if v.specificProves(n, r) || v.robustProves(n, r) {
			return uint8(r)
		}
	}
	return 0
}

// cancelOffset is the offset of cancelhandling from the node: robust_head has
// three words (list, futex_offset, list_op_pending), cleanup and
// cleanup_jmp_buf follow it.
func (v *view) cancelOffset(robust uint64) uint64 { return robust + 5*v.w }

// specificOffset is the offset of specific_1stblock: cancelhandling and flags
// have 32 bits each.
func (v *view) specificOffset(robust uint64) uint64 { return v.cancelOffset(robust) + 8 }

// flagsOffset is the offset behind specific[]: specific_1stblock has 32 pairs of
// words, specific 32 words.
func (v *view) flagsOffset(robust uint64) uint64 { return v.specificOffset(robust) + 96*v.w }

func (v *view) specificProves(n elfcore.Addr, robust uint64) bool {
	first := n + elfcore.Addr(v.specificOffset(robust))
	return v.points(first+elfcore.Addr(64*v.w), first)
}

func (v *view) robustProves(n elfcore.Addr, robust uint64) bool {
	head := n + elfcore.Addr(robust)
	list, offset, ok := v.pair(head)
	if !ok || elfcore.Addr(list) != head {
		return false
	}
	// Without this a head followed by an empty head would pass.
	o := v.signed(offset)
	return -64 <= o && o < 0
}

// selfPointers tells whether a TCB with its own address in its first and third
// word is at pd (tcbhead_t of x86, s390 and sparc). That proves a TCB, not that
// it belongs to glibc: musl's looks alike.
func (v *view) selfPointers(pd elfcore.Addr) bool {
	return v.Arch.Descriptor.SelfPointers && pd != 0 && uint64(pd)%v.w == 0 &&
		v.points(pd, pd) && v.points(pd+elfcore.Addr(2*v.w), pd)
}

// linked tells whether both neighbours of a node point back at it.
func (v *view) linked(n elfcore.Addr) bool {
	next, prev, ok := v.pair(n)
	return ok && next != 0 && prev != 0 &&
		v.points(elfcore.Addr(next)+elfcore.Addr(v.w), n) && v.points(elfcore.Addr(prev), n)
}
