package fixup

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Apply changes the planned bytes and no other, and leaves its source alone;
// Undo gives the source back, byte for byte.
func TestApplyAndUndo(t *testing.T) {
	dir := t.TempDir()
	core, fixed := filepath.Join(dir, "core"), filepath.Join(dir, "fixed")
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSparse(t)
		s.write(t, core)
		plan := planFor(t, s.content, drawPatches(t, s.content)...)
		want := patched(s.content, plan.Patches)

		src, err := os.Open(core)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		if _, err := Apply(ctx, src, fixed, plan, WriteOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		mustHold(t, fixed, want)
		mustHold(t, core, s.content)

		if _, err := Undo(ctx, plan, fixed, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		mustHold(t, fixed, s.content)
	})
}

func TestApplyInPlaceAndUndo(t *testing.T) {
	dir := t.TempDir()
	core, undo := filepath.Join(dir, "core"), filepath.Join(dir, "core.undo.json")
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		os.Remove(undo)
		s := drawSparse(t)
		s.write(t, core)
		plan := planFor(t, s.content, drawPatches(t, s.content)...)

		res, err := ApplyInPlace(ctx, core, undo, plan, WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if res.Method != MethodInPlace || res.BytesCopied != 0 || len(res.Warnings) > 0 {
			t.Fatalf("result %+v", res)
		}
		mustHold(t, core, patched(s.content, plan.Patches))

		// What is on disk is enough to go back.
		left, err := ReadFile(undo)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Undo(ctx, left, core, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		mustHold(t, core, s.content)
	})
}

func TestApplyRefusesTargets(t *testing.T) {
	s := newSample(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink("core.1", s.path("link-to-core")))
	must(os.Link(s.core, s.path("second-name")))
	must(os.WriteFile(s.path("other"), []byte("precious"), 0o644))
	must(os.Symlink("other", s.path("link-to-other")))
	must(os.Symlink("nowhere", s.path("dangling")))
	must(os.Mkdir(s.path("folder"), 0o755))
	must(os.Symlink(s.dir, s.path("folder/up")))

	for _, tt := range []struct{ target, want string }{
		{"core.1", "is the core itself"},
		{"./folder/../core.1", "is the core itself"},
		{"folder/up/core.1", "is the core itself"},
		{"link-to-core", "is the core itself"},
		{"second-name", "is the core itself"},
		{"link-to-other", "symbolic link"},
		{"dangling", "symbolic link"},
		{"folder", "is a directory"},
		{"missing/out", "no such file"},
		{"other/out", "not a directory"},
		{os.DevNull, "not a regular file"},
	} {
		for _, force := range []bool{false, true} {
			target := tt.target
			if !filepath.IsAbs(target) {
				target = s.dir + "/" + target
			}
			res, err := Apply(context.Background(), s.open(t), target, s.plan, WriteOptions{Force: force})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s, force %v: got error %v, want one with %q", tt.target, force, err, tt.want)
			}
			if res.Method != MethodNone {
				t.Errorf("%s: method %q of a refused target", tt.target, res.Method)
			}
		}
	}
	mustHold(t, s.core, s.content)
	mustHold(t, s.path("other"), []byte("precious"))
	mustList(t, s.dir, "core.1", "dangling", "folder", "link-to-core", "link-to-other", "other", "second-name")
}

func TestApplyReplacesOnlyWhenForced(t *testing.T) {
	s := newSample(t)
	out := s.path("out")
	if err := os.WriteFile(out, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	noWork := WriteOptions{step: func(name string) {
		if name == "created" {
			t.Error("a copy was begun before the refusal")
		}
	}}
	if _, err := Apply(context.Background(), s.open(t), out, s.plan, noWork); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got error %v, want fs.ErrExist", err)
	}
	mustHold(t, out, []byte("precious"))
	if _, err := Apply(context.Background(), s.open(t), out, s.plan, WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	mustHold(t, out, s.fixed())
	if info, err := os.Stat(out); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	mustList(t, s.dir, "core.1", "out")
}

// A target that appears while the copy is made is not overwritten either.
func TestApplyMeetsATargetThatAppears(t *testing.T) {
	s := newSample(t)
	out := s.path("out")
	opts := WriteOptions{step: func(name string) {
		if name == "attributes" {
			if err := os.WriteFile(out, []byte("precious"), 0o644); err != nil {
				t.Error(err)
			}
		}
	}}
	if _, err := Apply(context.Background(), s.open(t), out, s.plan, opts); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got error %v, want fs.ErrExist", err)
	}
	mustHold(t, out, []byte("precious"))
	mustList(t, s.dir, "core.1", "out")
}

func TestPlanOfAnotherCore(t *testing.T) {
	s := newSample(t)
	ctx := context.Background()
	change := func(name string, change func(content []byte) []byte) {
		t.Run(name, func(t *testing.T) {
			content := change(bytes.Clone(s.content))
			if err := os.WriteFile(s.core, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Apply(ctx, s.open(t), s.path("out"), s.plan, WriteOptions{})
			if !errors.Is(err, ErrOtherCore) {
				t.Errorf("Apply: %v", err)
			}
			if _, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{}); !errors.Is(err, ErrOtherCore) {
				t.Errorf("ApplyInPlace: %v", err)
			}
			if _, err := Undo(ctx, s.plan, s.core, WriteOptions{}); !errors.Is(err, ErrOtherCore) {
				t.Errorf("Undo: %v", err)
			}
			t.Log(err)
			mustHold(t, s.core, content)
			mustList(t, s.dir, "core.1")
		})
	}
	change("longer", func(c []byte) []byte { return append(c, 0) })
	change("shorter", func(c []byte) []byte { return c[:len(c)-1] })
	change("another head", func(c []byte) []byte { c[10]++; return c })
	change("another byte at a patch", func(c []byte) []byte { c[299_999] = 77; return c })
	change("another byte at one patch of a patched core", func(c []byte) []byte {
		c = patched(c, s.plan.Patches)
		c[150_001] = 77
		return c
	})
}

