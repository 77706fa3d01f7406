//go:build linux

package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// sample makes what a core is like to this package: an ELF magic, pages that
// repeat and pages that do not, and long runs of zeroes. It also gives how
// many bytes of it are pages with anything in them.
func sample(pages int) (core []byte, data int64) {
	random := rand.NewChaCha8([32]byte{1})
	core = make([]byte, pages*blockSize-1000)
	random.Read(core[:blockSize])
	copy(core, "\x7fELF")
	data = blockSize
	for page := 1; page < pages; page++ {
		p := core[page*blockSize : min((page+1)*blockSize, len(core))]
		switch {
		case page%64 < 40 && page != pages-1:
			continue
		case page%3 == 0:
			copy(p, core[:blockSize])
		case page%3 == 1:
			random.Read(p)
		default: // a single byte, the last one
			p[len(p)-1] = 1
		}
		data += blockSize
	}
	return core, data
}

// tool runs a program of a package of this distribution on input, and gives
// what it wrote, and whether it was content.
func tool(t testing.TB, input []byte, program string, args ...string) ([]byte, bool) {
	t.Helper()
	packages := map[string]string{"xz": "xz-utils"}
	if _, err := exec.LookPath(program); err != nil {
		pkg := program
		if p, ok := packages[program]; ok {
			pkg = p
		}
		t.Fatalf("%v: apt-get install %s", err, pkg)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = bytes.NewReader(input)
	output, err := cmd.Output()
	return output, err == nil
}

func compress(t testing.TB, input []byte, command string) []byte {
	t.Helper()
	args := strings.Fields(command)
	output, ok := tool(t, input, args[0], args[1:]...)
	if !ok {
		t.Fatalf("%s failed", command)
	}
	return output
}

// write puts data into a file of a folder of its own.
func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t testing.TB, f *File) []byte {
	t.Helper()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// names lists a folder, hidden files included.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// commands write every kind of stream that this package reads. Their input
// comes from a pipe, so that they cannot know its size.
var commands = []struct{ name, command, compression string }{
	{"zstd", "zstd -q", "zstd"},
	{"lz4", "lz4 -q -z -c", "lz4"},
	{"lz4 of dependent blocks, as systemd writes it", "lz4 -q -z -c -BD -B4", "lz4"},
	{"lz4 legacy", "lz4 -q -z -c -l", "lz4"},
	{"xz", "xz -c -T1", "xz"},
	{"xz in blocks", "xz -c -T2 --block-size=512KiB", "xz"},
	{"xz with a filter for machine code", "xz -c --x86 --lzma2", "xz"},
	{"gzip", "gzip -c", "gzip"},
	{"bzip2", "bzip2 -1 -c", "bzip2"},
}

func TestUnpacksWhatTheReferenceProgramsPack(t *testing.T) {
	core, data := sample(1024)
	check := func(t *testing.T, f *File, err error, compression string, size int) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Compression != compression || f.CompressedSize != int64(size) || f.Cut != nil || f.Path != "" {
			t.Errorf("compression %q of %d bytes, cut %v, path %q; want %q of %d bytes", f.Compression, f.CompressedSize, f.Cut, f.Path, compression, size)
		}
		if !bytes.Equal(content(t, f), core) {
			t.Error("the unpacked core differs")
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		stat := info.Sys().(*syscall.Stat_t)
		if info.Mode() != 0o600 || stat.Nlink != 0 {
			t.Errorf("mode %v with %d names, want 0600 and none", info.Mode(), stat.Nlink)
		}
		// Some file systems set a little more aside than is written.
		if got := stat.Blocks * 512; got > data+1<<20 {
			t.Errorf("takes %d bytes on the disk for %d bytes of data: the holes are not holes", got, data)
		}
	}
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			packed := compress(t, core, c.command)
			path := write(t, "core", packed)
			f, err := Open(t.Context(), path, Options{})
			check(t, f, err, c.compression, len(packed))
			if left := names(t, filepath.Dir(path)); len(left) != 1 {
				t.Errorf("left beside the core: %v", left)
			}
			f, err = OpenReader(t.Context(), bytes.NewReader(packed), Options{TempDir: t.TempDir()})
			check(t, f, err, c.compression, len(packed))
		})
	}
	t.Run("files of known size", func(t *testing.T) {
		path := write(t, "core", core)
		for _, command := range []string{"zstd -q -c ", "lz4 -q -z -c --content-size "} {
			packed := compress(t, nil, command+path)
			f, err := Open(t.Context(), write(t, "packed", packed), Options{})
			check(t, f, err, strings.Fields(command)[0], len(packed))
		}
	})
	t.Run("several streams in one", func(t *testing.T) {
		for _, c := range commands {
			packed := slices.Concat(compress(t, core[:2<<20], c.command), compress(t, core[2<<20:], c.command))
			f, err := Open(t.Context(), write(t, "core", packed), Options{})
			check(t, f, err, c.compression, len(packed))
		}
	})
	t.Run("the largest window", func(t *testing.T) {
		if strconv.IntSize == 32 {
			t.Skip("NOT RUN: 2 GiB cannot be addressed here")
		}
		packed := compress(t, core, "zstd -q --long=31")
		path := write(t, "core", packed)
		if said := compress(t, nil, "zstd -lv "+path); !bytes.Contains(said, []byte("(2147483648 B)")) {
			t.Fatalf("the sample does not have the largest window:\n%s", said)
		}
		f, err := Open(t.Context(), path, Options{})
		check(t, f, err, "zstd", len(packed))
	})
	t.Run("skippable frames first", func(t *testing.T) {
		skippable := []byte("\x50\x2a\x4d\x18\x04\x00\x00\x00abcd\x5f\x2a\x4d\x18\x00\x00\x00\x00")
		for _, command := range []string{"zstd -q", "lz4 -q -z -c"} {
			packed := append(slices.Clone(skippable), compress(t, core, command)...)
			f, err := Open(t.Context(), write(t, "core", packed), Options{})
			check(t, f, err, strings.Fields(command)[0], len(packed))
		}
	})
	t.Run("xz without the program", func(t *testing.T) {
		packed := compress(t, core, "xz -c")
		path := write(t, "core", packed)
		t.Setenv("PATH", t.TempDir())
		f, err := Open(t.Context(), path, Options{})
		check(t, f, err, "xz", len(packed))
	})
	t.Run("xz with another program of that name", func(t *testing.T) {
		packed := compress(t, core, "xz -c")
		path := write(t, "core", packed)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "xz"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		f, err := Open(t.Context(), path, Options{})
		check(t, f, err, "xz", len(packed))
	})
	t.Run("a pipe that is not compressed", func(t *testing.T) {
		f, err := OpenReader(t.Context(), bytes.NewReader(core), Options{TempDir: t.TempDir()})
		check(t, f, err, "", 0)
	})
	t.Run("a pipe with a name", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		packed := compress(t, core, "zstd -q")
		go func() {
			w.Write(packed)
			w.Close()
		}()
		f, err := Open(t.Context(), fdPath(r), Options{TempDir: t.TempDir()})
		check(t, f, err, "zstd", len(packed))
	})
}

