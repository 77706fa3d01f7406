//go:build linux

package stream

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// FuzzUnpack decodes anything into a sparse file: without a panic, and so
// that the file reads back as what was decoded.
func FuzzUnpack(f *testing.F) {
	core, _ := sample(42)
	for _, c := range commands {
		packed := compress(f, core, c.command)
		f.Add(packed)
		f.Add(packed[:len(packed)/2])
	}
	f.Add(core[:5000])
	f.Add([]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		t.Setenv("PATH", dir) // the library for xz, not a process each time
		name, decoder, err := newDecoder(t.Context(), &source{r: bytes.NewReader(data)}, 8<<20)
		if err != nil {
			return
		}
		defer decoder.Close()
		unpacked, err := io.ReadAll(io.LimitReader(decoder, 4<<20))
		if name == "" && (err != nil || !bytes.Equal(unpacked, data[:min(len(data), 4<<20)])) {
			t.Errorf("input that is not compressed was changed (%v)", err)
		}
		out, err := newScratch([]string{dir}, "")
		if err != nil {
			t.Fatal(err)
		}
		defer out.discard()
		if err := out.append(unpacked); err != nil {
			t.Fatal(err)
		}
		if _, err := out.finish(); err != nil {
			t.Fatal(err)
		}
		if stored, err := io.ReadAll(out); err != nil || !bytes.Equal(stored, unpacked) {
			t.Errorf("%d bytes were stored as %d (%v)", len(unpacked), len(stored), err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in the folder: %v (%v)", left, err)
		}
	})
}
