package fixup

import (
	"context"
	"errors"
	"fmt"
)

// ErrAlreadyUndone says that a core holds all old bytes of a plan already, and
// that nothing was written.
var ErrAlreadyUndone = errors.New("the repair is already undone")

// Undo takes a repair in place back: the inverse of plan, which is what
// ApplyInPlace left as undo file, is applied to the core at path. A repair that
// was interrupted is taken back as far as it came.
//
// Wherever the core holds neither the new nor the old bytes of the plan, it is
// left alone with an ErrOtherCore. Mode, owner and times stay as they are.
func Undo(ctx context.Context, plan *Plan, path string, opts WriteOptions) (Result, error) {
	res, touched, err := edit(ctx, path, plan.Inverse(), opts, nil)
	switch {
	case errors.Is(err, errNothingPending):
		return res, fmt.Errorf("%s: %w", path, ErrAlreadyUndone)
	case touched:
		return res, fmt.Errorf("%w; the core is partly patched: undo it again", err)
	}
	return res, err
}