func TestUncompressedIsTheFileItself(t *testing.T) {
	for _, data := range []string{"\x7fELF and more", "text", "B", "BZh9 text that looks like bzip2", ""} {
		path := write(t, "core.zst", []byte(data))
		f, err := Open(t.Context(), path, Options{Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		if f.Name() != path || f.Path != path || f.Compression != "" || f.CompressedSize != 0 || string(content(t, f)) != data {
			t.Errorf("%q opened as %+v", data, f)
		}
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("the core can be written to")
		}
		f.Close()
	}
}

func TestProgress(t *testing.T) {
	core, _ := sample(1024)
	packed := compress(t, core, "zstd -q")
	type call struct{ read, total, unpacked int64 }
	var last call
	progress := func(read, total, unpacked int64) {
		if read < last.read || unpacked < last.unpacked {
			t.Errorf("progress went back from %+v to %d, %d", last, read, unpacked)
		}
		last = call{read, total, unpacked}
	}
	open := map[string]func() (*File, error){
		"file": func() (*File, error) { return Open(t.Context(), write(t, "core", packed), Options{Progress: progress}) },
		"pipe": func() (*File, error) {
			return OpenReader(t.Context(), bytes.NewReader(packed), Options{TempDir: t.TempDir(), Progress: progress})
		},
	}
	for name, open := range open {
		last = call{}
		f, err := open()
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		want := call{int64(len(packed)), int64(len(packed)), int64(len(core))}
		if name == "pipe" {
			want.total = 0
		}
		if last != want {
			t.Errorf("%s: the last call was %+v, want %+v", name, last, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	core, _ := sample(64)
	xz := compress(t, core, "xz -c")
	// The dictionary size is the last byte of the first filter: behind the
	// stream header (12), sizes and flags (2), filter id and size (2).
	xz[16] = 40
	cases := []struct {
		name, data, want string
		is               error
	}{
		{"no core", string(compress(t, []byte("a letter"), "zstd -q")), "the zstd stream starts with 61 20 6c 65", ErrNotELF},
		{"nothing", string(compress(t, nil, "zstd -q")), "the zstd stream is empty", ErrNotELF},
		{"a stream that ends at once", string(compress(t, core, "gzip -c")[:5]), "nothing could be read from the gzip stream", io.ErrUnexpectedEOF},
		// Frame header descriptor 0, window descriptor 22<<3: 1<<(10+22).
		{"zstd with a window of 4 GiB", "\x28\xb5\x2f\xfd\x00\xb0\x01\x00\x00", "it asks for a window of 4294967296 bytes", nil},
		// Frame header descriptor: content size of 8 bytes, single segment.
		{"zstd in one segment of 1 TiB", "\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00", "it asks for a window of 1099511627776 bytes", nil},
		{"xz with a dictionary of 4 GiB", string(xz), "it asks for a window of 4294967295 bytes", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "core", []byte(c.data))
			f, err := Open(t.Context(), path, Options{Keep: true})
			if f != nil || err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want an error with %q", f, err, c.want)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is not %v", err, c.is)
			}
			if left := names(t, filepath.Dir(path)); len(left) != 1 {
				t.Errorf("left beside the core: %v", left)
			}
		})
	}
	if _, err := Open(t.Context(), t.TempDir(), Options{}); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := Open(context.Background(), filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}
