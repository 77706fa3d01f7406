package elfcore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/corethreads/corethreads/internal/stream"
)

// Option changes how Open reads a core.
type Option func(*options)

type options struct {
	ctx    context.Context
	stream stream.Options
}

// WithContext ends the unpacking of a compressed core when ctx ends.
func WithContext(ctx context.Context) Option {
	return func(o *options) { o.ctx = ctx }
}

// WithTempDir names the folder that a compressed core is unpacked into, instead
// of the one that the core is in.
func WithTempDir(dir string) Option {
	return func(o *options) { o.stream.TempDir = dir }
}

// WithKeep leaves the unpacked core of a compressed one in that folder, or uses
// the one that an earlier call left there; Path of the core tells its name.
func WithKeep() Option {
	return func(o *options) { o.stream.Keep = true }
}

// WithProgress is called about ten times a second while a compressed core is
// unpacked: with the bytes read so far, their total (0 if not known), and the
// bytes unpacked so far.
func WithProgress(f func(read, total, unpacked int64)) Option {
	return func(o *options) { o.stream.Progress = f }
}

// Open reads the core in a file, compressed or not. Close the core to release
// the file.
func Open(path string, opts ...Option) (*Core, error) {
	o := newOptions(opts)
	f, err := stream.Open(o.ctx, path, o.stream)
	if err != nil {
		return nil, nameFormat(err, path)
	}
	return fromStream(f, path)
}

// OpenReader reads a core from a stream that can be read only once, such as
// standard input; it is copied to a temporary file. Close the core to remove
// that.
func OpenReader(r io.Reader, opts ...Option) (*Core, error) {
	o := newOptions(opts)
	f, err := stream.OpenReader(o.ctx, r, o.stream)
	if err != nil {
		return nil, nameFormat(err, "standard input")
	}
	return fromStream(f, "standard input")
}

// nameFormat says what was unpacked in place of a core, where that is known.
func nameFormat(err error, name string) error {
	var not *stream.NotELFError
	if errors.As(err, &not) {
		if what, ok := foreignFormat(not.Head); ok {
			return fmt.Errorf("%s: %w", name, &FormatError{What: fmt.Sprintf("the %s holds %s", not.What, what)})
		}
	}
	return err
}

func newOptions(opts []Option) *options {
	o := &options{ctx: context.Background()}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

func fromStream(f *stream.File, name string) (*Core, error) {
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	c, err := New(f, st.Size())
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.Compression, c.Path, c.stream = f.Compression, f.Path, f
	if f.Cut != nil {
		c.StreamCut = f.Cut
		c.warn(f.Cut.Unpacked, "the compressed file is cut or damaged: %v", f.Cut)
	}
	return c, nil
}

// File is the file that holds the uncompressed core; nil for a core that New
// made.
func (c *Core) File() *os.File {
	if c.stream == nil {
		return nil
	}
	return c.stream.File
}

// Close releases the file that Open opened and removes any unpacked copy of it.
func (c *Core) Close() error {
	if c.stream == nil {
		return nil
	}
	return c.stream.Close()
}
