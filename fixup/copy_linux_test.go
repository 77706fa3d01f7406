package fixup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// extents gives the data ranges of a file as the file system tells them.
func extents(t fataler, path string) [][2]int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var ranges [][2]int64
	for off := int64(0); ; {
		start, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return ranges
		}
		if err != nil {
			t.Fatal(err)
		}
		if off, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE); err != nil {
			t.Fatal(err)
		}
		ranges = append(ranges, [2]int64{start, off})
	}
}

func run(t fataler, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// The copy by extents and the copy by reading and writing both equal what cp
// makes, and the former has its holes where the source has them.
func TestCopiesEqualCp(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	rapid.Check(t, func(t *rapid.T) {
		s := drawSparse(t)
		s.write(t, path("core"))
		run(t, "cp", "--sparse=always", path("core"), path("cp"))

		src, err := os.Open(path("core"))
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		size := int64(len(s.content))
		create := func(name string) *os.File {
			f, err := os.Create(path(name))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}

		byExtents := create("extents")
		defer byExtents.Close()
		copied, err := copyData(context.Background(), byExtents, src, size, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		run(t, "cmp", path("cp"), path("extents"))
		want := extents(t, path("core"))
		if got := extents(t, path("extents")); !slices.Equal(got, want) {
			t.Fatalf("data at %v, in the source at %v", got, want)
		}
		var data int64
		for _, r := range want {
			data += r[1] - r[0]
		}
		if copied != data {
			t.Fatalf("%d bytes copied, the source has %d of data", copied, data)
		}

		byReading := create("reading")
		defer byReading.Close()
		c := copier{dst: byReading, src: src, buf: make([]byte, 10_000)}
		for off := int64(0); off < size; {
			n, err := c.copyRange(off, size-off)
			if err != nil {
				t.Fatal(err)
			}
			off += n
		}
		run(t, "cmp", path("cp"), path("reading"))
	})
}

// Who interrupts the copy of a huge core does not wait for its end.
func TestCopyStopsWhenCancelled(t *testing.T) {
	dir := t.TempDir()
	src, err := os.Create(filepath.Join(dir, "core"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	const size = 3 * copyChunk
	if _, err := src.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	dst, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	copied, err := copyData(ctx, dst, src, size, WriteOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) || copied > copyChunk {
		t.Errorf("%d bytes copied, error %v", copied, err)
	}
}

// A source that ends early must not become a copy that ends in a hole.
func TestCopyRangePastTheEnd(t *testing.T) {
	s := newSample(t)
	out, err := os.Create(s.path("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := copier{dst: out, src: s.open(t)}
	if n, err := c.copyRange(int64(len(s.content)), 10); err == nil {
		t.Errorf("%d bytes copied from past the end", n)
	}
}

func TestCopyTells(t *testing.T) {
	s := newSample(t)
	full := s.path("full")
	if err := os.WriteFile(full, bytes.Repeat([]byte{1}, 300_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		src  string
		want Method
	}{{s.core, MethodSparseCopy}, {full, MethodCopy}} {
		out, err := os.Create(s.path("out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		res, err := copyCore(context.Background(), out, open(t, tt.src), 300_000, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if res.Method != tt.want && res.Method != MethodReflink {
			t.Errorf("%s: method %s, want %s or reflink", filepath.Base(tt.src), res.Method, tt.want)
		}
	}
}

func TestApplyKeepsAttributes(t *testing.T) {
	s := newSample(t)
	owner := -1
	if os.Geteuid() == 0 {
		owner = 12345
		if err := os.Chown(s.core, owner, owner+1); err != nil {
			t.Fatal(err)
		}
	}
	attributes := map[string]string{
		"user.coredump.comm":     "zu",
		"user.coredump.hostname": "",
		"user.other":             "not systemd's",
	}
	for name, value := range attributes {
		if err := unix.Setxattr(s.core, name, []byte(value), 0); errors.Is(err, unix.ENOTSUP) {
			t.Skipf("NOT RUN: the file system of %s has no extended attributes", s.dir)
		} else if err != nil {
			t.Fatal(err)
		}
	}

	res, err := Apply(context.Background(), s.open(t), s.path("out"), s.plan, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Warnings) > 0 {
		t.Errorf("warnings %q", res.Warnings)
	}
	var st unix.Stat_t
	if err := unix.Stat(s.path("out"), &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode != unix.S_IFREG|0o600 {
		t.Errorf("mode %o", st.Mode)
	}
	if owner >= 0 && (int(st.Uid) != owner || int(st.Gid) != owner+1) {
		t.Errorf("owner %d:%d, want %d:%d", st.Uid, st.Gid, owner, owner+1)
	}
	if got := st.Mtim.Nano(); got != sampleTime.UnixNano() {
		t.Errorf("modification time %d, want %d", got, sampleTime.UnixNano())
	}
	if got, want := st.Atim.Nano(), sampleTime.UnixNano()-3600e9; got != want {
		t.Errorf("access time %d, want %d", got, want)
	}
	delete(attributes, "user.other")
	for name, want := range attributes {
		value := make([]byte, 100)
		n, err := unix.Getxattr(s.path("out"), name, value)
		if err != nil || string(value[:max(n, 0)]) != want {
			t.Errorf("%s is %q, error %v, want %q", name, value[:max(n, 0)], err, want)
		}
	}
	if _, err := unix.Getxattr(s.path("out"), "user.other", nil); !errors.Is(err, unix.ENODATA) {
		t.Errorf("user.other was copied too: %v", err)
	}
}

// Two runs at once: whoever comes second to a core that is edited, or comes to
// edit it while it is copied, is told so.
func TestTwoRunsAtOnce(t *testing.T) {
	ctx := context.Background()
	once := func(at string, second func()) WriteOptions {
		return WriteOptions{step: func(name string) {
			if name == at {
				second()
			}
		}}
	}
	refused := func(t *testing.T, s *sample, err error) {
		t.Helper()
		if !errors.Is(err, errBusy) {
			t.Errorf("got error %v", err)
		}
	}
	t.Run("while it is edited", func(t *testing.T) {
		s := newSample(t)
		_, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, once("prepared", func() {
			_, err := ApplyInPlace(ctx, s.core, s.path("undo2"), s.plan, WriteOptions{})
			refused(t, s, err)
			_, err = Undo(ctx, s.plan, s.core, WriteOptions{})
			refused(t, s, err)
			_, err = Apply(ctx, s.open(t), s.path("out"), s.plan, WriteOptions{})
			refused(t, s, err)
		}))
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, s.core, s.fixed())
		mustList(t, s.dir, "core.1", "undo")
	})
	t.Run("while it is copied", func(t *testing.T) {
		s := newSample(t)
		src := s.open(t)
		_, err := Apply(ctx, src, s.path("out"), s.plan, once("created", func() {
			_, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{})
			refused(t, s, err)
			if _, err := Apply(ctx, s.open(t), s.path("out2"), s.plan, WriteOptions{}); err != nil {
				t.Errorf("a second copy: %v", err)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		mustHold(t, s.path("out"), s.fixed())
		mustHold(t, s.path("out2"), s.fixed())
		// src is still open, but no longer locked.
		if _, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
