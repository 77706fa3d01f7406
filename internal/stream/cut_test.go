//go:build linux

package stream

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// decompress is the reference program for a command of the commands table.
func decompress(command string) (string, []string) {
	program := strings.Fields(command)[0]
	return program, []string{"-d", "-c", "-q"}
}

// Of a stream that ends early, as much is unpacked as the reference program
// gets out of it, or more.
func TestCutStreams(t *testing.T) {
	const bits = 8 // gzip gets some bytes out of the last bits, that our decoder does not
	core, _ := sample(1024)
	check := func(t *testing.T, command string, packed []byte) {
		for _, n := range []int{len(packed) / 3, len(packed) / 2, len(packed) - 1} {
			program, args := decompress(command)
			reference, _ := tool(t, packed[:n], program, args...)
			f, err := Open(t.Context(), write(t, "core", packed[:n]), Options{})
			if err != nil && len(reference) == 0 {
				continue // not one whole block
			}
			if err != nil {
				t.Fatalf("cut to %d of %d bytes: %v", n, len(packed), err)
			}
			got := content(t, f)
			f.Close()
			if f.Cut == nil || f.Cut.Err == nil || errors.Is(f.Cut, io.EOF) || f.Cut.Unpacked != int64(len(got)) {
				t.Errorf("cut to %d of %d bytes: %d bytes with the cut given as %v", n, len(packed), len(got), f.Cut)
			}
			if !bytes.HasPrefix(core, got) {
				t.Errorf("cut to %d of %d bytes: the start of the core is wrong", n, len(packed))
			}
			if len(got)+bits < len(reference) {
				t.Errorf("cut to %d of %d bytes: %d bytes came out, and %d of %s", n, len(packed), len(got), len(reference), program)
			}
		}
	}
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) { check(t, c.command, compress(t, core, c.command)) })
	}
}

func TestCutXZWithoutTheProgram(t *testing.T) {
	core, _ := sample(1024)
	packed := compress(t, core, "xz -c")
	path := write(t, "core", packed[:len(packed)/2])
	t.Setenv("PATH", t.TempDir())
	f, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := content(t, f); f.Cut == nil || len(got) < len(core)/4 || !bytes.HasPrefix(core, got) {
		t.Errorf("%d bytes, cut %v", len(got), f.Cut)
	}
}

// What came before the damage is there, and the damage is told.
func TestDamagedStreams(t *testing.T) {
	core, _ := sample(1024)
	for _, c := range commands {
		if c.name == "lz4 legacy" {
			continue // has no checksum
		}
		t.Run(c.name, func(t *testing.T) {
			packed := compress(t, core, c.command)
			copy(packed[len(packed)*3/4:], bytes.Repeat([]byte{0xa5}, 64))
			f, err := Open(t.Context(), write(t, "core", packed), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got := content(t, f)
			if f.Cut == nil || len(got) < len(core)/2 || !bytes.Equal(got[:len(core)/2], core[:len(core)/2]) {
				t.Errorf("%d bytes, cut %v", len(got), f.Cut)
			}
		})
	}
}

// A second frame that asks for too much memory ends the stream.
func TestWindowOfALaterFrame(t *testing.T) {
	core, _ := sample(64)
	packed := slices.Concat(compress(t, core, "zstd -q"), []byte("\x28\xb5\x2f\xfd\x00\xb0\x01\x00\x00"))
	f, err := Open(t.Context(), write(t, "core", packed), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Cut == nil || !bytes.Equal(content(t, f), core) {
		t.Errorf("cut %v", f.Cut)
	}
}

// An error of the source is told as such, whatever the decoder makes of it.
func TestSourceFails(t *testing.T) {
	core, _ := sample(1024)
	broken := errors.New("the line is dead")
	check := func(t *testing.T, data []byte) {
		f, err := OpenReader(t.Context(), io.MultiReader(bytes.NewReader(data), failing{broken}), Options{TempDir: t.TempDir()})
		if err != nil {
			if !errors.Is(err, broken) { // no whole block came before it
				t.Error(err)
			}
			return
		}
		defer f.Close()
		if !errors.Is(f.Cut, broken) || !bytes.HasPrefix(core, content(t, f)) {
			t.Errorf("cut %v", f.Cut)
		}
	}
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			packed := compress(t, core, c.command)
			check(t, packed[:len(packed)-1])
			check(t, packed)
		})
	}
	t.Run("not compressed", func(t *testing.T) { check(t, core) })
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
