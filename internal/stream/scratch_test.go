//go:build linux

package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fdPath is a name for f in a folder that nobody can write, not even root.
func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func TestFolderThatCannotBeWritten(t *testing.T) {
	core, _ := sample(64)
	packed, err := os.Open(write(t, "core", compress(t, core, "zstd -q")))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	path := fdPath(packed)

	fallback := t.TempDir()
	t.Setenv("TMPDIR", fallback)
	f, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !bytes.Equal(content(t, f), core) || filepath.Dir(f.Name()) != fallback {
		t.Errorf("not unpacked into $TMPDIR but as %s", f.Name())
	}

	t.Setenv("TMPDIR", "/proc/self/fdinfo")
	_, err = Open(t.Context(), path, Options{})
	for _, want := range []string{"/proc/self/fd: ", "/proc/self/fdinfo: ", "--tmp-dir"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	// A folder that was asked for is not replaced by another.
	t.Setenv("TMPDIR", fallback)
	missing := filepath.Join(fallback, "missing")
	if _, err = Open(t.Context(), path, Options{TempDir: missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing folder gives %v", err)
	}
}

func TestKeep(t *testing.T) {
	core, _ := sample(64)
	packed := compress(t, core, "zstd -q")
	for name, kept := range map[string]string{
		"core.1234.zst": "core.1234", "core.zstd": "core", "core.xz": "core", "core": "core.unpacked", ".zst": ".zst.unpacked", "core.zst.old": "core.zst.old.unpacked",
	} {
		path := write(t, name, packed)
		dir := filepath.Dir(path)
		f, err := Open(t.Context(), path, Options{Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if want := filepath.Join(dir, kept); f.Path != want {
			t.Errorf("%s kept as %s, want %s", name, f.Path, want)
		}
		info, err := os.Stat(f.Path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%v, %v; want mode 0600", info, err)
		}
		if got, err := os.ReadFile(f.Path); err != nil || !bytes.Equal(got, core) {
			t.Errorf("the kept core differs (%v)", err)
		}
		if left := names(t, dir); len(left) != 2 {
			t.Errorf("left in the folder: %v", left)
		}
	}
	dir := t.TempDir()
	f, err := OpenReader(t.Context(), bytes.NewReader(core), Options{Keep: true, TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if left := names(t, dir); f.Path != filepath.Join(dir, "core.unpacked") || !slices.Equal(left, []string{"core.unpacked"}) {
		t.Errorf("kept as %s; in the folder: %v", f.Path, left)
	}
}

// then calls a function after what was read before it.
type then func()

func (f then) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

func TestKeepReplacesNothing(t *testing.T) {
	core, _ := sample(64)
	dir := t.TempDir()
	path := filepath.Join(dir, "core.unpacked")
	intruder := then(func() {
		if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
			t.Error(err)
		}
	})
	_, err := OpenReader(t.Context(), io.MultiReader(bytes.NewReader(core), intruder), Options{Keep: true, TempDir: dir})
	if !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that came to be meanwhile gives %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "precious" || len(names(t, dir)) != 1 {
		t.Errorf("%s holds %d bytes; in the folder: %v", path, len(got), names(t, dir))
	}
}

func TestCancel(t *testing.T) {
	core, _ := sample(1024)
	interrupted := errors.New("interrupted")
	for _, c := range commands {
		packed := compress(t, core, c.command)
		for _, keep := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			dir := t.TempDir()
			// Half of the stream, and then nothing more for ever.
			never := make(chan struct{})
			stalled := then(func() {
				cancel(interrupted)
				<-never
			})
			f, err := OpenReader(ctx, io.MultiReader(bytes.NewReader(packed[:len(packed)/2]), stalled), Options{TempDir: dir, Keep: keep})
			close(never)
			if f != nil || !errors.Is(err, interrupted) {
				t.Errorf("%s: %v, %v", c.name, f, err)
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("%s: left in the folder: %v", c.name, left)
			}
		}
	}
}

// Killed in the middle, a process leaves nothing behind.
func TestKill(t *testing.T) {
	const folder = "STREAM_TEST_FOLDER"
	if dir := os.Getenv(folder); dir != "" {
		_, err := OpenReader(context.Background(), os.Stdin, Options{TempDir: dir, Progress: func(_, _, unpacked int64) {
			if unpacked > 0 {
				fmt.Println("unpacking")
			}
		}})
		t.Fatalf("not killed: %v", err)
	}
	core, _ := sample(1024)
	packed := compress(t, core, "zstd -q")
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), folder+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := stdin.Write(packed[:len(packed)*3/4]); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "unpacking\n" {
		t.Fatalf("the process said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("left in the folder: %v", left)
	}
}

// The way of file systems without O_TMPFILE.
func TestUnlinked(t *testing.T) {
	dir := t.TempDir()
	f, err := unlinked(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode() != 0o600 || len(names(t, dir)) > 0 {
		t.Errorf("%v, %v; in the folder: %v", info, err, names(t, dir))
	}
	if _, err := f.WriteAt([]byte("x"), 1<<20); err != nil {
		t.Error(err)
	}
}

// On a disk of 16 MiB, 20 MiB of data end with an error and 1 GiB of holes
// does not matter.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root can mount the small disk that this test fills")
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=16m"); err != nil {
		t.Fatalf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("unmounting the tmpfs: %v", err)
		}
	})

	dense := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{2}).Read(dense)
	copy(dense, "\x7fELF")
	for _, keep := range []bool{false, true} {
		path := write(t, "core.lz4", compress(t, dense, "lz4 -q -z -c"))
		f, err := Open(t.Context(), path, Options{TempDir: disk, Keep: keep})
		if f != nil || !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("20 MiB on 16 MiB: %v, %v", f, err)
		}
		for _, want := range []string{disk, "must stay so", "--tmp-dir"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if left := names(t, disk); len(left) > 0 {
			t.Errorf("left on the disk: %v", left)
		}
	}

	// A frame of 4 bytes and 16 of 64 MiB of zeroes.
	sparse := append(compress(t, []byte("\x7fELF"), "zstd -q"), bytes.Repeat(compress(t, make([]byte, 64<<20), "zstd -q"), 16)...)
	f, err := Open(t.Context(), write(t, "core.zst", sparse), Options{TempDir: disk})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != 4+16*64<<20 {
		t.Errorf("%v, %v", info, err)
	}

	// A disk without room is not tried at all.
	full := filepath.Join(disk, "full")
	if err := os.WriteFile(full, dense[:15<<20], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), write(t, "core.lz4", compress(t, dense, "lz4 -q -z -c")), Options{TempDir: disk}); err == nil || !strings.Contains(err.Error(), "must stay so") || strings.Count(err.Error(), "--tmp-dir") != 1 {
		t.Errorf("a full disk gives %v", err)
	}
}

func TestReserve(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for size, want := range map[uint64]uint64{0: 0, 16 * mib: 2 * mib, 2 * gib: 64 * mib, 50 * gib: gib / 2, 10240 * gib: gib} {
		if got := reserve(size); got != want {
			t.Errorf("of %d bytes %d stay free, want %d", size, got, want)
		}
	}
}
