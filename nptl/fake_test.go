package nptl_test

import (
	"slices"

	"github.com/corethreads/corethreads/internal/coretest"
)

// home is where a process keeps the heads of its lists.
type home int

const (
	inLoader       home = iota // used, user, cache in a row, glibc 2.33 and later
	inLibpthread               // glibc up to 2.32: used and cache in .data, user in .bss
	cacheFirst                 // the same, cache before used, as on aarch64
	staticForward              // a static program: used, user, cache, then the cache's size
	staticBackward             // a static program: the cache's size, then cache, user, used
)

// Bits of cancelhandling, and values of joinstate and stack_mode, by
// nptl/descr.h.
const (
	exiting    = 0x10
	terminated = 0x20

	stateExited, stateExiting, stateJoinable, stateDetached = 0, 1, 2, 3
	modeUser                                                = 2
)

// fakeThread is one thread of a fake process, living or not: the members of its
// struct pthread, and its registers where it is an LWP.
type fakeThread struct {
	pthread uint64 // 0 for a thread that libc does not know
	lwp     int    // its id in the notes, 0 if it is no LWP
	tp, sp  uint64

	tid            int32
	pid            int32
	cancel         uint32
	user, detached bool
	initial        bool
	joinState      uint32
	start          uint64
	block, size    uint64 // stackblock and its size; 0 and __libc_stack_end of the initial thread
	unlinked       bool   // detached and gone: on no list, though memory is there
}

// fake is a process of glibc that is not real: its threads go through what
// glibc's would, and its core is encoded by coretest.
type fake struct {
	libc
	home home
	id   int // the process id
	// threads are all threads that ever were, the crashed one first.
	threads []*fakeThread
	// The lists, head first.
	user, used, cache []*fakeThread
	// parent is the process id of the parent.
	parent int
	// outside is what ids in the notes exceed those in memory by, as in the
	// core of another pid namespace.
	outside int
	// What the core lacks.
	noFile, noAuxv, noPointers, noProcess bool

	mapped []mapping
	stacks uint64 // how many stacks have been made
}

// mapping is a piece of the process's memory.
type mapping struct {
	load   coretest.Load
	path   string // of the file, empty for anonymous memory
	offset uint64
}

// newFake makes a process with its initial thread.
func newFake(l libc, h home) *fake {
	f := &fake{libc: l, home: h, id: 1000, parent: 1}
	f.mapFiles()
	main := &fakeThread{lwp: f.id, tid: int32(f.id), user: true, initial: true, joinState: stateJoinable, size: f.stackEnd() - 0x100}
	main.pthread = f.high() + 0xf7e00800
	main.sp = f.stackEnd() - 0x800
	f.settle(main)
	f.user = []*fakeThread{main}
	return f
}

func (f *fake) main() *fakeThread { return f.threads[0] }

// settle completes what is the same for all new threads.
func (f *fake) settle(t *fakeThread) {
	t.pid = int32(f.id)
	t.tp = t.pthread + f.above
	f.threads = append(f.threads, t)
}

// thread starts a thread on a stack that glibc makes.
func (f *fake) thread() *fakeThread {
	t := f.create(f.high()+0xf0000000, true)
	f.used = slices.Insert(f.used, 0, t)
	return t
}

// userThread starts a thread on a stack that the program supplies.
func (f *fake) userThread() *fakeThread {
	t := f.create(f.high()+0xe0000000, false)
	t.user = true
	f.user = slices.Insert(f.user, 0, t)
	return t
}

const (
	stackSize = 0x3000
	guardSize = 0x1000
)

// create makes a thread and its stack. glibc's own stacks start with a guard.
func (f *fake) create(area uint64, guard bool) *fakeThread {
	f.stacks++
	base := area + f.stacks*0x10000
	t := &fakeThread{block: base, size: stackSize, joinState: stateJoinable, start: f.program() + 0x400}
	if guard {
		f.mapped = append(f.mapped, mapping{load: coretest.Load{Addr: base, MemSize: guardSize}})
		base += guardSize
	}
	end := t.block + stackSize
	f.mapped = append(f.mapped, mapping{load: coretest.Load{Addr: base, Data: make([]byte, end-base), Flags: coretest.RW}})
	// Static TLS is above the descriptor on some architectures.
	t.pthread = (end - 0x200 - f.size) &^ 0x3f
	t.sp = t.pthread - 0x400
	f.settle(t)
	t.lwp = f.id + len(f.threads) - 1
	t.tid = int32(t.lwp)
	return t
}

// exit ends a thread that nobody joins: the kernel, and since 2.43 the thread
// itself, clears its id.
func (f *fake) exit(t *fakeThread) {
	t.lwp = 0
	t.tid = 0
	t.cancel |= exiting
	t.joinState = stateExited
	if t.initial && f.joinState {
		t.tid = int32(f.id) // main that left by pthread_exit keeps it
	}
}

// dying is a thread in the middle of its exit: an LWP still.
func (f *fake) dying(t *fakeThread) {
	t.cancel |= exiting
	t.joinState = stateExiting
}

// unborn is a thread that pthread_create has linked, and the kernel does not
// have yet.
func (f *fake) unborn(t *fakeThread) { t.lwp, t.tid = 0, 0 }

// join ends a thread and joins it: a stack of glibc's goes to the cache.
func (f *fake) join(t *fakeThread) {
	f.exit(t)
	if t.tid = -1; f.retiresJoinedByZero {
		t.tid = 0
	}
	f.free(t)
}

// detach ends a detached thread.
func (f *fake) detach(t *fakeThread) {
	t.detached = true
	f.exit(t)
	f.free(t)
}

// free is __nptl_free_tcb.
func (f *fake) free(t *fakeThread) {
	t.cancel |= terminated
	f.user, f.used = without(f.user, t), without(f.used, t)
	if t.user {
		t.unlinked = true
		return
	}
	f.cache = slices.Insert(f.cache, 0, t)
}

func without(list []*fakeThread, t *fakeThread) []*fakeThread {
	return slices.DeleteFunc(slices.Clone(list), func(x *fakeThread) bool { return x == t })
}

// fork makes it the child that thread me forked (reclaim_stacks): the stacks of
// all others are in the cache, me is alone on stack_used, unless its stack is
// not glibc's.
func (f *fake) fork(me *fakeThread) {
	f.parent, f.id = f.id, f.id+5000
	for _, t := range f.used {
		if t != me {
			t.tid = 0
			if f.joinState {
				t.joinState = stateExited
			}
		}
	}
	f.cache = append(without(f.used, me), f.cache...)
	f.user, f.used = nil, nil
	for _, t := range f.threads {
		if t != me {
			t.lwp = 0
		}
	}
	if me.user {
		f.user = []*fakeThread{me}
	} else {
		f.used = []*fakeThread{me}
	}
	me.lwp, me.tid, me.pid = f.id, int32(f.id), int32(f.id)
}

// rawFork makes it a child of which glibc does not know.
func (f *fake) rawFork() {
	f.parent, f.id = f.id, f.id+5000
	for _, t := range f.threads {
		t.lwp = 0
	}
	f.main().lwp = f.id
}
