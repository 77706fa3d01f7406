// Package fixup decides the smallest edit that makes debuggers right, and
// writes it without copying what need not be copied.
//
// Deciding and writing meet in a [Plan], a short list of patches that anyone
// can read, check and undo. [Apply] writes a patched copy, [ApplyInPlace] edits
// the core itself and leaves the plan beside it, and [Undo] takes that back.
// Each of them writes only after every old byte of the plan was found where the
// plan says.
package fixup

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// Plan is one repair of one core. Dry run, patch file and undo file are this
// one value, written as JSON of the schema [PlanSchema]; undoing it is applying
// its Inverse.
type Plan struct {
	// Core tells which core the plan belongs to.
	Core CoreID `json:"core"`
	// Strategy names the way of repairing, for the person who reads the plan.
	Strategy string `json:"strategy"`
	// Patches are sorted by offset and share no byte.
	Patches []Patch `json:"patches"`
}

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

// end is the offset of the first byte after the patch.
func (p *Patch) end() int64 { return p.Offset + int64(len(p.Old)) }

// Validate tells what keeps the plan from being applied to any core: no usable
// identity, patches that are out of order, overlap, change no byte or the
// number of bytes, or lie outside of the core. A plan without patches is valid.
func (p *Plan) Validate() error {
	if p.Core.Size <= 0 {
		return fmt.Errorf("plan: a core of %d bytes cannot be patched", p.Core.Size)
	}
	if sum, err := hex.DecodeString(p.Core.HeadSHA256); err != nil || len(sum) != headSumSize {
		return fmt.Errorf("plan: head_sha256 %q is not %d hexadecimal digits", p.Core.HeadSHA256, 2*headSumSize)
	}
	var end int64
	for i := range p.Patches {
		patch := &p.Patches[i]
		if err := patch.validate(p.Core.Size); err != nil {
			return fmt.Errorf("plan: patch %d, offset %#x: %w", i, patch.Offset, err)
		}
		if patch.Offset < end {
			return fmt.Errorf("plan: patch %d, offset %#x: begins before patch %d ends, at %#x; patches must be sorted and share no byte",
				i, patch.Offset, i-1, end)
		}
		end = patch.end()
	}
	return nil
}

func (p *Patch) validate(size int64) error {
	n := int64(len(p.Old))
	switch {
	case len(p.New) != len(p.Old):
		return fmt.Errorf("%d old bytes but %d new ones; a patch must not move what follows it", len(p.Old), len(p.New))
	case bytes.Equal(p.Old, p.New):
		return fmt.Errorf("changes no byte")
	case p.Offset < 0 || n > size || p.Offset > size-n:
		return fmt.Errorf("%d bytes from there lie outside of the core's %d bytes", n, size)
	}
	return nil
}

// Inverse is the plan that takes p back. It shares its bytes with p.
func (p *Plan) Inverse() *Plan {
	inverse := *p
	inverse.Patches = make([]Patch, len(p.Patches))
	for i, patch := range p.Patches {
		patch.Old, patch.New = patch.New, patch.Old
		inverse.Patches[i] = patch
	}
	return &inverse
}
