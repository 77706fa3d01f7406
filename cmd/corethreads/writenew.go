package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeNew writes a file that appears under its name whole or not at all, and
// that takes the place of another only by force, of the core never.
func writeNew(path string, data []byte, core *os.File, force bool) error {
	if st, err := os.Stat(path); err == nil {
		if own, err := core.Stat(); err == nil && os.SameFile(st, own) {
			return fmt.Errorf("%s is the core itself; name another file", path)
		}
		if !force {
			return fmt.Errorf("%s exists already; name another file, or replace it with --force", path)
		}
		if !st.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file; name another one", path)
		}
	}
	if dir := filepath.Dir(path); !isFolder(dir) {
		return fmt.Errorf("%s: there is no folder %s", path, dir)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".corethreads-*.partial")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, withoutPath(err))
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, withoutPath(err))
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, withoutPath(err))
	}
	return nil
}

// withoutPath takes the name of the temporary file out of an error.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
