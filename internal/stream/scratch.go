package stream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// scratch is a sparse file in the making.
type scratch struct {
	*os.File
	dir  string
	keep string // the path it gets in the end; empty if it has no name at all
	size int64  // bytes so far, holes included

	// kept is set for a file that has been there under that name before: it
	// is only compared with, in buffer.
	kept   bool
	buffer []byte
}

// folders are the places to unpack into, best first. Cores are large and /tmp
// often lies in memory, so that /var/tmp comes before it.
func folders(beside string, opts Options) []string {
	if opts.TempDir != "" {
		return []string{opts.TempDir}
	}
	var dirs []string
	if beside != "" {
		dirs = append(dirs, beside)
	}
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return append(dirs, dir)
	}
	return append(dirs, "/var/tmp", "/tmp")
}

// newScratch creates the file in the first of dirs that takes it. A name is
// what the file gets in the end; without it the file never has one. A file that
// has the name already is taken to be compared with.
func newScratch(dirs []string, name string) (*scratch, error) {
	var refused []string
	for _, dir := range dirs {
		s := &scratch{dir: dir}
		if name != "" {
			s.keep = filepath.Join(dir, name)
			f, err := openKept(s.keep)
			if err != nil {
				return nil, err
			}
			if f != nil {
				s.File, s.kept = f, true
				return s, nil
			}
		}
		err := s.create()
		if err == nil {
			return s, nil
		}
		refused = append(refused, fmt.Sprintf("%s: %v", dir, err))
	}
	return nil, fmt.Errorf("cannot unpack the core (--tmp-dir names another place): %s", strings.Join(refused, "; "))
}

func (s *scratch) create() (err error) {
	if s.keep != "" {
		s.File, err = os.CreateTemp(s.dir, "."+filepath.Base(s.keep)+".*")
	} else {
		s.File, err = anonymous(s.dir)
	}
	if err == nil {
		if err = s.checkRoom(); err != nil {
			s.discard()
		}
	}
	// The name that CreateTemp made up says nothing to anybody.
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return err
}

// unlinked creates a file of mode 0600 in dir and takes its name away at once.
func unlinked(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".corethreads-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// finish gives the file its size and its name, if it is to have one.
func (s *scratch) finish() (path string, err error) {
	if s.kept {
		return s.compared()
	}
	if err := s.Truncate(s.size); err != nil {
		return "", s.failed(err)
	}
	if s.keep == "" {
		return "", nil
	}
	if err := renameToNew(s.Name(), s.keep); err != nil {
		return "", fmt.Errorf("%s cannot be kept: %w", s.keep, err)
	}
	return s.keep, nil
}

// linkToNew renames a file by a second name, which never replaces another file.
func linkToNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// discard is for a file that is not wanted any more.
func (s *scratch) discard() {
	if s.keep != "" && !s.kept {
		os.Remove(s.Name())
	}
	s.Close()
}
