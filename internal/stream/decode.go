package stream

import (
	"bufio"
	"compress/bzip2"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// chunkSize is how much is decoded at a time: a multiple of blockSize, so
// that every chunk but the last ends where a block of the file ends.
// Kernels with large folios write much larger ones three times slower.
const chunkSize = 128 << 10

// maxWindow is how much of its output a stream may want to have remembered:
// 2 GiB, the most that zstd makes (--long=31), where that can be addressed.
const maxWindow = 1 << (29 + 2*(strconv.IntSize/64))

// chunk is the next part of what was decoded. The last one has an error,
// io.EOF after a whole stream.
type chunk struct {
	compression string
	data        []byte
	err         error
}

// source counts what was read of a reader, and remembers why it failed: a
// decoder may make an unexpected end of it. Decoders read it from goroutines
// of their own.
type source struct {
	r      io.Reader
	n      atomic.Int64
	failed atomic.Pointer[error]
	// file is r where that is a regular file, so that another process can read
	// it from its start; given is it once one does.
	file  *os.File
	given atomic.Pointer[os.File]
}

// give hands the whole of a regular file over to another process. The file is
// nil where it cannot be.
func (s *source) give() *os.File {
	if s.file == nil {
		return nil
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	s.given.Store(s.file)
	return s.file
}

// read is how many bytes have been read.
func (s *source) read() int64 {
	if f := s.given.Load(); f != nil {
		// The position belongs to the file, whoever reads it.
		if n, err := f.Seek(0, io.SeekCurrent); err == nil {
			return n
		}
	}
	return s.n.Load()
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n.Add(int64(n))
	if err != nil && err != io.EOF {
		s.failed.Store(&err)
	}
	return n, err
}

// cause gives the source's own error if it failed, else what the decoder says.
func (s *source) cause(decoder error) error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return decoder
}

// decode sends what r holds until its end, an error, or the end of ctx. The
// channel has no buffer: when one chunk is taken, the one before is done with.
func decode(ctx context.Context, r *source, to chan<- chunk) {
	send := func(c chunk) bool {
		select {
		case to <- c:
			return c.err == nil
		case <-ctx.Done():
			return false
		}
	}
	compression, decoder, err := newDecoder(ctx, r, maxWindow)
	if err != nil {
		send(chunk{compression: compression, err: err})
		return
	}
	defer decoder.Close()
	buffers := [2][]byte{make([]byte, chunkSize), make([]byte, chunkSize)}
	for i := 0; ; i ^= 1 {
		data, err := fill(decoder, buffers[i])
		if !send(chunk{compression, data, err}) {
			return
		}
	}
}

// fill reads until p is full. Unlike io.ReadFull it keeps the end of a stream
// and the unexpected end of a stream apart.
func fill(r io.Reader, p []byte) ([]byte, error) {
	n := 0
	for n < len(p) {
		k, err := r.Read(p[n:])
		n += k
		if err != nil {
			return p[:n], err
		}
	}
	return p, nil
}

// newDecoder recognises what r holds, and gives its name and a reader of what
// it stands for. Streams that want more than window bytes of their output
// remembered are refused, so that memory stays within a few times of it.
func newDecoder(ctx context.Context, r *source, window uint64) (string, io.ReadCloser, error) {
	// The buffer is large since some decoders read it byte by byte.
	in := bufio.NewReaderSize(r, chunkSize)
	head, err := in.Peek(headSize)
	if err != nil && err != io.EOF {
		return "", nil, err
	}
	compression := recognise(head)
	switch compression {
	case "zstd":
		if err := checkWindow(zstdWindow(head), window); err != nil {
			return compression, nil, err
		}
		// One goroutine, ours, is faster here than a few of the decoder's.
		d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(window))
		if err != nil {
			return compression, nil, err
		}
		return compression, zstdStream{d.IOReadCloser()}, nil
	case "xz":
		if err := checkWindow(xzWindow(head), window); err != nil {
			return compression, nil, err
		}
		d, err := newXZ(ctx, r, in, window)
		return compression, d, err
	case "gzip":
		d, err := gzip.NewReader(in)
		return compression, d, err
	case "lz4":
		return compression, io.NopCloser(lz4.NewReader(in)), nil
	case "bzip2":
		return compression, io.NopCloser(bzip2.NewReader(in)), nil
	}
	return "", io.NopCloser(in), nil
}

// checkWindow refuses a stream whose header asks for too much memory, with
// a better reason than the decoders have.
func checkWindow(asked, window uint64) error {
	if asked > window {
		return fmt.Errorf("it asks for a window of %d bytes, and at most %d are given", asked, window)
	}
	return nil
}

// zstdStream gives the last block of a frame whose checksum is wrong or
// missing, too. The decoder keeps it until it is asked once more, and in a
// core it may well hold the stack of the main thread.
type zstdStream struct{ io.ReadCloser }

func (z zstdStream) Read(p []byte) (int, error) {
	n, err := z.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	more, err := z.ReadCloser.Read(p[n:])
	return n + more, err
}
