package elfcore

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

const (
	pageSize   = 4096
	cachePages = 512 // 2 MiB
	// A read of more than this is not worth keeping.
	maxCachedRead = 64 * pageSize
)

// cachedFile reads the core through a small cache of pages, so that the many
// small reads of pointers and words cost few system calls. Reads of memory are
// not done by mmap: a file that shrinks, or a network that fails, would end the
// process by SIGBUS.
type cachedFile struct {
	r    io.ReaderAt
	size int64

	mu    sync.Mutex
	pages map[int64]*page
	// last is the page that was read last: the next read is often from it too.
	last *page
	// hand is the clock hand over ring for eviction.
	ring []*page
	hand int
	// next is what ahead has read.
	next piece
	// run is where several pages are read to; it and the pages are used again,
	// since thousands of threads mean many thousands of reads.
	run []byte
	// kept are pieces that are held for good, one for each page at most: the
	// one that was asked for first. keptBytes is their length together.
	kept      map[int64]piece
	keptBytes int64
}

// maxKept bounds the pieces that are held for good, in bytes: the descriptors of
// some 7000 threads.
const maxKept = 16 << 20

// piece is some bytes of the file.
type piece struct {
	at   int64
	data []byte
}

// noPage is the index of a page that holds nothing.
const noPage = -1

// holds tells whether n bytes at a file offset lie in the piece.
func (p *piece) holds(at int64, n int) bool {
	return at >= p.at && at+int64(n) <= p.at+int64(len(p.data))
}

type page struct {
	index int64
	used  bool
	data  []byte
}

// holds tells whether n bytes at a file offset lie in the page.
func (p *page) holds(at int64, n int) bool {
	in := at - p.index*pageSize
	return in >= 0 && in+int64(n) <= int64(len(p.data))
}

func newCachedFile(r io.ReaderAt, size int64) *cachedFile {
	return &cachedFile{r: r, size: size, pages: make(map[int64]*page), kept: make(map[int64]piece)}
}

// readSome reads what there is of b at a file offset: short at the end of the
// file, without error; io.EOF when there is nothing.
func (f *cachedFile) readSome(b []byte, at int64) (int, error) {
	if at < 0 || at >= f.size {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), f.size-at)]
	if len(b) > maxCachedRead {
		return f.readAt(b, at)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next.holds(at, len(b)) {
		return copy(b, f.next.data[at-f.next.at:]), nil
	}
	if p := f.last; p != nil && p.holds(at, len(b)) {
		p.used = true
		return copy(b, p.data[at-p.index*pageSize:]), nil
	}
	if k := f.kept[at/pageSize]; k.holds(at, len(b)) {
		return copy(b, k.data[at-k.at:]), nil
	}
	last := (at + int64(len(b)) - 1) / pageSize
	n := 0
	for n < len(b) {
		index := (at + int64(n)) / pageSize
		p, err := f.page(index, last)
		if err != nil {
			return n, err
		}
		n += copy(b[n:], p.data[at+int64(n)-index*pageSize:])
		f.last = p
	}
	return n, nil
}

// ahead reads what will be read next, once and in order, so that it need not go
// through the pages.
func (f *cachedFile) ahead(at, n int64) {
	n = min(n, f.size-at)
	if n <= 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	b := slices.Grow(f.next.data[:0], int(n))[:n]
	got, _ := f.readAt(b, at) // an error comes again when it is read
	f.next = piece{at, b[:got]}
}

// keep holds n bytes for good and gives them, if they can be read and there is
// room.
func (f *cachedFile) keep(at, n int64) []byte {
	f.mu.Lock()
	k, there := f.kept[at/pageSize]
	full := f.keptBytes+n > maxKept
	f.mu.Unlock()
	switch {
	case there && k.holds(at, int(n)):
		return k.data[at-k.at:][:n:n]
	case there || full:
		return nil
	}
	k = piece{at, make([]byte, n)}
	if f.readFull(k.data, at) != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, there := f.kept[at/pageSize]; !there {
		f.kept[at/pageSize] = k
		f.keptBytes += n
	}
	return k.data
}

// readFull reads all of b, or fails with io.ErrUnexpectedEOF.
func (f *cachedFile) readFull(b []byte, at int64) error {
	if len(b) == 0 {
		return nil // also at the end of the file
	}
	n, err := f.readSome(b, at)
	if err == nil && n < len(b) || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// page gives one page of the file. If that has to be read, so are, in the same
// read, those behind it that are missing up to last.
func (f *cachedFile) page(index, last int64) (*page, error) {
	if p := f.pages[index]; p != nil {
		p.used = true
		return p, nil
	}
	behind := index + 1
	for behind <= last && f.pages[behind] == nil {
		behind++
	}
	start := index * pageSize
	end := min(behind*pageSize, f.size)
	if behind == index+1 {
		p := f.take(int(end - start))
		if got, err := f.readAt(p.data, start); got < len(p.data) {
			return nil, err
		}
		f.insert(p, index)
		return p, nil
	}
	f.run = slices.Grow(f.run[:0], int(end-start))
	run := f.run[:end-start]
	got, err := f.readAt(run, start)
	var first *page
	for i := index; i < behind; i++ {
		lo := (i - index) * pageSize
		hi := min(lo+pageSize, int64(len(run)))
		if hi > int64(got) {
			break
		}
		p := f.take(int(hi - lo))
		copy(p.data, run[lo:hi])
		f.insert(p, i)
		if first == nil {
			first = p
		}
	}
	if first == nil {
		return nil, err
	}
	return first, nil // an error behind it comes again when that page is asked for
}

// take gives a page to fill, n bytes long, that is in the ring and not yet, or
// no longer, in the map: the first one that was not used since the hand passed
// it last.
func (f *cachedFile) take(n int) *page {
	var p *page
	if len(f.ring) < cachePages {
		p = &page{index: noPage, data: make([]byte, 0, pageSize)}
		f.ring = append(f.ring, p)
	} else {
		for f.ring[f.hand].used {
			f.ring[f.hand].used = false
			f.hand = (f.hand + 1) % cachePages
		}
		p = f.ring[f.hand]
		delete(f.pages, p.index)
		f.hand = (f.hand + 1) % cachePages
	}
	p.index, p.data = noPage, p.data[:n]
	return p
}

// insert puts a page that is filled in the map.
func (f *cachedFile) insert(p *page, index int64) {
	p.index, p.used = index, true
	f.pages[index] = p
}

// readAt fills b, which lies inside the file, from the file itself.
func (f *cachedFile) readAt(b []byte, at int64) (int, error) {
	n, err := f.r.ReadAt(b, at)
	switch {
	case n == len(b):
		return n, nil
	case err == nil || errors.Is(err, io.EOF):
		return n, fmt.Errorf("the core ends at offset %#x, before its size of %d bytes: it changed while it was read", at+int64(n), f.size)
	}
	return n, fmt.Errorf("reading %d bytes at offset %#x of the core: %w", len(b), at, err)
}

// ReadAt reads bytes of the uncompressed core file (io.ReaderAt).
func (c *Core) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.file.readSome(b, at)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}
