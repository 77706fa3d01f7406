package fixup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// draft is a file that is being written under a temporary name in the folder of
// its final one.
type draft struct {
	file  *os.File
	final string
}

// newDraft creates an empty draft of mode 0600. The temporary name does not
// contain the final one, which may be as long as a name can be.
func newDraft(final string) (*draft, error) {
	f, err := os.CreateTemp(filepath.Dir(final), ".corethreads-*.partial")
	if err != nil {
		return nil, renamed(final, err)
	}
	return &draft{f, final}, nil
}

// publish syncs the draft to disk and gives it its final name. Only with
// replace may that name be taken.
func (d *draft) publish(replace bool, opts WriteOptions) error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("%s: %w", d.final, err)
	}
	opts.at("synced")
	// Closed before it is renamed: some systems ask for that.
	if err := d.file.Close(); err != nil {
		return fmt.Errorf("%s: %w", d.final, err)
	}
	rename := renameToNew
	if replace {
		rename = os.Rename
	}
	if err := rename(d.file.Name(), d.final); err != nil {
		return renamed(d.final, err)
	}
	opts.at("renamed")
	return nil
}

// renamed names the final file in an error about a temporary name, which says
// nothing to anybody.
func renamed(final string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return &fs.PathError{Op: "create", Path: final, Err: err}
}

// discard removes the draft. After publish it finds nothing to do.
func (d *draft) discard() {
	d.file.Close()
	os.Remove(d.file.Name())
}

// renameIfAbsent renames to a name that is free at the time of a look.
func renameIfAbsent(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

// syncDir makes the names in a folder last. Not every system and file system
// has a notion of that.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// checkTarget tells why the copy of the core must not be written to dst.
func checkTarget(dst string, core os.FileInfo, force bool) error {
	info, err := os.Lstat(dst)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if target, err := os.Stat(dst); err == nil && os.SameFile(target, core) {
		return fmt.Errorf("%s: is the core itself; a repaired copy needs a file of its own", dst)
	}
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%s: is a symbolic link; name the file to be written", dst)
	case mode.IsDir():
		return fmt.Errorf("%s: is a directory; name the file to be written", dst)
	case !mode.IsRegular():
		return fmt.Errorf("%s: is not a regular file, and a core cannot be written to it", dst)
	case !force:
		return &fs.PathError{Op: "write", Path: dst, Err: fs.ErrExist}
	}
	return nil
}
