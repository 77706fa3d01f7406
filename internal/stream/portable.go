//go:build !linux

package stream

import (
	"io"
	"os"
	"runtime"
)

// Elsewhere than on Linux a disk that is full is noticed when it is full.

func anonymous(dir string) (*os.File, error) {
	if runtime.GOOS == "windows" {
		// A file that is open keeps its name there.
		return os.CreateTemp(dir, ".corethreads-*")
	}
	return unlinked(dir)
}

func renameToNew(from, to string) error { return linkToNew(from, to) }

func widen(io.Reader) {}

func room(*os.File) (size, free uint64, err error) { return 0, 0, nil }
