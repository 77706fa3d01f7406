package coretest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	return Unzstd(t, testdata(t, "cores", name, file+".zst"), t.TempDir())
}

// Unzstd decompresses a file into a folder, and gives the path that it has there:
// its own name without the ending.
func Unzstd(t testing.TB, path, folder string) string {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	decoder, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	to := filepath.Join(folder, strings.TrimSuffix(filepath.Base(path), ".zst"))
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	_, err = decoder.WriteTo(out)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return to
}
