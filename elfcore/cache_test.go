package elfcore_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

const (
	page = 4096
	// more than the cache holds
	bigCore = 5<<20 + 123
)

// bigFile is a core of random memory, at 0x10000, and of one thread.
func bigFile() []byte {
	data := make([]byte, bigCore)
	rand.NewChaCha8([32]byte{}).Read(data)
	core := withNotes(coretest.X86_64, coretest.X86_64.Prstatus(1, 0))
	core.Loads = []coretest.Load{{Addr: 0x10000, Data: data}}
	return core.Bytes()
}

// file counts what is read of it, and can fail.
type file struct {
	io.ReaderAt
	reads int
	// From the byte at failAt on a read gives err, with the bytes in front of
	// it.
	failAt int64
	err    error
}

func (f *file) ReadAt(b []byte, at int64) (int, error) {
	f.reads++
	if f.failAt == 0 || at+int64(len(b)) <= f.failAt {
		return f.ReaderAt.ReadAt(b, at)
	}
	n, err := f.ReaderAt.ReadAt(b[:min(max(f.failAt-at, 0), int64(len(b)))], at)
	if err == nil {
		err = f.err
	}
	return n, err
}

// Whatever is read in whatever order is what is in the file.
func TestCacheProperty(t *testing.T) {
	b := bigFile()
	rapid.Check(t, func(t *rapid.T) {
		c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.NewReader(b)
		// Many near the edges of few pages, some of which are long gone.
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range rapid.IntRange(1, 1000).Draw(t, "reads") {
			size := []int{1, 8, page, 3 * page, 70 * page}[r.IntN(5)]
			if size == 70*page && r.IntN(20) > 0 {
				size = 2
			}
			at := int64(r.IntN(len(b)/page+1)*page - r.IntN(size+2))
			got, exp := make([]byte, size), make([]byte, size)
			n, err := c.ReadAt(got, at)
			m, wantErr := 0, io.EOF
			if at >= 0 {
				m, wantErr = want.ReadAt(exp, at)
			}
			if n != m || err != wantErr || !bytes.Equal(got[:n], exp[:m]) {
				t.Fatalf("%d bytes at %#x: %d bytes (%v), want %d (%v)", size, at, n, err, m, wantErr)
			}
		}
	})
}

// A read over two pages, of which the first has been in the cache for longest,
// while the second needs room in it: the cache holds some power of two.
func TestCacheFull(t *testing.T) {
	b := bigFile()
	for n := range 11 * 5 {
		pages := 1<<(n/5) - n%5
		c := read(t, b) // from the first page
		for i := 0; i < pages; i += 50 {
			if _, err := c.ReadAt(make([]byte, min(50, pages-i)*page), int64(2+i)*page); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, 2)
		if n, err := c.ReadAt(got, page-1); n != 2 || err != nil || !bytes.Equal(got, b[page-1:][:2]) {
			t.Errorf("after %d pages: % x (%v)", pages, got[:n], err)
		}
	}
}

func TestCacheSavesReads(t *testing.T) {
	f := &file{ReaderAt: bytes.NewReader(bigFile())}
	c, err := elfcore.New(f, f.ReaderAt.(*bytes.Reader).Size())
	if err != nil {
		t.Fatal(err)
	}
	count := func(a elfcore.Addr, size int) int {
		t.Helper()
		before := f.reads
		if n, err := c.ReadMemory(make([]byte, size), a); n != size || err != nil {
			t.Fatalf("%d bytes read (%v)", n, err)
		}
		return f.reads - before
	}
	if n := count(0x100000, 40*page); n != 1 {
		t.Errorf("%d reads for one run of pages", n)
	}
	if n := count(0x100000+page-8, 16); n != 0 {
		t.Errorf("%d reads for pages that had been read", n)
	}
	if n := count(0x100000-10*page, 60*page); n < 1 || n > 2 {
		t.Errorf("%d reads for what is in front of and behind them", n)
	}
}

