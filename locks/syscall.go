package locks

import (
	"math"

	"github.com/corethreads/corethreads/elfcore"
)

// Error numbers that the kernel leaves as the result of a system call that it
// interrupted to dump the process (include/linux/errno.h): the call would have
// been restarted, so that the thread was blocked in it.
const (
	eRestartSys          = -512
	eRestartNoIntr       = -513
	eRestartNoHand       = -514
	eRestartRestartBlock = -516

	// eIntr is left by calls that are not restarted, such as epoll_wait.
	eIntr  = -4
	eInval = -22
)

// call is the system call that a thread is in, or was in last.
type call struct {
	number uint64
	args   [6]uint64
	result int64
	// known tells that result is the result: on some architectures the kernel
	// puts the first argument back in its place.
	known bool
}

// systemCall reads a thread's registers. It is false where they show none.
func systemCall(c *elfcore.Core, t *elfcore.Thread) (call, bool) {
	s := c.Arch.Syscall
	var out call
	if s.Note != 0 {
		desc, _, ok := t.Note(s.Note)
		if !ok || len(desc) < 4 {
			return out, false
		}
		out.number = uint64(c.ByteOrder.Uint32(desc) & 0xffff)
	} else {
		n, ok := t.Register(s.Number)
		if !ok {
			return out, false
		}
		out.number = n
	}
	if c.Arch.WordSize() == 4 {
		out.number &= math.MaxUint32
	}
	if s.Trap != "" {
		trap, ok := t.Register(s.Trap)
		if !ok {
			return out, false
		}
		inCall := false
		for _, x := range s.InCall {
			inCall = inCall || trap == x
		}
		if !inCall {
			return out, false
		}
	}
	for k, name := range s.Args {
		x, ok := t.Register(name)
		if !ok {
			return out, false
		}
		if c.Arch.WordSize() == 4 {
			x &= math.MaxUint32
		}
		out.args[k] = x
	}
	if result, ok := t.Register(s.Return); ok && !s.Rewound && c.Producer != elfcore.QEMUUser {
		out.result, out.known = int64(result), true
		if c.Arch.WordSize() == 4 {
			out.result = int64(int32(result))
		}
	}
	return out, true
}

// restarts tells whether a result shows that the thread slept in the call.
func restarts(result int64) bool {
	switch result {
	case eRestartSys, eRestartNoIntr, eRestartNoHand, eRestartRestartBlock:
		return true
	}
	return false
}

// state is whether a thread sleeps on a futex.
type state int

const (
	notInFutex state = iota
	blocked
	waking   // it sleeps, but its word has changed: it is about to go on
	spinning // it calls the kernel again and again, which refuses
)

// futexCall decodes the futex call of a thread.
func (a *analyzer) futexCall(i int) futexCall {
	c, ok := systemCall(a.core, &a.core.Threads[i])
	if !ok {
		return futexCall{}
	}
	var f Futex
	s := a.core.Arch.Syscall
	switch {
	case c.number == s.Futex || s.FutexTime64 != 0 && c.number == s.FutexTime64:
		f = Futex{Address: elfcore.Addr(c.args[0]), Op: uint32(c.args[1]), Value: uint32(c.args[2]), Timeout: elfcore.Addr(c.args[3])}
		if a.core.Producer == elfcore.QEMUUser && f.Address == 0 {
			// QEMU fills the saved first argument on some targets only.
			if x, ok := a.core.Threads[i].Register(s.Return); ok {
				f.Address = elfcore.Addr(x)
			}
		}
	case c.number == futexWait2:
		f = Futex{Address: elfcore.Addr(c.args[0]), Op: opWaitBitset | uint32(c.args[3])&opPrivate, Value: uint32(c.args[1]), Timeout: elfcore.Addr(c.args[4])}
	case c.number == futexWaitV:
		return a.waitV(c)
	default:
		return futexCall{}
	}
	f.Result, f.Known = c.result, c.known
	return a.judge(f)
}

// judge tells whether a decoded call sleeps.
func (a *analyzer) judge(f Futex) futexCall {
	refused := f.Known && f.Result == eInval
	if !f.waits() || f.Address == 0 || f.Address%4 != 0 && !refused {
		return futexCall{futex: f}
	}
	word, err := a.core.Uint32(f.Address)
	f.Current, f.Readable = word, err == nil
	switch {
	case refused:
		return futexCall{f, spinning}
	case f.Known && !restarts(f.Result), !f.Readable && !f.Known:
		return futexCall{futex: f}
	case !f.pi() && f.Readable && f.Current != f.Value:
		return futexCall{f, waking}
	}
	return futexCall{f, blocked}
}

// waitV decodes futex_waitv(2), which waits for several words at once: {u64
// value, u64 address, u32 flags, u32 0} each. The first stands for all.
func (a *analyzer) waitV(c call) futexCall {
	var first futexCall
	for i := range min(c.args[1], maxWaitVLen) {
		b := make([]byte, 24)
		if _, err := a.core.ReadMemory(b, elfcore.Addr(c.args[0]+24*i)); err != nil {
			return futexCall{}
		}
		o := a.core.ByteOrder
		x := a.judge(Futex{Address: elfcore.Addr(o.Uint64(b[8:])), Value: uint32(o.Uint64(b)), Op: opWait | o.Uint32(b[16:])&opPrivate, Timeout: elfcore.Addr(c.args[3]), Result: c.result, Known: c.known})
		if x.state != blocked {
			return x
		}
		if i == 0 {
			first = x
		}
	}
	return first
}
