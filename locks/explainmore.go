package locks

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// sem decodes struct new_sem (sysdeps/nptl/internaltypes.h): on 64-bit systems one
// number of 64 bits and private, on 32-bit ones value, private, pad, nwaiters.
func (e *explainer) sem() Reading {
	r := Reading{What: "sem_t", kinds: []Kind{Sem}}
	e.short(&r, 16)
	value, waiting, private := uint64(e.u32(0)>>1), uint64(e.u32(12)), uint64(e.u32(4)) // bit 0: somebody waits
	offsets := []uint64{0, 12, 4}
	if e.w == 8 {
		value, waiting, private = e.u64(0)&(1<<32-1), e.u64(0)>>32, uint64(e.u32(8))
		offsets = []uint64{0, 4, 8}
		if e.bigEndian() {
			offsets = []uint64{4, 0, 8}
		}
	}
	r.Fields = []Field{
		{"value", offsets[0], value, ""},
		{"nwaiters", offsets[1], waiting, "threads that wait"},
		{"private", offsets[2], private, "0 for one process, 128 for shared"},
	}
	r.doubt(private != 0 && private != opPrivate, "private is neither 0 nor 128")
	r.doubt(waiting > maxUsers, "nwaiters is not small")
	r.doubt(value > 1<<31-1, "value is above SEM_VALUE_MAX")
	return r
}

func (e *explainer) barrier() Reading {
	r := Reading{What: "pthread_barrier_t of glibc 2.23 and later", kinds: []Kind{Barrier}}
	e.short(&r, 20)
	in, round, count, shared, out := e.u32(0), e.u32(4), e.u32(8), e.u32(12), e.u32(16)
	r.Fields = []Field{
		{"in", 0, uint64(in), fmt.Sprintf("%d have arrived in this round", in-round)},
		{"current_round", 4, uint64(round), ""},
		{"count", 8, uint64(count), "threads that it takes"},
		{"shared", 12, uint64(shared), ""},
		{"out", 16, uint64(out), ""},
	}
	r.doubt(count == 0 || count > 1<<20, "count is no number of threads")
	r.doubt(in-round > count, "more have arrived than it takes")
	r.doubt(shared != 0 && shared != opPrivate, "shared is neither 0 nor 128")
	return r
}

func (e *explainer) once() Reading {
	x := e.u32(0)
	r := Reading{What: "pthread_once_t", kinds: []Kind{Once}}
	r.Fields = []Field{{"control", 0, uint64(x), map[uint32]string{0: "not yet run", 1: "its routine runs", 2: "done"}[x&3]}}
	r.doubt(x&3 == 3, "its low bits are 3")
	r.doubt(x > 1<<16, "its fork generation is not small")
	return r
}

func (e *explainer) fileLock() Reading {
	r := Reading{What: "_IO_lock_t, the lock of a FILE", kinds: []Kind{FileLock}}
	e.short(&r, 16)
	owner := elfcore.Addr(e.pointer(8))
	h, known := e.pthreads[owner]
	who := "nobody"
	if known {
		who = fmt.Sprintf("the thread of handle %s", h.Pthread)
	}
	r.Fields = []Field{{"lock", 0, uint64(e.u32(0)), ""}, {"cnt", 4, uint64(e.u32(4)), ""}, {"owner", 8, uint64(owner), who}}
	r.doubt(owner != 0 && !known, "owner is no thread's descriptor")
	r.doubt(e.u32(0) > 2, "lock is neither 0, 1 nor 2")
	r.doubt(e.u32(0) != 0 && owner == 0, "it is locked, but has no owner")
	return r
}
