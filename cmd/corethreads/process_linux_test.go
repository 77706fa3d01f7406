package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// command is the command in a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	return cmd
}

// TestInterrupted sends signals while a core is being unpacked, as soon as there
// is something of it on the disk. Nothing stays there.
func TestInterrupted(t *testing.T) {
	packed, err := os.ReadFile(filepath.Join("..", "..", "testdata", "cores", scriptCores["zombie"], "core.zst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		dir := t.TempDir()
		cmd := command(t, "fix", "-", "-o", filepath.Join(dir, "out"), "--keep", "--tmp-dir", dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// All but the end, so that it waits for more.
		if _, err := stdin.Write(packed[:len(packed)-1]); err != nil {
			t.Fatal(err)
		}
		for len(files(t, dir)) == 0 {
			if err := syscall.Kill(cmd.Process.Pid, 0); err != nil {
				t.Fatalf("it ended by itself: %s", stderr.String())
			}
		}
		// timeout(1) sends it twice, without a pause.
		for range 200 {
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		err = cmd.Wait()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("%v: %v", signal, err)
		}
		if got := stderr.String(); got != "corethreads: interrupted\n" {
			t.Errorf("%v: it says %q", signal, got)
		}
		if left := files(t, dir); len(left) > 0 {
			t.Errorf("%v: it leaves %v", signal, left)
		}
	}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestBrokenPipe writes to a pipe that nobody reads, as in front of a head that
// has seen enough: that is not worth a word.
func TestBrokenPipe(t *testing.T) {
	core, _ := coretest.Unpack(t, scriptCores["zombie"])
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	cmd := command(t, "threads", core)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = w, &stderr
	err = cmd.Run()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
		t.Errorf("it ends with %v", err)
	}
	if stderr.Len() > 0 {
		t.Errorf("it says %q", stderr.String())
	}
}

// TestFullDisk says so where the result cannot be written.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	core, _ := coretest.Unpack(t, scriptCores["zombie"])
	for _, args := range [][]string{{"check", core}, {"check", "--json", core}, {"threads", core}, {"fix", core, "--dry-run"}} {
		cmd := command(t, args...)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = full, &stderr
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailed {
			t.Errorf("%q: %v", args, err)
		}
		if want := "the result could not be written: no space left on device\n"; !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("%q: it says %q", args, stderr.String())
		}
	}
}
