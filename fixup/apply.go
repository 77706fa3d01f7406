package fixup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Method is how a repaired core came to be.
type Method string

// The methods, cheapest first.
const (
	MethodNone       Method = "none"        // nothing was written
	MethodInPlace    Method = "in-place"    // the core itself was edited
	MethodReflink    Method = "reflink"     // the copy shares its blocks with the core
	MethodSparseCopy Method = "sparse-copy" // data was copied, holes were left out
	MethodCopy       Method = "copy"        // every byte was copied
)

// Result says what was done. Its Warnings are for people: the repair is whole,
// but something about the file is not as it was.
type Result struct {
	Method Method
	// BytesCopied counts the bytes of the core that were copied; bytes
	// shared by a reflink, holes and patches are not among them.
	BytesCopied int64
	Warnings    []string
}

func (r *Result) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// WriteOptions are for Apply, ApplyInPlace and Undo. The zero value is usable.
type WriteOptions struct {
	// Force lets Apply replace a regular file at its destination.
	Force bool
	// Progress, if set, is called while Apply copies, in the calling
	// goroutine: done is the offset reached in a core of total bytes.
	Progress func(done, total int64)

	// step, if set, is called before and after each thing that changes a
	// file, so that tests can stop there.
	step func(name string)
}

func (o *WriteOptions) progress(done, total int64) {
	if o.Progress != nil {
		o.Progress(done, total)
	}
}

func (o *WriteOptions) at(step string) {
	if o.step != nil {
		o.step(step)
	}
}

// ErrAlreadyApplied says that a core holds all new bytes of a plan already, and
// that nothing was written.
var ErrAlreadyApplied = errors.New("the plan is already applied")

var (
	errNoPatches    = errors.New("the plan has no patches: there is nothing to write")
	errStillWritten = errors.New("the core is still being written: its size or modification time changed meanwhile; try again when it is complete")
)

// Apply writes to dst what src holds, with the plan applied. Where the file
// system can, the copy shares the blocks of src (FICLONE); else data is copied
// and holes stay holes. It may move the read offset of src.
//
// The copy has mode 0600, since a core holds the secrets of its process and dst
// may lie in a more public place; times, the attributes user.coredump.* and,
// for root, the owner are those of src. It is made under a temporary name in
// the folder of dst, verified, synced to disk and only then renamed, so dst is
// complete or untouched. On an error, and when ctx is cancelled, the temporary
// file is removed.
//
// dst must not be src under any name, nor a symbolic link, nor anything else
// than a regular file; one that exists is an fs.ErrExist unless opts.Force.
// A plan of another core is an ErrOtherCore.
func Apply(ctx context.Context, src *os.File, dst string, plan *Plan, opts WriteOptions) (Result, error) {
	none := Result{Method: MethodNone}
	// An edit in place by another run would end up in the copy half done. A
	// file system without locks still has the check of the time stamps.
	if err := lock(src, lockShared); errors.Is(err, errBusy) {
		return none, fmt.Errorf("%s: %w", src.Name(), err)
	} else if err == nil {
		defer unlock(src)
	}
	info, err := src.Stat()
	if err != nil {
		return none, err
	}
	if !info.Mode().IsRegular() {
		return none, fmt.Errorf("%s: not a regular file", src.Name())
	}
	if err := checkTarget(dst, info, opts.Force); err != nil {
		return none, err
	}
	if err := plan.checkUnpatched(src, info.Size()); err != nil {
		return none, fmt.Errorf("%s: %w", src.Name(), err)
	}
	opts.at("checked")

	d, err := newDraft(dst)
	if err != nil {
		return none, err
	}
	defer d.discard()
	opts.at("created")

	res, err := copyCore(ctx, d.file, src, info.Size(), opts)
	if changed(src, info) {
		return none, fmt.Errorf("%s: %w", src.Name(), errStillWritten)
	}
	if err != nil {
		return none, fmt.Errorf("copying %s to %s: %w", src.Name(), dst, err)
	}
	if err := patchCopy(d.file, plan, opts); err != nil {
		return none, fmt.Errorf("%s: %w", dst, err)
	}
	keepAttributes(d.file, src, info, &res)
	keepTimes(d.file.Name(), info, &res)
	opts.at("attributes")

	if err := ctx.Err(); err != nil {
		return none, err
	}
	if err := d.publish(opts.Force, opts); err != nil {
		return none, err
	}
	if err := syncDir(filepath.Dir(dst)); err != nil {
		res.warn("%s is written, but may be gone after a power failure now: %v", dst, err)
	}
	return res, nil
}

// checkUnpatched gives an error unless the plan can be applied to this core of
// size bytes, and no patch was so far.
func (p *Plan) checkUnpatched(core *os.File, size int64) error {
	if err := p.checkUsable(core, size); err != nil {
		return err
	}
	pending, err := p.survey(core)
	switch {
	case err != nil:
		return err
	case len(pending) == 0:
		return ErrAlreadyApplied
	case len(pending) < len(p.Patches):
		return fmt.Errorf("%d of %d patches are there already: a repair in place was interrupted; undo it or finish it first",
			len(p.Patches)-len(pending), len(p.Patches))
	}
	return nil
}

// checkUsable gives an error unless the plan is sound, has something to write
// and belongs to this core of size bytes.
func (p *Plan) checkUsable(core *os.File, size int64) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if len(p.Patches) == 0 {
		return errNoPatches
	}
	return p.checkIdentity(core, size)
}

// patchCopy applies the plan to a fresh copy, which is checked like a core that
// came from elsewhere.
func patchCopy(dst *os.File, plan *Plan, opts WriteOptions) error {
	if err := plan.checkUnpatched(dst, plan.Core.Size); err != nil {
		return fmt.Errorf("the copy differs from the core: %w", err)
	}
	if err := write(dst, plan.Patches, opts); err != nil {
		return err
	}
	return plan.verify(dst)
}

// changed tells whether the file is not as it was when info was taken.
func changed(f *os.File, info os.FileInfo) bool {
	now, err := f.Stat()
	return err != nil || now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime())
}
