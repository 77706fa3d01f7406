package fixup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/corethreads/corethreads/internal/stream"
)

// errNothingPending says that a core holds all new bytes already.
var errNothingPending = errors.New("nothing to write")

// ApplyInPlace edits the core at path and leaves the plan as undo file at
// undoPath, which is on disk before the first byte of the core is changed. It
// completes a run that was interrupted between two patches.
//
// Mode, owner and times of the core stay as they are; a symbolic link is
// followed. An undo file that exists is kept when it holds the same patches;
// else it is the way back from another repair, and the core is left alone. A
// core with all new bytes is an ErrAlreadyApplied, a plan of another core an
// ErrOtherCore. When ctx is cancelled nothing is changed; it is not looked at
// between patches. After any other error the core is as it was or, where even
// that failed and the error says so, can be restored with Undo.
func ApplyInPlace(ctx context.Context, path, undoPath string, plan *Plan, opts WriteOptions) (Result, error) {
	created := false
	res, touched, err := edit(ctx, path, plan, opts, func() (err error) {
		created, err = keepUndo(undoPath, plan, opts)
		return err
	})
	switch {
	case errors.Is(err, errNothingPending):
		return res, fmt.Errorf("%s: %w", path, ErrAlreadyApplied)
	case touched:
		return res, fmt.Errorf("%w; the core is partly patched: undo it with %s", err, undoPath)
	case err != nil && created:
		return res, errors.Join(err, os.Remove(undoPath))
	}
	return res, err
}

// edit applies what the core at path does not hold yet of the plan. Between
// checks and writing it calls prepare, if there is one. touched tells, with an
// error, that the core is no longer as it was.
func edit(ctx context.Context, path string, plan *Plan, opts WriteOptions, prepare func() error) (res Result, touched bool, err error) {
	res.Method = MethodNone
	core, err := openToEdit(path)
	if err != nil {
		return res, false, err
	}
	defer core.Close()
	switch err := lock(core, lockExclusive); {
	case errors.Is(err, errBusy):
		return res, false, fmt.Errorf("%s: %w", path, err)
	case err != nil:
		res.warn("%s %v; make sure that no other run edits it", path, err)
	default:
		// Closing is not enough: a child that another goroutine has just
		// forked still has the file open, and with it the lock.
		defer unlock(core)
	}
	info, err := core.Stat()
	if err != nil {
		return res, false, err
	}
	if n := links(info); n > 1 {
		res.warn("%s has %d names (hard links), and is changed under all of them", path, n)
	}
	pending, err := plan.pending(core, info.Size())
	if err != nil {
		return res, false, fmt.Errorf("%s: %w", path, err)
	}
	opts.at("checked")
	if prepare != nil {
		if err := prepare(); err != nil {
			return res, false, err
		}
	}
	opts.at("prepared")
	if err := ctx.Err(); err != nil {
		return res, false, err
	}
	if changed(core, info) {
		return res, false, fmt.Errorf("%s: %w", path, errStillWritten)
	}

	// The times will not show that it was edited.
	stream.Forget(core)
	err = write(core, pending, opts)
	if err == nil {
		err = plan.verify(core)
	}
	if err == nil {
		keepTimes(path, info, &res)
		opts.at("times")
		err = core.Sync()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
		if failed := restore(core, pending); failed != nil {
			return res, true, fmt.Errorf("%w; putting the old bytes back failed too: %w", err, failed)
		}
		keepTimes(path, info, &res)
		return res, false, fmt.Errorf("%w; the old bytes were put back", err)
	}
	opts.at("synced")
	res.Method = MethodInPlace
	return res, false, nil
}

// pending gives the patches that are still to be written to a core of size
// bytes, errNothingPending if there is none.
func (p *Plan) pending(core *os.File, size int64) ([]Patch, error) {
	if err := p.checkUsable(core, size); err != nil {
		return nil, err
	}
	pending, err := p.survey(core)
	if err != nil {
		return nil, err
	}
	if len(pending) == 0 {
		// A run that was killed may have come to its last patch, but not
		// to its sync.
		if err := core.Sync(); err != nil {
			return nil, err
		}
		return nil, errNothingPending
	}
	return pending, nil
}

// openToEdit opens the core at path for reading and writing.
func openToEdit(path string) (*os.File, error) {
	// Looked at first: to open a device can have effects of its own.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	core, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("%s: cannot be edited in place (%w); write a repaired copy elsewhere", path, err)
	}
	return core, nil
}

// keepUndo makes sure that the plan is on disk at path, and tells whether it was
// not there before.
func keepUndo(path string, plan *Plan, opts WriteOptions) (created bool, err error) {
	err = plan.writeFile(path, opts)
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("undo file: %w", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		if there, err := ReadFile(path); err == nil && there.samePatches(plan) {
			return false, syncDir(filepath.Dir(path))
		}
	}
	return false, fmt.Errorf("%s: %w, and is not the undo file of this repair; undo what it is for, or name another undo file", path, fs.ErrExist)
}

// samePatches tells whether two plans do the same to the same core.
func (p *Plan) samePatches(q *Plan) bool {
	return p.Core.Size == q.Core.Size && p.Core.HeadSHA256 == q.Core.HeadSHA256 &&
		slices.EqualFunc(p.Patches, q.Patches, func(a, b Patch) bool {
			return a.Offset == b.Offset && bytes.Equal(a.Old, b.Old) && bytes.Equal(a.New, b.New)
		})
}
