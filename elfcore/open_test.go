package elfcore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// smallCore has two threads and some memory.
func smallCore() []byte {
	abi := coretest.X86_64
	core := withNotes(abi, abi.Prstatus(1, 0), abi.Prstatus(2, 0))
	core.Loads = []coretest.Load{{Addr: 0x1000, Data: bytes.Repeat([]byte("memory. "), 100_000)}}
	return core.Bytes()
}

func pack(t *testing.T, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func wantSmallCore(t *testing.T, c *elfcore.Core, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	wantWarnings(t, c)
	if s, err := c.CString(0x1000, 7); !slices.Equal(tids(c), []int{1, 2}) || s != "memory." || err != nil {
		t.Errorf("threads %v, memory %q (%v)", tids(c), s, err)
	}
}

func TestOpen(t *testing.T) {
	b := smallCore()
	path := writeCore(t, b)
	c, err := elfcore.Open(path)
	wantSmallCore(t, c, err)
	if c.Compression != "" || c.Path != path || c.Size != int64(len(b)) {
		t.Errorf("packed with %q, to be found at %q, %d bytes", c.Compression, c.Path, c.Size)
	}
	f := c.File()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestOpenCompressed(t *testing.T) {
	b := smallCore()
	path := writeCore(t, pack(t, b))
	dir := t.TempDir()
	var unpacked int64
	progress := func(_, _, n int64) { unpacked = n }
	c, err := elfcore.Open(path, elfcore.WithTempDir(dir), elfcore.WithKeep(), elfcore.WithProgress(progress), elfcore.WithContext(t.Context()))
	wantSmallCore(t, c, err)
	if c.Compression != "zstd" || filepath.Dir(c.Path) != dir || c.Size != int64(len(b)) || unpacked != c.Size {
		t.Errorf("packed with %q, unpacked to %q, %d bytes, of which %d were told of", c.Compression, c.Path, c.Size, unpacked)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if kept, err := os.ReadFile(c.Path); err != nil || !bytes.Equal(kept, b) {
		t.Errorf("kept %d bytes (%v), want %d", len(kept), err, len(b))
	}

	c, err = elfcore.Open(path, elfcore.WithTempDir(t.TempDir()))
	wantSmallCore(t, c, err)
	if err := c.Close(); err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := elfcore.Open(path, elfcore.WithContext(ctx)); c != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("unpacked though it was cancelled: %v", err)
	}
}

// A compressed file that was cut holds a core that was cut.
func TestOpenCutCompressed(t *testing.T) {
	b := bigFile()
	packed := pack(t, b)
	c, err := elfcore.Open(writeCore(t, packed[:len(packed)/2]))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !c.Truncated() || c.Size+c.MissingBytes != int64(len(b)) || !slices.Equal(tids(c), []int{1}) {
		t.Errorf("%d bytes and %d missing, want %d in all; threads %v", c.Size, c.MissingBytes, len(b), tids(c))
	}
	wantWarnings(t, c, elfcore.Warning{Offset: c.Size, Text: "compressed file is cut"})
}

func TestOpenReader(t *testing.T) {
	b := smallCore()
	for _, stream := range [][]byte{b, pack(t, b)} {
		c, err := elfcore.OpenReader(bytes.NewReader(stream), elfcore.WithTempDir(t.TempDir()))
		wantSmallCore(t, c, err)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	broken := errors.New("broken pipe")
	if c, err := elfcore.OpenReader(iotest.ErrReader(broken), elfcore.WithTempDir(t.TempDir())); c != nil || !errors.Is(err, broken) {
		t.Errorf("of a stream that fails: %v", err)
	}
}

// What cannot be opened is named.
func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	if c, err := elfcore.Open(filepath.Join(dir, "nonesuch")); c != nil || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "nonesuch") {
		t.Errorf("of no file: %v", err)
	}
	if c, err := elfcore.Open(dir); c != nil || err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("of a folder: %v", err)
	}
	for _, b := range [][]byte{nil, []byte("MDMP"), smallCore()[:40]} {
		path := writeCore(t, b)
		c, err := elfcore.Open(path)
		var bad *elfcore.FormatError
		if c != nil || !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), path+": at offset 0x") {
			t.Errorf("of %q: %v", b, err)
		}
	}
}

// A core that New made has no file.
func TestNewHasNoFile(t *testing.T) {
	c := read(t, smallCore())
	if c.File() != nil || c.Close() != nil || c.Path != "" {
		t.Errorf("it has the file %v at %q", c.File(), c.Path)
	}
}

// What is no core is named, packed or not.
func TestPackedOtherFiles(t *testing.T) {
	for start, want := range map[string]string{
		"MDMP\x93\xa7\x00\x00": "the zstd stream holds a minidump", "KDUMP   \x06": "the zstd stream holds a dump of a kernel (kdump)",
		"a text file": "the zstd stream starts with 61 20 74 65: not an ELF file",
	} {
		packed := pack(t, []byte(start+strings.Repeat("\x00", 4096)))
		path := writeCore(t, packed)
		_, err := elfcore.Open(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is refused as %v", start, err)
		}
		if _, err := elfcore.OpenReader(bytes.NewReader(packed)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q from a pipe is refused as %v", start, err)
		}
	}
}
