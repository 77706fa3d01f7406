package fixup

import (
	"context"
	"io"
	"os"
)

// copyChunk is how many bytes are copied between two looks at the context.
const copyChunk = 16 << 20

// copyCore makes dst, which is empty, equal to src.
func copyCore(ctx context.Context, dst, src *os.File, size int64, opts WriteOptions) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	// Whatever keeps a clone from being made keeps, if it is an error, the
	// copy from being made too, and that says it better.
	if err := clone(dst, src); err == nil {
		opts.at("cloned")
		opts.progress(size, size)
		return Result{Method: MethodReflink}, nil
	}
	copied, err := copyData(ctx, dst, src, size, opts)
	if err != nil {
		return Result{}, err
	}
	if copied < size {
		return Result{Method: MethodSparseCopy, BytesCopied: copied}, nil
	}
	return Result{Method: MethodCopy, BytesCopied: copied}, nil
}

// copyData gives dst the size of src and copies its data, not its holes. It
// gives the number of bytes copied.
func copyData(ctx context.Context, dst, src *os.File, size int64, opts WriteOptions) (copied int64, err error) {
	if err := dst.Truncate(size); err != nil {
		return 0, err
	}
	c := copier{dst: dst, src: src}
	for off := int64(0); off < size; {
		start, end, err := nextData(src, off, size)
		if err != nil {
			return copied, err
		}
		for off = start; off < end; {
			if err := ctx.Err(); err != nil {
				return copied, err
			}
			n, err := c.copyRange(off, min(end-off, copyChunk))
			if err != nil {
				return copied, err
			}
			startWriting(dst, off, n)
			off += n
			copied += n
			opts.at("copied")
			opts.progress(off, size)
		}
		off = end
	}
	opts.progress(size, size)
	return copied, nil
}

// copier copies byte ranges from one file to the same place of another.
type copier struct {
	dst, src *os.File
	// buf is there once the kernel has refused to copy by itself.
	buf []byte
}

// copyRange copies 1 to n bytes at offset off and gives their number.
func (c *copier) copyRange(off, n int64) (int64, error) {
	if c.buf == nil {
		// Some file systems answer 0 instead of an error, and a file that
		// shrinks meanwhile does too: reading tells these apart.
		if done, err := copyInKernel(c.dst, c.src, off, n); done > 0 && err == nil {
			return done, nil
		}
		c.buf = make([]byte, 1<<20)
	}
	p := c.buf[:min(n, int64(len(c.buf)))]
	got, err := c.src.ReadAt(p, off)
	if got == 0 {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	put, err := c.dst.WriteAt(p[:got], off)
	return int64(put), err
}
