// Package stream recognises and unpacks compressed cores into sparse files.
//
// A core is mostly memory that nobody touched, so a file with holes holds it
// in a small part of its size, and unlike a compressed stream it can be read
// anywhere. Every core is unpacked once; how it is compressed is told by its
// content, never by its name.
package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options says where and how to unpack.
type Options struct {
	// TempDir is the folder to unpack into. Empty stands for the folder of
	// the core, then $TMPDIR (without it /var/tmp and /tmp): the first that
	// can be written and has room.
	TempDir string

	// Keep leaves the unpacked core in the folder, under the name that
	// File.Path gives. What an earlier call left there is used if it is this
	// core: by a note in its attributes, or else by comparing all of it; if
	// it is not, the error is a *KeptError. Without Keep the unpacked core
	// never has a name, and is gone when the file is closed or the process
	// ends, however it ends.
	Keep bool

	// Progress, if set, is called about ten times a second while a core is
	// unpacked, and once at the end, always from the goroutine that called
	// Open: with the bytes read so far, their total (0 if not known), and the
	// bytes unpacked so far, holes included.
	Progress func(read, total, unpacked int64)
}

// File is a core that can be read anywhere. Its position is the start.
type File struct {
	*os.File

	// Path is where the core can be opened again: the core itself if it was
	// not compressed, the unpacked core with Options.Keep, else empty.
	Path string

	// Compression is "zstd", "lz4", "xz", "gzip", "bzip2", or empty.
	Compression string

	// CompressedSize is the length of the compressed core in bytes, 0 if it
	// was not compressed.
	CompressedSize int64

	// Cut is set if the stream ended early or was damaged. The file then
	// holds what could be unpacked, from its start.
	Cut *Cut
}

// Cut is the error that ended a stream before its end. If the stream is not
// short but damaged, the last part of what came out may be wrong: up to a
// block of the compression, and more with gzip and legacy lz4, whose only
// checksum, if any, stands at the end.
type Cut struct {
	Unpacked int64 // bytes that came out before it
	Err      error // what the decoder or the source said
}

// Error gives both parts.
func (c *Cut) Error() string {
	return fmt.Sprintf("only %d bytes could be unpacked: %v", c.Unpacked, c.Err)
}

// Unwrap gives the decoder's or the source's error.
func (c *Cut) Unwrap() error { return c.Err }

// ErrNotELF says that what was unpacked is no core of any kind. It is found
// out with the first bytes, before a disk is filled with somebody's backup.
var ErrNotELF = errors.New("not an ELF file")

// NotELFError is an ErrNotELF that knows the first bytes.
type NotELFError struct {
	What string // "zstd stream" and the like
	Head []byte
}

func (e *NotELFError) Error() string {
	return fmt.Sprintf("the %s starts with % x: %v", e.What, e.Head[:min(4, len(e.Head))], ErrNotELF)
}

// Unwrap gives ErrNotELF.
func (e *NotELFError) Unwrap() error { return ErrNotELF }

// Open opens the core at path. One that is not compressed is the file itself,
// opened for reading, whatever it holds; any other is unpacked. A pipe is
// read as OpenReader does. When ctx ends, so does Open, with its cause.
func Open(ctx context.Context, path string, opts Options) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	core, err := open(ctx, f, path, opts)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if core.File != f {
		f.Close()
	}
	return core, nil
}

func open(ctx context.Context, f *os.File, path string, opts Options) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, errors.New("is a folder, not a core")
	case !info.Mode().IsRegular():
		return OpenReader(ctx, f, opts)
	}
	head := make([]byte, headSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if recognise(head[:n]) == "" {
		return &File{File: f, Path: path}, nil
	}
	dirs, name := folders(filepath.Dir(path), opts), unpackedName(path)
	if opts.Keep {
		if kept := remembered(info, dirs, name); kept != nil {
			return &File{File: kept, Path: kept.Name(), Compression: recognise(head[:n]), CompressedSize: info.Size()}, nil
		}
	}
	core, err := unpack(ctx, &source{r: f, file: f}, info.Size(), dirs, name, opts)
	if err != nil {
		return nil, err
	}
	core.CompressedSize = info.Size()
	if opts.Keep && core.Cut == nil {
		remember(core.File, info)
	}
	return core, nil
}

// OpenReader unpacks a core that can only be read once, such as standard
// input; one that is not compressed is copied, with holes. The folder of the
// core in Options.TempDir is not known and passed over, and the name for
// Options.Keep is core.unpacked. When ctx ends OpenReader returns at once,
// and leaves a Read of r that is under way to end by itself.
func OpenReader(ctx context.Context, r io.Reader, opts Options) (*File, error) {
	return unpack(ctx, &source{r: r}, 0, folders("", opts), "core.unpacked", opts)
}

// unpackedName is the core's name without the suffix of its compression.
func unpackedName(path string) string {
	name := filepath.Base(path)
	for _, suffix := range []string{".zst", ".zstd", ".lz4", ".xz", ".gz", ".bz2"} {
		if short, ok := strings.CutSuffix(name, suffix); ok && short != "" {
			return short
		}
	}
	return name + ".unpacked"
}

// unpack writes what in holds into a sparse file called name in one of dirs.
func unpack(ctx context.Context, in *source, total int64, dirs []string, name string, opts Options) (_ *File, err error) {
	if !opts.Keep {
		name = ""
	}
	out, err := newScratch(dirs, name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			out.discard()
		}
	}()
	// Decoding has a goroutine of its own, so that it goes on during writes,
	// and so that a reader that never returns cannot outlast ctx.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks := make(chan chunk)
	go decode(ctx, in, chunks)

	report, tick := reporter(opts, in, total, out)
	core := &File{File: out.File}
	for {
		var c chunk
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick:
			report()
			continue
		case c = <-chunks:
		}
		if c.err != nil {
			c.err = in.cause(c.err)
		}
		if out.size == 0 {
			if err := checkFirst(c); err != nil {
				return nil, err
			}
		}
		if err := out.append(c.data); err != nil {
			return nil, err
		}
		if c.err == nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if c.err != io.EOF {
			core.Cut = &Cut{Unpacked: out.size, Err: c.err}
		}
		core.Compression = c.compression
		break
	}
	if core.Path, err = out.finish(); err != nil {
		return nil, err
	}
	if core.Compression != "" {
		core.CompressedSize = in.read()
	}
	report()
	return core, nil
}

// checkFirst says why what starts with c is of no use.
func checkFirst(c chunk) error {
	what := "input"
	if c.compression != "" {
		what = c.compression + " stream"
	}
	switch {
	case len(c.data) == 0 && c.err == io.EOF:
		return fmt.Errorf("the %s is empty: %w", what, ErrNotELF)
	case len(c.data) == 0:
		return fmt.Errorf("nothing could be read from the %s: %w", what, c.err)
	case !bytes.HasPrefix(c.data, []byte("\x7fELF")):
		return &NotELFError{What: what, Head: bytes.Clone(c.data[:min(16, len(c.data))])}
	}
	return nil
}

// reporter gives the function that reports progress, and when to call it.
func reporter(opts Options, in *source, total int64, out *scratch) (report func(), tick <-chan time.Time) {
	if opts.Progress == nil {
		return func() {}, nil
	}
	report = func() { opts.Progress(in.read(), total, out.size) }
	return report, time.Tick(time.Second / 10)
}
