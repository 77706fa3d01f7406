package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// plain gives an error in words for people: what was wrong, with which file, and
// where it can be told what to do about it. The system's own words name the
// call that failed, which says nothing to anybody.
func plain(err error) string {
	text := err.Error()
	var p *fs.PathError
	if errors.As(err, &p) {
		text = strings.Replace(text, p.Error(), p.Path+": "+reason(p), 1)
		text = strings.Replace(text, p.Path+": "+p.Path+": ", p.Path+": ", 1)
	}
	return text
}

// reason says why something could not be done with a file.
func reason(p *fs.PathError) string {
	switch {
	case p.Path == os.Stdout.Name():
		return fmt.Sprintf("the result could not be written: %v", p.Err)
	case errors.Is(p.Err, fs.ErrNotExist):
		if dir := filepath.Dir(p.Path); !isFolder(dir) {
			return fmt.Sprintf("there is no folder %s", dir)
		}
		return "there is no such file"
	case errors.Is(p.Err, fs.ErrPermission) && p.Op == "open":
		return "permission denied; a core can be read by the user of its process and by root"
	case errors.Is(p.Err, fs.ErrExist) && p.Op == "write":
		return "exists already; --force replaces it"
	case errors.Is(p.Err, fs.ErrExist):
		return "exists already; name another file, or move it away"
	case errors.Is(p.Err, syscall.EISDIR):
		return "is a folder"
	}
	return p.Err.Error()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// withPath names the core in an error that does not.
func withPath(path string, err error) error {
	var p *fs.PathError
	if strings.HasPrefix(err.Error(), coreName(path)+": ") || errors.As(err, &p) && p.Path == path {
		return err
	}
	return fmt.Errorf("%s: %w", coreName(path), err)
}

// coreName is what a core is called in texts.
func coreName(path string) string {
	if path == "-" {
		return "standard input"
	}
	return path
}
