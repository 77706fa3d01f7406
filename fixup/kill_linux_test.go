package fixup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// killEnv makes the test program one run of Apply, ApplyInPlace or Undo that
// kills itself at a step: "operation step core plan target".
const killEnv = "FIXUP_TEST_KILL"

func TestMain(m *testing.M) {
	if job := os.Getenv(killEnv); job != "" {
		if err := killedRun(strings.Split(job, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// killedRun does a job and kills the process at the step of that number.
func killedRun(job []string) error {
	operation, core, planFile, target := job[0], job[2], job[3], job[4]
	last, err := strconv.Atoi(job[1])
	if err != nil {
		return err
	}
	plan, err := ReadFile(planFile)
	if err != nil {
		return err
	}
	step := 0
	opts := WriteOptions{step: func(string) {
		if step++; step == last {
			err := syscall.Kill(os.Getpid(), syscall.SIGKILL)
			panic(fmt.Sprint("alive after SIGKILL: ", err))
		}
	}}
	ctx := context.Background()
	switch operation {
	case "apply":
		src, err := os.Open(core)
		if err != nil {
			return err
		}
		_, err = Apply(ctx, src, target, plan, opts)
		return err
	case "in-place":
		_, err := ApplyInPlace(ctx, core, target, plan, opts)
		return err
	case "undo":
		_, err := Undo(ctx, plan, core, opts)
		return err
	}
	return fmt.Errorf("no operation %q", operation)
}

// killAtEachStep runs the operation on fresh samples, killed at one step after
// the other, and calls check after each kill. It ends with the run that was not
// killed, which must not come too early.
func killAtEachStep(t *testing.T, operation string, steps int, prepare, check func(t *testing.T, s *sample)) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; ; n++ {
		s := newSample(t)
		prepare(t, s)
		planFile := filepath.Join(t.TempDir(), "plan")
		if err := s.plan.WriteFile(planFile); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), killEnv+"="+strings.Join(
			[]string{operation, strconv.Itoa(n), s.core, planFile, s.path("target")}, "\n"))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
			if n-1 < steps {
				t.Fatalf("it ended after %d steps, expected at least %d: the hook is not called", n-1, steps)
			}
			return
		case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
			check(t, s)
		default:
			t.Fatalf("killed at step %d: %v\n%s", n, err, out)
		}
	}
}

// Killed at any moment, Apply leaves the core as it was, and under the name of
// the copy nothing or the whole copy.
func TestApplyKilled(t *testing.T) {
	complete := 0
	killAtEachStep(t, "apply", 11, func(*testing.T, *sample) {}, func(t *testing.T, s *sample) {
		mustHold(t, s.core, s.content)
		if _, err := os.Lstat(s.path("target")); err == nil {
			mustHold(t, s.path("target"), s.fixed())
			complete++
			return
		}
		// Whatever was left does not stand in the way of the next run.
		if _, err := Apply(context.Background(), s.open(t), s.path("target"), s.plan, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		mustHold(t, s.path("target"), s.fixed())
	})
	if complete == 0 {
		t.Error("never killed after the rename: the test stops too early")
	}
}

// Killed at any moment, an edit in place leaves the core as it was or the undo
// file that restores it; and the next run completes it.
func TestInPlaceKilled(t *testing.T) {
	ctx := context.Background()
	half := 0
	killAtEachStep(t, "in-place", 11, func(*testing.T, *sample) {}, func(t *testing.T, s *sample) {
		left, err := os.ReadFile(s.core)
		if err != nil {
			t.Fatal(err)
		}
		undo, err := ReadFile(s.path("target"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("half an undo file: %v", err)
		}
		if !bytes.Equal(left, s.content) {
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(left, s.fixed()) {
				half++
			}
			if _, err := Undo(ctx, undo, s.core, WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			mustHold(t, s.core, s.content)
			if err := os.WriteFile(s.core, left, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err = ApplyInPlace(ctx, s.core, s.path("target"), s.plan, WriteOptions{})
		if err != nil && !errors.Is(err, ErrAlreadyApplied) {
			t.Fatal(err)
		}
		mustHold(t, s.core, s.fixed())
	})
	if half != 2 {
		t.Errorf("killed %d times between two of the three patches", half)
	}
}

// Killed at any moment, Undo can be repeated, and so can the repair.
func TestUndoKilled(t *testing.T) {
	ctx := context.Background()
	half := 0
	killAtEachStep(t, "undo", 8, func(t *testing.T, s *sample) {
		if _, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, s *sample) {
		left, err := os.ReadFile(s.core)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(left, s.content) && !bytes.Equal(left, s.fixed()) {
			half++
		}
		if _, err := Undo(ctx, s.plan, s.core, WriteOptions{}); err != nil && !errors.Is(err, ErrAlreadyUndone) {
			t.Fatal(err)
		}
		mustHold(t, s.core, s.content)
		if err := os.WriteFile(s.core, left, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ApplyInPlace(ctx, s.core, s.path("undo"), s.plan, WriteOptions{}); err != nil && !errors.Is(err, ErrAlreadyApplied) {
			t.Fatal(err)
		}
		mustHold(t, s.core, s.fixed())
	})
	if half != 2 {
		t.Errorf("killed %d times between two of the three patches", half)
	}
}
