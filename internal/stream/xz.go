package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/ulikunitz/xz"
)

// newXZ decodes by the xz program, which is several times faster than the
// library and knows all filters; by the library where there is no program.
//
// What it decodes is in, the rest of s after a look at its first bytes. The
// program reads a file by itself, which saves two copies of it.
func newXZ(ctx context.Context, s *source, in io.Reader, window uint64) (io.ReadCloser, error) {
	if program, ok := xzProgram(ctx); ok {
		if f := s.give(); f != nil {
			in = f
		}
		return startXZ(ctx, program, in, window)
	}
	d, err := xz.NewReader(in)
	return io.NopCloser(d), err
}

// xzProgram finds the program of XZ Utils. What BusyBox calls xz knows hardly
// any options, and would not be faster.
func xzProgram(ctx context.Context) (string, bool) {
	program, err := exec.LookPath("xz")
	if err != nil {
		return "", false
	}
	version, err := exec.CommandContext(ctx, program, "--robot", "--version").Output()
	return program, err == nil && bytes.HasPrefix(version, []byte("XZ_VERSION="))
}

// xzProcess is the output of a running xz.
type xzProcess struct {
	cmd    *exec.Cmd
	out    io.Reader
	stderr bytes.Buffer
	end    error // set once the process was waited for; io.EOF if all went well
}

func startXZ(ctx context.Context, program string, in io.Reader, window uint64) (io.ReadCloser, error) {
	const decoderItself = 64 << 20 // what xz needs besides the window, generously
	x := &xzProcess{cmd: exec.CommandContext(ctx, program, "--decompress", "--stdout", "--format=xz", "--threads=0",
		fmt.Sprintf("--memlimit-decompress=%d", window+decoderItself))}
	x.cmd.Env = append(os.Environ(), "LC_ALL=C")
	x.cmd.Stdin = in
	x.cmd.Stderr = &x.stderr
	// A read of in that never returns must not keep Wait from returning.
	x.cmd.WaitDelay = time.Second
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	x.out = out
	widen(out)
	return x, x.cmd.Start()
}

// Read gives the output, and at its end what became of the process.
func (x *xzProcess) Read(p []byte) (int, error) {
	n, err := x.out.Read(p)
	if err != nil {
		err = x.wait()
	}
	return n, err
}

// Close waits for the process, which has ended or is killed by its context.
func (x *xzProcess) Close() error {
	if err := x.wait(); err != io.EOF {
		return err
	}
	return nil
}

func (x *xzProcess) wait() error {
	if x.end != nil {
		return x.end
	}
	x.end = x.cmd.Wait()
	if x.end == nil {
		x.end = io.EOF
	} else if said := bytes.TrimSpace(x.stderr.Bytes()); len(said) > 0 {
		x.end = errors.New(string(said))
	}
	return x.end
}
