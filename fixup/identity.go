package fixup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// headSize is how much of a core its identity reads. The start of a core holds
// the program headers with all randomised addresses, and in most cores the
// notes with the registers, so two crashes differ there even when they are of
// one program; and a core that was cut still has it.
const headSize = 64 << 10

const headSumSize = sha256.Size

// ErrOtherCore says that a plan belongs to another core than the one it was
// used on, or that this one was changed since the plan was made.
var ErrOtherCore = errors.New("the plan does not belong to this core, or the core was changed since")

// CoreID tells one core from another, and is the same before and after the
// patches it was made with.
type CoreID struct {
	// Size is the size of the uncompressed file in bytes.
	Size int64 `json:"size"`
	// HeadSHA256 is the SHA-256, in hexadecimal, of the first 64 KiB of the
	// uncompressed file (of all of a smaller one), with zeroes in place of
	// the bytes that the plan patches.
	HeadSHA256 string `json:"head_sha256"`
	// PID and Command name the process to people and are never compared;
	// nil and "" when they are not known.
	PID     *int   `json:"pid"`
	Command string `json:"command"`
}

// Identify gives the identity of a core of size bytes for a plan of these
// patches. PID and Command are left to the caller.
func Identify(core io.ReaderAt, size int64, patches []Patch) (CoreID, error) {
	if size <= 0 {
		return CoreID{}, fmt.Errorf("a core of %d bytes has no identity", size)
	}
	head := make([]byte, min(size, headSize))
	if err := readAt(core, head, 0); err != nil {
		return CoreID{}, fmt.Errorf("reading the first %d bytes: %w", len(head), err)
	}
	for i := range patches {
		start := max(patches[i].Offset, 0)
		end := min(patches[i].end(), int64(len(head)))
		if start < end {
			clear(head[start:end])
		}
	}
	sum := sha256.Sum256(head)
	return CoreID{Size: size, HeadSHA256: hex.EncodeToString(sum[:])}, nil
}

// String names the core for an error message.
func (id CoreID) String() string {
	s := fmt.Sprintf("a core of %d bytes", id.Size)
	if id.Command != "" {
		s += fmt.Sprintf(" of %q", id.Command)
	}
	if id.PID != nil {
		s += fmt.Sprintf(", pid %d", *id.PID)
	}
	return s
}

// checkIdentity gives an ErrOtherCore unless the plan belongs to this core of
// size bytes, patched or not.
func (p *Plan) checkIdentity(core io.ReaderAt, size int64) error {
	if size != p.Core.Size {
		return fmt.Errorf("%w: it has %d bytes, and the plan is for %v", ErrOtherCore, size, p.Core)
	}
	id, err := Identify(core, size, p.Patches)
	if err != nil {
		return err
	}
	if id.HeadSHA256 != p.Core.HeadSHA256 {
		return fmt.Errorf("%w: its first %d bytes are not those of the plan, which is for %v",
			ErrOtherCore, min(size, headSize), p.Core)
	}
	return nil
}

// readAt fills p from offset off, or fails.
func readAt(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
