package tls

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// muslModules numbers the modules of a musl process: by rank among those with a
// PT_TLS, in the order of the link maps (ldso/dynlink.c; dlclose never unloads).
func (r *Resolver) muslModules() {
	for _, m := range r.set.Modules {
		if m.TLS == nil || m.TLS.MemSize == 0 || m.Original != nil {
			continue
		}
		x := &Module{
			Module: m, LinkMap: m.LinkMap, ID: uint64(len(r.modules) + 1),
			Size: m.TLS.MemSize, Align: m.TLS.Align,
			From: "its place among the modules with thread-local storage",
		}
		if m.BiasKnown {
			x.Image, x.ImageSize = m.Bias+elfcore.Addr(m.TLS.VAddr), m.TLS.FileSize
		}
		r.modules = append(r.modules, x)
	}
}

// muslBlock takes a block from musl's dtv: {count, block[1..count]}, one word
// each (src/internal/pthread_impl.h). Every thread has every module's block.
func (r *Resolver) muslBlock(t Thread, m *Module) Block {
	tls := r.core.Arch.TLS
	p, err := r.core.Word(r.narrow(t.Pointer - elfcore.Addr(tls.Bias) + elfcore.Addr(tls.MuslDTV)))
	if err != nil {
		return noBlock(NotInCore, "the pointer to the dtv is not there: %v", err)
	}
	count, err := r.core.Word(elfcore.Addr(p))
	switch {
	case err != nil:
		return noBlock(NotInCore, "the dtv is not there: %v", err)
	case count > maxModID:
		return noBlock(Undecided, "what should be the dtv at %#x is none", p)
	case m.ID > count:
		return noBlock(Undecided, "the dtv has %d blocks, but the module is number %d", count, m.ID)
	}
	val, err := r.core.Word(elfcore.Addr(p + m.ID*r.w))
	if err != nil {
		return noBlock(NotInCore, "the slot of module %d is not there: %v", m.ID, err)
	}
	if val == 0 {
		return noBlock(Undecided, "slot %d of the dtv is empty", m.ID)
	}
	return Block{Address: r.narrow(elfcore.Addr(val - tls.MuslDTPOffset)), Status: OK, How: "dtv"}
}

// maxScan bounds how much memory is searched for musl's exited threads, in
// bytes.
const maxScan = 1 << 30

// exitedMuslThreads searches memory for descriptors of threads that have exited
// and were not joined. musl takes a thread off its ring when it exits, so that
// nothing leads to them; but it makes the descriptor a ring of its own and sets
// its tid to 0 (src/thread/pthread_create.c, __pthread_exit), and its dtv still
// has one block for each module. Joined threads' memory is unmapped.
func (r *Resolver) exitedMuslThreads(living []Thread) []Thread {
	if !r.core.Arch.Descriptor.SelfPointers || len(r.modules) == 0 {
		return nil
	}
	known := make(map[elfcore.Addr]bool)
	for _, t := range living {
		known[t.Pthread] = true
	}
	var out []Thread
	scanned := uint64(0)
	const chunk = 1 << 20
	buf := make([]byte, chunk)
	for i := range r.core.Segments {
		s := &r.core.Segments[i]
		if !s.Writable() {
			continue
		}
		for at := uint64(0); at < s.FileSize; at += chunk {
			if scanned += chunk; scanned > maxScan {
				r.warn(fmt.Sprintf("exited threads were searched for in the first %d MiB of memory only", maxScan>>20))
				return out
			}
			n, _ := r.core.ReadMemory(buf[:min(chunk, s.FileSize-at)], s.Start+elfcore.Addr(at))
			for b := buf[:n]; uint64(len(b)) >= r.w; b = b[r.w:] {
				a := s.Start + elfcore.Addr(at+uint64(n-len(b)))
				if elfcore.Addr(r.core.WordOf(b)) == a && !known[a] && r.exitedMusl(a) {
					out = append(out, Thread{LWP: -1, Handle: -1, Pthread: a, Pointer: a})
				}
			}
		}
	}
	return out
}

// exitedMusl tells whether the descriptor of an exited thread is at an address:
// self, dtv, prev, next, sysinfo, canary, tid.
func (r *Resolver) exitedMusl(a elfcore.Addr) bool {
	word := func(i uint64) elfcore.Addr {
		x, err := r.core.Word(a + elfcore.Addr(i*r.w))
		if err != nil {
			return 0
		}
		return elfcore.Addr(x)
	}
	if word(2) != a || word(3) != a {
		return false
	}
	if tid, err := r.core.Uint32(a + elfcore.Addr(6*r.w)); err != nil || tid != 0 {
		return false
	}
	dtv := word(1)
	count, err := r.core.Word(dtv)
	return err == nil && count >= 1 && count <= uint64(len(r.modules))
}
