package fixup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestInPlaceTwice(t *testing.T) {
	s := newSample(t)
	ctx := context.Background()
	undo := s.path("undo")
	if _, err := Undo(ctx, s.plan, s.core, WriteOptions{}); !errors.Is(err, ErrAlreadyUndone) {
		t.Errorf("undo before apply: %v", err)
	}
	if _, err := ApplyInPlace(ctx, s.core, undo, s.plan, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if res, err := ApplyInPlace(ctx, s.core, undo, s.plan, WriteOptions{}); !errors.Is(err, ErrAlreadyApplied) || res.Method != MethodNone {
		t.Errorf("second apply: %+v, %v", res, err)
	}
	if res, err := Undo(ctx, s.plan, s.core, WriteOptions{}); err != nil || res.Method != MethodInPlace {
		t.Errorf("undo: %+v, %v", res, err)
	}
	if _, err := Undo(ctx, s.plan, s.core, WriteOptions{}); !errors.Is(err, ErrAlreadyUndone) {
		t.Errorf("second undo: %v", err)
	}
	// The undo file is still there, and still right.
	if _, err := ApplyInPlace(ctx, s.core, undo, s.plan, WriteOptions{}); err != nil {
		t.Errorf("apply after undo: %v", err)
	}
	mustHold(t, s.core, s.fixed())
	mustList(t, s.dir, "core.1", "undo")
}

// Some patches there and some not, in any combination, is what a killed run
// leaves.
func TestInPlaceOfAHalfPatchedCore(t *testing.T) {
	ctx := context.Background()
	for half := range 8 {
		s := newSample(t)
		var done []Patch
		for i, p := range s.plan.Patches {
			if half&(1<<i) != 0 {
				done = append(done, p)
			}
		}
		content := patched(s.content, done)
		if err := os.WriteFile(s.core, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{}); err != nil && half != 7 {
			t.Errorf("patches %03b: apply: %v", half, err)
		}
		mustHold(t, s.core, s.fixed())

		if err := os.WriteFile(s.core, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Undo(ctx, s.plan, s.core, WriteOptions{}); err != nil && half != 0 {
			t.Errorf("patches %03b: undo: %v", half, err)
		}
		mustHold(t, s.core, s.content)
	}
}

func TestInPlaceKeepsModeAndTimes(t *testing.T) {
	s := newSample(t)
	if err := os.Chmod(s.core, 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(s.core)
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		after, err := os.Stat(s.core)
		if err != nil {
			t.Fatal(err)
		}
		if after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) || !accessTime(after).Equal(accessTime(before)) {
			t.Errorf("mode and times were %v %v %v, are %v %v %v", before.Mode(), before.ModTime(), accessTime(before),
				after.Mode(), after.ModTime(), accessTime(after))
		}
		if !os.SameFile(before, after) {
			t.Error("the core is another file now")
		}
	}
	ctx := context.Background()
	if _, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	check()
	if info, err := os.Stat(s.path("undo")); err != nil || info.Mode() != 0o600 {
		t.Errorf("undo file: mode %v, error %v", info.Mode(), err)
	}
	if _, err := Undo(ctx, s.plan, s.core, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	check()
}

func TestInPlaceRefusesAForeignUndoFile(t *testing.T) {
	s := newSample(t)
	ctx := context.Background()
	undo := s.path("undo")
	other := planFor(t, s.content, s.plan.Patches[0])
	if err := other.WriteFile(undo); err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(undo)
	if err != nil {
		t.Fatal(err)
	}
	_, err = ApplyInPlace(ctx, s.core, undo, s.plan, WriteOptions{})
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), undo) {
		t.Errorf("got error %v", err)
	}
	mustHold(t, undo, there)

	for _, path := range []string{s.core, s.dir, os.DevNull, s.path("missing/undo")} {
		if _, err := ApplyInPlace(ctx, s.core, path, s.plan, WriteOptions{}); err == nil {
			t.Errorf("undo file %s was accepted", path)
		}
	}
	mustHold(t, s.core, s.content)
	mustList(t, s.dir, "core.1", "undo")
}

func TestInPlaceUnderOtherNames(t *testing.T) {
	s := newSample(t)
	ctx := context.Background()
	if err := os.Symlink("core.1", s.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(s.core, s.path("second")); err != nil {
		t.Fatal(err)
	}
	res, err := ApplyInPlace(ctx, s.path("link"), s.path("undo"), s.plan, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "2 names") {
		t.Errorf("warnings %q", res.Warnings)
	}
	if info, err := os.Lstat(s.path("link")); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v, error %v", info.Mode(), err)
	}
	mustHold(t, s.core, s.fixed())
	mustHold(t, s.path("second"), s.fixed())

	for _, path := range []string{s.dir, os.DevNull, s.path("missing")} {
		if _, err := ApplyInPlace(ctx, path, s.path("undo"), s.plan, WriteOptions{}); err == nil {
			t.Errorf("%s was edited", path)
		}
	}
}

func TestInPlaceOfACoreThatIsStillWritten(t *testing.T) {
	s := newSample(t)
	opts := WriteOptions{step: func(name string) {
		if name == "prepared" {
			if err := os.Truncate(s.core, 400_000); err != nil {
				t.Error(err)
			}
		}
	}}
	_, err := ApplyInPlace(context.Background(), s.core, s.path("undo"), s.plan, opts)
	if !errors.Is(err, errStillWritten) {
		t.Errorf("got error %v", err)
	}
	mustHold(t, s.core, append(s.content, make([]byte, 100_000)...))
	mustList(t, s.dir, "core.1")
}

// A signal reaches these functions as a cancelled context: the core is as it
// was, or done.
func TestInPlaceCancelled(t *testing.T) {
	s := newSample(t)
	stopped := 0
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(context.Background())
		calls := 0
		opts := WriteOptions{step: func(string) {
			if calls++; calls == n {
				cancel()
			}
		}}
		_, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, opts)
		cancelled := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			mustHold(t, s.core, s.fixed())
			if _, err := Undo(context.Background(), s.plan, s.core, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(s.path("undo")); err != nil {
				t.Fatal(err)
			}
		case !errors.Is(err, context.Canceled):
			t.Fatal(err)
		default:
			stopped++
			mustHold(t, s.core, s.content)
			mustList(t, s.dir, "core.1")
		}
		if !cancelled {
			if stopped == 0 {
				t.Error("no cancelled context stopped it")
			}
			return
		}
	}
}