// However a core is read, the cache stays small.
func TestCacheSize(t *testing.T) {
	const most = 4 << 20
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const size = 1 << 30
	f := holes{withNotes(coretest.X86_64, coretest.X86_64.Prstatus(1, 0)).Bytes()}
	before := heap()
	c, err := elfcore.New(f, size)
	if err != nil {
		t.Fatal(err)
	}
	// Each run of pages is read at once, and the first page of each stays.
	const run = 64 * page
	for last := range int64(100) {
		if _, err := c.ReadAt(make([]byte, run), last*run); err != nil {
			t.Fatal(err)
		}
		for i := range last {
			if _, err := c.ReadAt(make([]byte, 1), i*run); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := heap(); after > before+most {
		t.Errorf("the core holds %d bytes of the heap", after-before)
	}
	runtime.KeepAlive(c)
}

// holes is a file that starts with some bytes and goes on with zeroes.
type holes struct{ head []byte }

func (h holes) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	if at < int64(len(h.head)) {
		copy(b, h.head[at:])
	}
	return len(b), nil
}

func TestConcurrentReads(t *testing.T) {
	b := bigFile()
	c := read(t, b)
	var wg sync.WaitGroup
	for i := range uint64(8) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(i, 0))
			for range 2000 {
				size := []int{1, 100, page + 1}[r.IntN(3)]
				at := r.Int64N(int64(len(b) - size))
				got := make([]byte, size)
				if n, err := c.ReadAt(got, at); n != size || err != nil || !bytes.Equal(got, b[at:][:size]) {
					t.Errorf("%d bytes at %#x: %d bytes (%v)", size, at, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A file that cannot be read is an error, not memory that is missing; what
// could be read in front of it is given.
func TestFailingReads(t *testing.T) {
	b := bigFile()
	data := bytes.Index(b, b[len(b)-bigCore:])
	broken := errors.New("input/output error")
	const failing = 100*page + 77 // in memory
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"error":            {broken, "reading "},
		"end of the file":  {io.EOF, "it changed while it was read"},
		"short, no reason": {nil, "it changed while it was read"},
	} {
		for _, size := range []int{300, 10 * page, 100 * page} {
			f := &file{ReaderAt: bytes.NewReader(b), err: c.err, failAt: int64(data + failing)}
			core, err := elfcore.New(f, int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			start := failing - size/2
			got := make([]byte, size)
			n, err := core.ReadMemory(got, 0x10000+elfcore.Addr(start))
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, broken) != (c.err == broken) {
				t.Errorf("%s: the error is %v", name, err)
			}
			var fault *elfcore.Fault
			if errors.As(err, &fault) {
				t.Errorf("%s: is taken for missing memory: %v", name, err)
			}
			if pages := (data + failing) / page * page; n > size/2 || n < pages-(data+start) {
				t.Errorf("%s: %d of %d bytes were read, the file fails after %d", name, n, size, size/2)
			}
			if !bytes.Equal(got[:n], b[data+start:][:n]) {
				t.Errorf("%s: what was read is wrong", name)
			}
			f.failAt = 0
			if n, err := core.ReadMemory(got, 0x10000+elfcore.Addr(start)); n != size || err != nil || !bytes.Equal(got, b[data+start:][:size]) {
				t.Errorf("%s: once the file can be read again, %d bytes (%v)", name, n, err)
			}
		}
	}
}

// A core whose headers or notes cannot be read is none.
func TestFailingNew(t *testing.T) {
	abi := coretest.X86_64
	core := withNotes(abi, abi.Prstatus(1, 0), coretest.Note{Name: "X", Desc: make([]byte, 3*page-700)}, abi.Prstatus(2, 0),
		abi.File(1, coretest.FileMapping{Start: 1, End: 2, Path: strings.Repeat("x", 3*page)}), coretest.Note{Name: strings.Repeat("x", page-20), Type: 1})
	core.Loads = manyLoads(1000)
	for _, core.ExtendedCount = range []bool{false, true} {
		b := core.Bytes()
		broken := errors.New("input/output error")
		end := int64(len(b)) // of what New reads: section header 0
		if !core.ExtendedCount {
			notes := progs(t, b, elf.PT_NOTE)[0]
			end = int64(notes.Off + notes.Filesz)
		}
		for at := int64(1); at < end; at += 100 {
			f := &file{ReaderAt: bytes.NewReader(b), err: broken, failAt: at}
			c, err := elfcore.New(f, int64(len(b)))
			if c != nil || !errors.Is(err, broken) {
				t.Errorf("failing at %#x: core %v, error %v", at, c != nil, err)
			}
		}
		if _, err := elfcore.New(&file{ReaderAt: bytes.NewReader(b)}, int64(len(b))); err != nil {
			t.Error(err)
		}
	}
}
