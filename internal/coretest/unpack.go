package coretest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Unpack gives a core of testdata/cores, decompressed into the test's own
// folder, and its truth. Names are ARCH-LIBC-SCENARIO; the folder's README
// lists them.
func Unpack(t testing.TB, name string) (core string, truth Truth) {
	t.Helper()
	return unpack(t, name, "core"), LoadTruth(t, testdata(t, "cores", name, "truth.json"))
}

// UnpackExe gives the program that such a core is of, where it is kept.
func UnpackExe(t testing.TB, name string) string {
	t.Helper()
	return unpack(t, name, "exe")
}

func unpack(t testing.TB, name, file string) string {
	t.Helper()
	packed, err := os.ReadFile(testdata(t, "cores", name, file+".zst"))
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	unpacked, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		t.Fatalf("%s of %s: %v", file, name, err)
	}
	path := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(path, unpacked, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}
