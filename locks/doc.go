// Package locks tells what each blocked thread waits for, who holds it, and what
// follows from that.
//
// It reads the registers of each thread, decodes the futex system call that it
// is blocked in, and recognises the object that the futex word belongs to by its
// bytes, by what glibc noted in the thread's descriptor, and by where it lies; no
// symbols are needed and no debug information. Each statement carries its
// evidence. What could not be told apart is said to be a guess.
//
// A core shows one moment. A thread whose futex word has already changed is about
// to wake and proves nothing.
package locks
