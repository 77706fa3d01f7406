// Package unwind walks one thread's stack by call-frame information, and names
// what is on it.
//
// Call-frame information (CFI) says, for every instruction of a function, where
// its caller's registers are. It is read from .eh_frame, through .eh_frame_hdr
// where there is one, and from .debug_frame, as the walk needs it; that of the
// vDSO is in the core. On ARM, the tables of the exception ABI say the same of
// the places where a function calls another. Where there is neither, the walk goes
// on by the first instructions of the function, by frame pointers, and then by a
// search of the stack; frames that were found so are marked as guesses.
//
// Neither the core nor the files are trusted: expressions and programs have
// bounds, the walk goes up the stack only, and the work that all threads
// together may cost is limited.
package unwind
