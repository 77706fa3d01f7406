package locks

// The objects as they were before glibc 2.25 (barriers: 2.23).

func (e *explainer) oldCond() Reading {
	r := Reading{What: "pthread_cond_t before glibc 2.25", kinds: []Kind{Cond}}
	e.short(&r, condSize)
	total, wakeup, woken, waiting := e.u64(8), e.u64(16), e.u64(24), e.u32(32+e.w)
	r.Fields = []Field{
		{"__lock", 0, uint64(e.u32(0)), ""},
		{"__futex", 4, uint64(e.u32(4)), "what waiters sleep on"},
		{"__total_seq", 8, total, "waits"},
		{"__wakeup_seq", 16, wakeup, "of them signalled"},
		{"__woken_seq", 24, woken, "of them woken"},
		{"__mutex", 32, e.pointer(32), ""},
		{"__nwaiters", 32 + e.w, uint64(waiting), "threads in a wait, times 2; bit 0 is the clock"},
	}
	r.doubt(e.u32(0) > 2, "__lock is neither 0, 1 nor 2")
	r.doubt(woken > wakeup || wakeup > total, "more were woken than signalled, or signalled than there were waits")
	r.doubt(waiting>>1 > maxUsers, "__nwaiters is not small")
	return r
}

func (e *explainer) oldRWLock() Reading {
	r := Reading{What: "pthread_rwlock_t before glibc 2.25", kinds: []Kind{RWLockRead, RWLockWrite}}
	e.short(&r, e.layout.rwlockSize)
	writer := e.u32(e.layout.rwlockWriter)
	r.Fields = []Field{
		{"__lock", 0, uint64(e.u32(0)), ""},
		{"__nr_readers", 4, uint64(e.u32(4)), "that hold it"},
		{"__readers_wakeup", 8, uint64(e.u32(8)), "what readers sleep on"},
		{"__writer_wakeup", 12, uint64(e.u32(12)), "what writers sleep on"},
		{"__nr_readers_queued", 16, uint64(e.u32(16)), ""},
		{"__nr_writers_queued", 20, uint64(e.u32(20)), ""},
		{"__writer", e.layout.rwlockWriter, uint64(writer), e.thread(writer)},
	}
	r.doubt(e.u32(0) > 2, "__lock is neither 0, 1 nor 2")
	r.doubt(e.u32(4) > maxUsers || e.u32(16) > maxUsers || e.u32(20) > maxUsers, "its counts are not small")
	r.doubt(e.u32(4) != 0 && writer != 0, "it has readers and a writer")
	return r
}

func (e *explainer) oldBarrier() Reading {
	r := Reading{What: "pthread_barrier_t before glibc 2.23", kinds: []Kind{Barrier}}
	e.short(&r, 20)
	lock, left, count, private := e.u32(4), e.u32(8), e.u32(12), e.u32(16)
	r.Fields = []Field{
		{"curr_event", 0, uint64(e.u32(0)), "what threads sleep on"},
		{"lock", 4, uint64(lock), ""},
		{"left", 8, uint64(left), "that have not arrived"},
		{"init_count", 12, uint64(count), "threads that it takes"},
		{"private", 16, uint64(private), ""},
	}
	r.doubt(lock > 2, "lock is neither 0, 1 nor 2")
	r.doubt(count == 0 || count > maxUsers || left > count, "left and init_count are no numbers of threads")
	r.doubt(private != 0 && private != opPrivate, "private is neither 0 nor 128")
	return r
}
