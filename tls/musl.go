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
		return noBlock(Undecided, "%s", fmt.Sprintf("slot %d of the dtv is empty", m.ID))
	}
	return Block{Address: r.narrow(elfcore.Addr(val - tls.MuslDTPOffset)), Status: OK, How: "dtv"}
}
