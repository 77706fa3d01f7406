package locks

import (
	"fmt"
	"path"

	"github.com/corethreads/corethreads/elfcore"
)

// isArena: a low-level lock at the start of a malloc arena. Those of threads lie
// at the start of an aligned heap that points back at them (malloc/arena.c,
// heap_info); the first is in libc's data, and is known by its bins.
func (a *analyzer) isArena(_ int, w *Wait) bool {
	heap := elfcore.Addr(64 << 20) // HEAP_MAX_SIZE
	if a.w == 4 {
		heap = 1 << 20
	}
	f := &w.Futex
	if f.Value != 2 || f.command() != opWait || !f.Private() {
		return false
	}
	start := f.Address &^ (heap - 1)
	if p, ok := a.word(start); ok && p == f.Address && f.Address-start < 0x100 {
		w.Kind, w.Object, w.OwnerState = MallocArena, f.Address, OwnerUnknown
		w.fact("the heap at %s names %s as its arena: a lock of malloc, which does not record its owner", start, f.Address)
		return true
	}
	if empty := a.emptyBins(f.Address); empty >= 16 {
		w.Kind, w.Object, w.Name, w.OwnerState = MallocArena, f.Address, "main_arena", OwnerUnknown
		w.fact("%d empty bins of malloc follow the word: it is the lock of its first arena, which does not record its owner", empty)
		return true
	}
	return false
}

// emptyBins counts the bins of a struct malloc_state at an address that are empty
// lists: pairs of pointers to the place two words in front of them. They follow
// the lock, flags, (since glibc 2.26) have_fastchunks, 10 or 11 fast bins and two
// pointers.
func (a *analyzer) emptyBins(at elfcore.Addr) int {
	const bins = 127 // NBINS - 1
	most := 0
	for _, words := range []uint64{12, 13, 14} {
		first := at + elfcore.Addr(8+words*a.w)
		b := make([]byte, 2*bins*a.w)
		n, _ := a.core.ReadMemory(b, first)
		count := 0
		for i := uint64(0); i+2*a.w <= uint64(n); i += 2 * a.w {
			self := uint64(first) + i - 2*a.w
			if a.core.WordOf(b[i:]) == self && a.core.WordOf(b[i+a.w:]) == self {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// arenaSelf finds threads that wait for a lock of malloc inside a signal handler
// that has interrupted malloc itself: the lock is the thread's own.
func (a *analyzer) arenaSelf(*graph) []Verdict {
	var out []Verdict
	for i := range a.report.Waits {
		w := &a.report.Waits[i]
		if w.Kind != MallocArena {
			continue
		}
		at, pc, ok := a.signalFrame(w.Thread)
		if !ok {
			continue
		}
		v := Verdict{ID: SelfDeadlock, Confidence: High, Threads: []int{w.Thread}, Objects: []elfcore.Addr{w.Object}, Evidence: w.Evidence()}
		v.fact("its stack has a signal frame, at %s", at)
		if pc != 0 {
			m := a.set.At(pc)
			if m != nil && !isLibc(path.Base(m.String())) && !m.IsExecutable {
				continue // malloc is in libc, or in a static program
			}
			v.fact("the signal interrupted the code at %s", a.name(pc))
		}
		v.Summary = fmt.Sprintf("thread %d waits in a signal handler for malloc's lock, which the code that the signal interrupted holds", a.tid(w.Thread))
		v.Explanation = "A signal handler called malloc or free while the same thread was inside malloc. The lock is not recursive."
		v.Remedy = "Do not allocate in signal handlers; use only async-signal-safe functions there."
		v.doubt("malloc does not record who holds its lock: it could be another thread")
		out = append(out, v)
	}
	return out
}

// signalFrame looks for a signal frame on a thread's stack, and tells, where it
// can, the code that the signal interrupted. On x86-64 the kernel's struct
// rt_sigframe is known by its bytes; elsewhere by the return address into the
// vDSO.
func (a *analyzer) signalFrame(thread int) (at, pc elfcore.Addr, ok bool) {
	const window = 64 << 10
	amd64 := a.core.Arch.Name == "x86_64" && a.w == 8
	for at, p := range a.stackWords(thread, window) {
		if amd64 {
			if pc, ok := a.rtSigframe(at); ok {
				return at, pc, true
			}
			continue
		}
		if m := a.set.At(p); m == nil || !m.IsVDSO {
			continue
		}
		switch sym, _, _ := a.set.Symbolize(p); sym.Name {
		case "__kernel_rt_sigreturn", "__kernel_sigreturn", "__vdso_rt_sigreturn":
			return at, 0, true
		}
	}
	return 0, 0, false
}

// rtSigframe judges the bytes of a struct rt_sigframe (arch/x86/include/asm/
// sigframe.h): the return address, uc_flags, uc_link, uc_stack, then struct
// sigcontext with 16 registers, rip, eflags and the segments.
func (a *analyzer) rtSigframe(at elfcore.Addr) (pc elfcore.Addr, ok bool) {
	const (
		context  = 6 * 8 // of sigcontext in the frame
		rsp      = context + 15*8
		rip      = context + 16*8
		segments = context + 18*8
		size     = segments + 8
		userCS   = 0x33
		ucFlags  = 7
	)
	b := make([]byte, size)
	if _, err := a.core.ReadMemory(b, at); err != nil {
		return 0, false
	}
	word := func(offset int) uint64 { return a.core.ByteOrder.Uint64(b[offset:]) }
	if word(segments)&0xffff != userCS || word(8)&^ucFlags != 0 || word(16) != 0 {
		return 0, false
	}
	pc = elfcore.Addr(word(rip))
	code, known := a.core.Segment(pc)
	stack, mapped := a.core.Segment(elfcore.Addr(word(rsp)))
	return pc, known && code.Executable() && mapped && stack.Writable()
}