// The refusal says where, and what stands there.
func TestRefusalNamesTheBytes(t *testing.T) {
	s := newSample(t)
	copy(s.content[150_000:], "\xde\xad\xbe\xef")
	s.data = [][2]int64{{0, 300_000}}
	s.write(t, s.core)
	_, err := Undo(context.Background(), s.plan, s.core, WriteOptions{})
	if want := "offset 0x249f0 holds deadbeef, and the plan changes ffffffff to 00000000 there"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

func TestUnsoundPlansAreRefused(t *testing.T) {
	s := newSample(t)
	ctx := context.Background()
	unsorted := planFor(t, s.content, s.plan.Patches[1], s.plan.Patches[0])
	for want, plan := range map[string]*Plan{"no patches": planFor(t, s.content), "must be sorted": unsorted} {
		_, applied := Apply(ctx, s.open(t), s.path("out"), plan, WriteOptions{})
		_, inPlace := ApplyInPlace(ctx, s.core, s.path("undo"), plan, WriteOptions{})
		_, undone := Undo(ctx, plan, s.core, WriteOptions{})
		for _, err := range []error{applied, inPlace, undone} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
		}
	}
	mustHold(t, s.core, s.content)
	mustList(t, s.dir, "core.1")
}

func TestApplyToARepairedCore(t *testing.T) {
	s := newSample(t)
	ctx := context.Background()
	if err := os.WriteFile(s.core, s.fixed(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(ctx, s.open(t), s.path("out"), s.plan, WriteOptions{}); !errors.Is(err, ErrAlreadyApplied) {
		t.Errorf("all patches there: got error %v", err)
	}
	if err := os.WriteFile(s.core, patched(s.content, s.plan.Patches[:2]), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Apply(ctx, s.open(t), s.path("out"), s.plan, WriteOptions{})
	if want := "2 of 3 patches are there already"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("two patches there: got error %v, want one with %q", err, want)
	}
	mustList(t, s.dir, "core.1")
}

func TestApplyToACoreThatIsStillWritten(t *testing.T) {
	for name, write := range map[string]func(f *os.File) error{
		"grows":   func(f *os.File) error { return f.Truncate(400_000) },
		"shrinks": func(f *os.File) error { return f.Truncate(1000) },
		"changes": func(f *os.File) error { _, err := f.WriteAt([]byte{1}, 70_000); return err },
	} {
		for _, at := range []string{"created", "copied"} {
			t.Run(name+" when "+at, func(t *testing.T) {
				s := newSample(t)
				opts := WriteOptions{step: func(name string) {
					if name != at && !(at == "copied" && name == "cloned") {
						return
					}
					f, err := os.OpenFile(s.core, os.O_RDWR, 0)
					if err == nil {
						err = errors.Join(write(f), f.Close())
					}
					if err != nil {
						t.Error(err)
					}
				}}
				_, err := Apply(context.Background(), s.open(t), s.path("out"), s.plan, opts)
				if !errors.Is(err, errStillWritten) {
					t.Errorf("got error %v", err)
				}
				mustList(t, s.dir, "core.1")
			})
		}
	}
}

// Cancelled at any step up to the last sync, Apply leaves nothing; after that,
// the whole copy.
func TestApplyCancelled(t *testing.T) {
	s := newSample(t)
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(context.Background())
		calls, last := 0, ""
		opts := WriteOptions{step: func(name string) {
			if calls++; calls == n {
				last = name
				cancel()
			}
		}}
		_, err := Apply(ctx, s.open(t), s.path("out"), s.plan, opts)
		if ctx.Err() == nil {
			cancel()
			if n < 8 {
				t.Fatalf("only %d steps: the hook is not called", n)
			}
			return
		}
		if last == "synced" || last == "renamed" {
			if err != nil {
				t.Fatal(err)
			}
			mustHold(t, s.path("out"), s.fixed())
			if err := os.Remove(s.path("out")); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled at step %d, %s: got error %v", n, last, err)
		}
		mustHold(t, s.core, s.content)
		mustList(t, s.dir, "core.1")
	}
}

func TestProgress(t *testing.T) {
	dir := t.TempDir()
	core := filepath.Join(dir, "core")
	f, err := os.Create(core)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Data that takes several looks at the context, and a hole behind it.
	const dataSize, size = 3*copyChunk + 12345, 5 * copyChunk
	if _, err := f.Write(bytes.Repeat([]byte("core"), dataSize/4)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	plan := &Plan{Patches: []Patch{patchAt(4, "core", "CORE")}}
	if plan.Core, err = Identify(f, size, plan.Patches); err != nil {
		t.Fatal(err)
	}
	var calls []int64
	res, err := Apply(context.Background(), f, filepath.Join(dir, "out"), plan, WriteOptions{Progress: func(done, total int64) {
		if total != size {
			t.Errorf("total is %d, want %d", total, size)
		}
		calls = append(calls, done)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(calls) == 0 || calls[len(calls)-1] != size {
		t.Fatalf("progress %v does not end at %d", calls, size)
	}
	for i := 1; i < len(calls); i++ {
		if calls[i] < calls[i-1] {
			t.Errorf("progress goes back: %v", calls)
		}
	}
	if res.Method != MethodReflink && len(calls) < 4 {
		t.Errorf("%s of %d bytes was reported %d times", res.Method, dataSize, len(calls))
	}
}
