package unwind

import "github.com/corethreads/corethreads/elfcore"

// cloneVM is CLONE_VM of linux/sched.h.
const cloneVM = 0x100

// cloneCalls are the numbers of the system calls that make threads, where they
// and their arguments stay in the registers of the child.
type cloneCalls struct{ clone, clone3 uint64 }

// newborn tells whether the thread is about to carry out its first instruction
// behind a system call that made it, on a stack of its own. Its registers are
// still those of its parent, but for two, so that call-frame information would
// lead to its parent's caller.
func (w *walker) newborn() bool {
	if !w.made() && !w.startsThread() {
		return false
	}
	where, known := w.systemCallAt(elfcore.Addr(w.regs.pc))
	return where == 1 || !known && w.abi.clones == nil
}

// made tells by the registers that clone or clone3 has returned 0.
func (w *walker) made() bool {
	if w.abi.clones == nil {
		return false
	}
	s := w.core.Arch.Syscall
	number, ok := w.thread.Register(s.Number)
	result, known := w.thread.Register(s.Return)
	flags, okFlags := w.thread.Register(s.Args[0])
	stack, okStack := w.thread.Register(s.Args[1])
	if !ok || !known || !okFlags || !okStack || w.trim(result) != 0 {
		return false
	}
	switch w.trim(number) &^ (1 << 30) { // __X32_SYSCALL_BIT
	case w.abi.clones.clone:
	case w.abi.clones.clone3:
		// struct clone_args: flags, and the stack at 40
		arguments := flags
		var err, errStack error
		flags, err = w.load(arguments, 8)
		stack, errStack = w.load(arguments+40, 8)
		if err != nil || errStack != nil {
			return false
		}
	default:
		return false
	}
	return flags&cloneVM != 0 && stack != 0
}

// parentRow is the call-frame information of the instruction that made the
// system call: that of i386's clone ends there, since it is not the child's.
func (w *walker) parentRow() *row {
	if where, _ := w.systemCallAt(elfcore.Addr(w.regs.pc)); w.abi.clones == nil || where != 1 {
		return nil
	}
	row, err := w.row(w.regs.pc - 3) // the instruction has 2 bytes
	if err != nil {
		return nil
	}
	return row
}
