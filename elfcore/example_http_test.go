package elfcore_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// remoteCore reads a core from a server that answers range requests, as object
// stores do, block by block.
type remoteCore struct {
	url  string
	size int64

	mu          sync.Mutex
	blocks      map[int64][]byte
	order       []int64 // of arrival: the oldest block has to go first
	transferred int64
}

const (
	// Of each thread a page or two are read, so that larger blocks transfer
	// more; where a request takes long, they are worth it.
	remoteBlock = 16 << 10
	// Several looks are taken at each thread. A cache of a block for each
	// saves asking for it again: this one serves some thousand threads.
	remoteBlocks = 4096
)

func openRemote(url string) (*remoteCore, error) {
	resp, err := http.Head(url)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 || resp.Header.Get("Accept-Ranges") != "bytes" {
		return nil, fmt.Errorf("%s: %s, and no bytes can be asked for", url, resp.Status)
	}
	return &remoteCore{url: url, size: resp.ContentLength, blocks: make(map[int64][]byte)}, nil
}

// ReadAt implements io.ReaderAt.
func (r *remoteCore) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at >= r.size {
			return n, io.EOF
		}
		b, err := r.block(at / remoteBlock)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[at%remoteBlock:])
	}
	return n, nil
}

func (r *remoteCore) block(index int64) ([]byte, error) {
	if b, ok := r.blocks[index]; ok {
		return b, nil
	}
	start := index * remoteBlock
	b := make([]byte, min(remoteBlock, r.size-start))
	req, err := http.NewRequest(http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", start, start+int64(len(b))-1))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent {
		return nil, fmt.Errorf("%s: %s where a part was asked for", r.url, resp.Status)
	}
	if _, err := io.ReadFull(resp.Body, b); err != nil {
		return nil, err
	}
	r.transferred += int64(len(b))
	if len(r.order) == remoteBlocks {
		delete(r.blocks, r.order[0])
		r.order = r.order[1:]
	}
	r.blocks[index] = b
	r.order = append(r.order, index)
	return b, nil
}

// A core in an object store is diagnosed where it is: little more than its notes
// and a block for each thread is transferred.
func ExampleNew_http() {
	unpacked, err := elfcore.Open("../testdata/cores/x86_64-glibc2.36-zombie-user/core.zst", elfcore.WithTempDir(os.TempDir()))
	if err != nil {
		log.Fatal(err)
	}
	defer unpacked.Close()
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		st, err := unpacked.File().Stat()
		if err != nil {
			log.Fatal(err)
		}
		http.ServeContent(w, req, "core", st.ModTime(), io.NewSectionReader(unpacked, 0, unpacked.Size))
	}))
	defer store.Close()

	remote, err := openRemote(store.URL)
	if err != nil {
		log.Fatal(err)
	}
	core, err := elfcore.New(remote, remote.size)
	if err != nil {
		log.Fatal(err)
	}
	report := diagnose.Core(core, nptl.Read(core, nil))
	fmt.Println(report.Verdict, len(report.Process.Handles))
	fmt.Println("less than a third was transferred:", remote.transferred < remote.size/3)
	// Output:
	// misleading 5
	// less than a third was transferred: true
}
