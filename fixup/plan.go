package fixup

import "github.com/corethreads/corethreads/elfcore"

// Patch is one edit of a core: bytes at a file offset that are replaced by as
// many others.
type Patch struct {
	// Address is where the bytes stand in the dead process; zero for bytes
	// that are not memory (a note's).
	Address elfcore.Addr
	// Offset is where they stand in the (uncompressed) core file.
	Offset int64
	// Old is what the core holds there, New what it will hold. Equal lengths.
	Old, New []byte
	// Reason says why, for the person who reads the plan.
	Reason string
}
