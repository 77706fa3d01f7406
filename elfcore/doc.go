// Package elfcore gives what the kernel wrote: threads, registers, notes,
// mappings and memory of one core, whatever its size, compression, class, byte
// order or architecture.
//
// It knows nothing of any libc. Nothing in a core is trusted: every length is
// checked before it is used and nothing is allocated by a size that the file
// merely claims. A byte of memory that the core does not hold is a [*Fault]
// that says why, never a zero. What is odd but harmless is a [Warning].
package elfcore
