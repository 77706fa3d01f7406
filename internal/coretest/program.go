package coretest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Compile builds a program of testdata/programs with gcc, debug information
// and threads, and gives the path of the executable. flags follow the source:
// "-static", "-m32", "-no-pie".
func Compile(t testing.TB, source string, flags ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), strings.TrimSuffix(source, ".c"))
	gcc := Tool(t, "gcc", "gcc (and gcc-multilib for -m32)")
	args := []string{"-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", exe, testdata(t, "programs", source)}
	Output(t, gcc, append(args, flags...)...)
	return exe
}

// testdata gives a path under the module's folder testdata. A test runs in its
// package's folder, so that the module is that folder's or above it.
func testdata(t testing.TB, elem ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(append([]string{dir, "testdata"}, elem...)...)
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("the test's folder is in no Go module: there is no go.mod above it")
		}
		dir = up
	}
}
