//go:build !linux

package stream

import (
	"io"
	"io/fs"
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

// Elsewhere a kept file is compared each time, and its folder trusted.

func remember(*os.File, fs.FileInfo) {}

// Forget takes away what remember notes.
func Forget(*os.File) {}

func recalls(*os.File, fs.FileInfo) bool { return false }

func ours(fs.FileInfo) bool { return true }

func room(*os.File) (size, free uint64, err error) { return 0, 0, nil }
