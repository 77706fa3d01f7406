package fixup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// mount mounts source on a new folder until the test ends.
func mount(t *testing.T, source, options string, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: mounting needs root")
	}
	dir := t.TempDir()
	args = append(args, "-o", options, source, dir)
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: mount %q: %v: %s", args, err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func mountTmpfs(t *testing.T, size string) string {
	t.Helper()
	return mount(t, "tmpfs", "size="+size, "-t", "tmpfs")
}

// mountImage makes a file system in a file and mounts it.
func mountImage(t *testing.T, kind, aptPackage string) string {
	t.Helper()
	mkfs := "mkfs." + kind
	if _, err := exec.LookPath(mkfs); err != nil {
		t.Fatalf("%s is needed: apt-get install %s", mkfs, aptPackage)
	}
	image := filepath.Join(t.TempDir(), kind)
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 400<<20); err != nil {
		t.Fatal(err)
	}
	run(t, mkfs, "-q", image)
	return mount(t, image, "loop")
}

// used is the number of bytes that are taken on the file system of dir.
func used(t *testing.T, dir string) int64 {
	t.Helper()
	d := open(t, dir)
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks-st.Bfree) * int64(st.Bsize)
}

// A clone takes room for its patches and nothing else.
func TestReflink(t *testing.T) {
	for kind, aptPackage := range map[string]string{"xfs": "xfsprogs", "btrfs": "btrfs-progs"} {
		t.Run(kind, func(t *testing.T) {
			dir := mountImage(t, kind, aptPackage)
			const dataSize, size = 24 << 20, 1 << 40
			core, out := filepath.Join(dir, "core"), filepath.Join(dir, "out")
			f, err := os.Create(core)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			content := bytes.Repeat([]byte("0123456789abcdef"), dataSize/16)
			if _, err := f.Write(content); err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(size); err != nil {
				t.Fatal(err)
			}
			plan := &Plan{Patches: []Patch{
				patchAt(8_000_000, "0123", "FFFF"),
				patchAt(size-4, "\x00\x00\x00\x00", "FFFF"),
			}}
			if plan.Core, err = Identify(f, size, plan.Patches); err != nil {
				t.Fatal(err)
			}

			before := used(t, dir)
			res, err := Apply(context.Background(), f, out, plan, WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if res.Method != MethodReflink || res.BytesCopied != 0 || len(res.Warnings) > 0 {
				t.Errorf("result %+v", res)
			}
			if more := used(t, dir) - before; more > dataSize/8 {
				t.Errorf("the copy of %d bytes takes %d more", dataSize, more)
			}
			copy(content[8_000_000:], "FFFF")
			got := make([]byte, dataSize)
			if err := readAt(open(t, out), got, 0); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the start of the copy is wrong, error %v", err)
			}
			if err := readAt(open(t, out), got[:8], size-8); err != nil || string(got[:8]) != "\x00\x00\x00\x00FFFF" {
				t.Errorf("the copy ends in %q, error %v", got[:8], err)
			}
			if err := readAt(f, got[:4], 8_000_000); err != nil || string(got[:4]) != "0123" {
				t.Errorf("the core holds %q now, error %v", got[:4], err)
			}
		})
	}
}

// Between file systems the kernel may refuse to copy: the copy is the same, and
// sparse.
func TestApplyAcrossFileSystems(t *testing.T) {
	s := newSample(t)
	s.plan = planFor(t, s.content, s.plan.Patches[0], s.plan.Patches[2]) // none in the hole
	out := filepath.Join(mountTmpfs(t, "8m"), "out")
	res, err := Apply(context.Background(), s.open(t), out, s.plan, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Method != MethodSparseCopy {
		t.Errorf("result %+v", res)
	}
	mustHold(t, out, s.fixed())
	if got, want := extents(t, out), extents(t, s.core); !slices.Equal(got, want) {
		t.Errorf("data at %v, in the source at %v", got, want)
	}
}

func TestApplyToAFullDisk(t *testing.T) {
	s := newSample(t)
	dir := mountTmpfs(t, "64k")
	for _, src := range []*sample{s, newSampleIn(t, mountTmpfs(t, "8m"))} {
		res, err := Apply(context.Background(), src.open(t), filepath.Join(dir, "out"), s.plan, WriteOptions{})
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("result %+v, error %v", res, err)
		}
		mustList(t, dir)
	}
}

// fill takes all room of a file system.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, unix.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestInPlaceOnAFullDisk(t *testing.T) {
	ctx := context.Background()
	t.Run("no room for the undo file", func(t *testing.T) {
		dir := mountTmpfs(t, "512k")
		s := newSampleIn(t, dir)
		fill(t, dir)
		if _, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("got error %v", err)
		}
		mustHold(t, s.core, s.content)
		mustList(t, dir, "core.1", "filler")
	})
	// The first patch falls on data and is written, the second into a hole.
	t.Run("no room for a patch", func(t *testing.T) {
		dir, elsewhere := mountTmpfs(t, "512k"), t.TempDir()
		s := newSampleIn(t, dir)
		fill(t, dir)
		_, err := ApplyInPlace(ctx, s.core, filepath.Join(elsewhere, "undo"), s.plan, WriteOptions{})
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "the old bytes were put back") {
			t.Errorf("got error %v", err)
		}
		mustHold(t, s.core, s.content)
		mustList(t, elsewhere)
		if info, err := os.Stat(s.core); err != nil || !info.ModTime().Equal(sampleTime) {
			t.Errorf("modification time %v, error %v", info.ModTime(), err)
		}
	})
}

func TestReadOnlyFileSystem(t *testing.T) {
	ctx := context.Background()
	dir := mountTmpfs(t, "1m")
	s := newSampleIn(t, dir)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if _, err := Apply(ctx, s.open(t), s.path("out"), s.plan, WriteOptions{}); !errors.Is(err, unix.EROFS) {
		t.Errorf("Apply beside it: %v", err)
	}
	_, err := ApplyInPlace(ctx, s.core, filepath.Join(elsewhere, "undo"), s.plan, WriteOptions{})
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "write a repaired copy elsewhere") {
		t.Errorf("ApplyInPlace: %v", err)
	}
	mustList(t, elsewhere)
	if _, err := Apply(ctx, s.open(t), filepath.Join(elsewhere, "out"), s.plan, WriteOptions{}); err != nil {
		t.Errorf("Apply elsewhere: %v", err)
	}
	mustHold(t, filepath.Join(elsewhere, "out"), s.fixed())
	mustHold(t, s.core, s.content)
}
