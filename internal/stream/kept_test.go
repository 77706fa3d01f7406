//go:build linux

package stream

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// keepOnce unpacks a core and keeps it; unpacked tells that it was not there yet.
func keepOnce(t *testing.T, path string) (f *File, unpacked bool) {
	t.Helper()
	f, err := Open(t.Context(), path, Options{Keep: true, Progress: func(_, _, _ int64) { unpacked = true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, unpacked
}

// TestKeptIsUsed finds what an earlier call kept: by its note, which costs
// nothing, and without one by comparing.
func TestKeptIsUsed(t *testing.T) {
	core, _ := sample(640)
	path := write(t, "core.zst", compress(t, core, "zstd -q"))
	first, _ := keepOnce(t, path)
	before, err := first.Stat()
	if err != nil {
		t.Fatal(err)
	}
	use := func(what string, wantUnpacked bool) {
		t.Helper()
		f, unpacked := keepOnce(t, path)
		info, err := f.Stat()
		if err != nil || !os.SameFile(before, info) || f.Path != first.Path {
			t.Errorf("%s: another file (%s, %v)", what, f.Path, err)
		}
		if f.Compression != "zstd" || f.CompressedSize != first.CompressedSize || f.Cut != nil || !bytes.Equal(content(t, f), core) {
			t.Errorf("%s: %q, %d bytes, cut %v, or other contents", what, f.Compression, f.CompressedSize, f.Cut)
		}
		if unpacked != wantUnpacked {
			t.Errorf("%s: unpacked %v, want %v", what, unpacked, wantUnpacked)
		}
	}
	use("the second call", false)
	if err := unix.Removexattr(first.Path, keptAttribute); err != nil {
		t.Fatal(err)
	}
	use("without the note", true)
	use("with the note that comparing left", false)
	if left := names(t, filepath.Dir(path)); !slices.Equal(left, []string{"core", "core.zst"}) {
		t.Errorf("in the folder: %v", left)
	}
}

// TestKeptOfAStream compares, as there is nothing to tell a stream by; and of a
// cut one it says again that it is cut.
func TestKeptOfAStream(t *testing.T) {
	core, _ := sample(640)
	packed := compress(t, core, "zstd -q")
	for what, input := range map[string][]byte{"plain": core, "zstd": packed, "cut": packed[:len(packed)/2]} {
		dir := t.TempDir()
		for range 2 {
			f, err := OpenReader(t.Context(), bytes.NewReader(input), Options{Keep: true, TempDir: dir})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := content(t, f); (f.Cut != nil) != (what == "cut") || !bytes.HasPrefix(core, got) || what != "cut" && len(got) != len(core) {
				t.Errorf("%s: %d bytes, cut: %v", what, len(got), f.Cut)
			}
			f.Close()
		}
	}
	path := write(t, "core.zst", packed[:len(packed)/2])
	for range 2 {
		if f, unpacked := keepOnce(t, path); f.Cut == nil || !unpacked {
			t.Errorf("a cut file: %v, unpacked %v", f.Cut, unpacked)
		}
	}
}

// TestKeptIsStale uses nothing that is not what the core unpacks to.
func TestKeptIsStale(t *testing.T) {
	core, _ := sample(640)
	other := bytes.Clone(core)
	other[len(other)/2]++
	patch := func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{core[5000] + 1}, 5000)
		return errors.Join(err, f.Close())
	}
	for what, c := range map[string]struct {
		change func(path, kept string) error
		want   string
	}{
		"a byte changed": {func(_, kept string) error { return patch(kept) }, "they differ from byte 5000 on"},
		"shorter":        {func(_, kept string) error { return os.Truncate(kept, int64(len(core)-1)) }, "they differ from byte "},
		"longer":         {func(_, kept string) error { return os.Truncate(kept, int64(len(core)+1)) }, "and should have "},
		"another core": {func(path, _ string) error {
			return os.WriteFile(path, compress(t, other, "zstd -q"), 0o600)
		}, "they differ from byte "},
		// cp -a keeps attributes and times.
		"a changed copy": {func(_, kept string) error {
			info, err := os.Stat(kept)
			if err != nil {
				return err
			}
			value := make([]byte, 256)
			n, err := unix.Getxattr(kept, keptAttribute, value)
			return errors.Join(err, os.Rename(kept, kept+".old"), os.WriteFile(kept, core, 0o600), patch(kept),
				unix.Setxattr(kept, keptAttribute, value[:n], 0), os.Chtimes(kept, info.ModTime(), info.ModTime()))
		}, "they differ from byte 5000 on"},
		"a link": {func(_, kept string) error {
			return errors.Join(os.Rename(kept, kept+".old"), os.Symlink(kept+".old", kept))
		}, "is no plain file"},
		"a folder":         {func(_, kept string) error { return errors.Join(os.Remove(kept), os.Mkdir(kept, 0o700)) }, "is no plain file"},
		"a pipe":           {func(_, kept string) error { return errors.Join(os.Remove(kept), unix.Mkfifo(kept, 0o600)) }, "is no plain file"},
		"others can write": {func(_, kept string) error { return os.Chmod(kept, 0o622) }, "others can write it"},
	} {
		path := write(t, "core.zst", compress(t, core, "zstd -q"))
		first, _ := keepOnce(t, path)
		first.Close()
		if err := c.change(path, first.Path); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		before := names(t, filepath.Dir(path))
		f, err := Open(t.Context(), path, Options{Keep: true})
		var taken *KeptError
		if f != nil || !errors.As(err, &taken) || taken.Path != first.Path || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if after := names(t, filepath.Dir(path)); !slices.Equal(before, after) {
			t.Errorf("%s: in the folder were %v, and are %v", what, before, after)
		}
	}
}
