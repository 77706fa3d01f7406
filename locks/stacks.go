package locks

import (
	"cmp"
	"iter"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// stackRange is the used part of a thread's stack: from its stack pointer to its
// descriptor or, where that is not known, as far as the memory goes.
type stackRange struct {
	elfcore.Range
	thread int
}

// maxStack bounds a stack whose end is not known, in bytes.
const maxStack = 16 << 20

// findStacks gives the range of each thread, empty for an unknown one.
func (a *analyzer) findStacks() {
	a.stackOf = make([]elfcore.Range, len(a.core.Threads))
	for i := range a.core.Threads {
		sp, ok := a.core.Threads[i].SP()
		if !ok {
			continue
		}
		r := elfcore.Range{Start: sp}
		if h := a.process.Threads[i].Handle; h >= 0 {
			if s := a.process.Handles[h].Stack; s != nil && s.Contains(sp) {
				r.End = min(s.End, a.process.Handles[h].Pthread)
			}
		}
		if seg, ok := a.core.Segment(sp); ok && r.End <= sp {
			r.End = min(seg.End, sp+maxStack)
		}
		if r.End > sp {
			a.stackOf[i] = r
			a.stacks = append(a.stacks, stackRange{r, i})
		}
	}
	slices.SortFunc(a.stacks, func(x, y stackRange) int { return cmp.Compare(x.Start, y.Start) })
}

// onOwnStack tells whether an address lies on the stack of a thread, above its
// stack pointer.
func (a *analyzer) onOwnStack(i int, at elfcore.Addr) bool { return a.stackOf[i].Contains(at) }

// anyStack tells which thread's stack an address lies on, −1 for none. Where the
// ends of stacks are not known, it is the thread whose stack pointer is next.
func (a *analyzer) anyStack(at elfcore.Addr) int {
	i, found := slices.BinarySearchFunc(a.stacks, at, func(r stackRange, at elfcore.Addr) int { return cmp.Compare(r.Start, at) })
	if !found {
		i--
	}
	if i < 0 || !a.stacks[i].Contains(at) {
		return -1
	}
	return a.stacks[i].thread
}

// stackWords gives the words at the used end of a thread's stack, no more than
// window bytes of it, with their addresses.
func (a *analyzer) stackWords(i int, window uint64) iter.Seq2[elfcore.Addr, elfcore.Addr] {
	return func(yield func(at, word elfcore.Addr) bool) {
		sp := a.stackOf[i].Start
		b := make([]byte, min(window, a.stackOf[i].Len()))
		n, _ := a.core.ReadMemory(b, sp)
		for at := uint64(0); at+a.w <= uint64(n); at += a.w {
			if !yield(sp+elfcore.Addr(at), elfcore.Addr(a.core.WordOf(b[at:]))) {
				return
			}
		}
	}
}
