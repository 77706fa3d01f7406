package elfcore

import (
	"errors"
	"fmt"
	"io"
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
	// hand is the clock hand over ring for eviction.
	ring []*page
	hand int
}

type page struct {
	index int64
	used  bool
	data  []byte
}

func newCachedFile(r io.ReaderAt, size int64) *cachedFile {
	return &cachedFile{r: r, size: size, pages: make(map[int64]*page)}
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
	if err := f.fill(at, int64(len(b))); err != nil {
		return 0, err
	}
	n := 0
	for n < len(b) {
		p := f.pages[(at+int64(n))/pageSize]
		p.used = true
		in := int((at + int64(n)) % pageSize)
		if in >= len(p.data) {
			return n, fmt.Errorf("the core ends at offset %#x, before its size of %d bytes: it changed while it was read", at+int64(n), f.size)
		}
		n += copy(b[n:], p.data[in:])
	}
	return n, nil
}

// readFull reads all of b, or fails with io.ErrUnexpectedEOF.
func (f *cachedFile) readFull(b []byte, at int64) error {
	n, err := f.readSome(b, at)
	if err == nil && n < len(b) || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill brings all pages of [at, at+n) into the cache, those that are missing in
// one read.
func (f *cachedFile) fill(at, n int64) error {
	first, last := at/pageSize, (at+n-1)/pageSize
	for first <= last && f.pages[first] != nil {
		first++
	}
	for last >= first && f.pages[last] != nil {
		last--
	}
	if first > last {
		return nil
	}
	start := first * pageSize
	b := make([]byte, min((last-first+1)*pageSize, f.size-start))
	got, err := f.readAt(b, start)
	if err != nil {
		return err
	}
	b = b[:got]
	// Mark what this read needs before anything is evicted for it.
	for i := at / pageSize; i <= (at+n-1)/pageSize; i++ {
		if p := f.pages[i]; p != nil {
			p.used = true
		}
	}
	for i := first; i <= last; i++ {
		lo := min((i-first)*pageSize, int64(len(b)))
		hi := min(lo+pageSize, int64(len(b)))
		f.insert(&page{index: i, used: true, data: b[lo:hi:hi]})
	}
	return nil
}

// insert adds a page, in the place of the first one that was not used since
// the hand passed it last.
func (f *cachedFile) insert(p *page) {
	if old := f.pages[p.index]; old != nil {
		old.data, old.used = p.data, true
		return
	}
	f.pages[p.index] = p
	if len(f.ring) < cachePages {
		f.ring = append(f.ring, p)
		return
	}
	for f.ring[f.hand].used {
		f.ring[f.hand].used = false
		f.hand = (f.hand + 1) % cachePages
	}
	delete(f.pages, f.ring[f.hand].index)
	f.ring[f.hand] = p
	f.hand = (f.hand + 1) % cachePages
}

// readAt reads from the file itself. io.EOF behind some bytes is no error.
func (f *cachedFile) readAt(b []byte, at int64) (int, error) {
	n, err := f.r.ReadAt(b, at)
	if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
		return n, fmt.Errorf("reading %d bytes at offset %#x of the core: %w", len(b), at, err)
	}
	return n, nil
}

// ReadAt reads bytes of the uncompressed core file (io.ReaderAt).
func (c *Core) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.file.readSome(b, at)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}
