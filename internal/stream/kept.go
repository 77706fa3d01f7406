package stream

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// KeptError says that the name for Options.Keep belongs to a file that is not
// what this call would have unpacked.
type KeptError struct {
	Path string
	Why  string
}

// Error gives both.
func (e *KeptError) Error() string {
	return fmt.Sprintf("%s exists already, and %s: name it if it is the core that you mean, else move it away, or unpack into another folder (--tmp-dir)", e.Path, e.Why)
}

// openKept opens a file that an earlier call may have kept, for reading; nil
// where there is none. Nobody else may be able to put another core there.
func openKept(path string) (*os.File, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, nil
	}
	switch {
	case !named.Mode().IsRegular():
		return nil, &KeptError{path, "is no plain file"}
	case !ours(named):
		return nil, &KeptError{path, "others can write it"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if opened, err := f.Stat(); err != nil || !os.SameFile(named, opened) {
		f.Close()
		return nil, &KeptError{path, "is being replaced"}
	}
	return f, nil
}

// remembered finds the file that an earlier call unpacked the same core into,
// by what was noted then, nil where that does not prove it.
func remembered(core fs.FileInfo, dirs []string, name string) *os.File {
	for _, dir := range dirs {
		f, err := openKept(filepath.Join(dir, name))
		switch {
		case err != nil:
			return nil
		case f == nil:
			continue
		case recalls(f, core):
			return f
		}
		f.Close()
		return nil
	}
	return nil
}

// compare is append for a file that is there already: p must be what it goes on
// with.
func (s *scratch) compare(p []byte) error {
	if cap(s.buffer) < len(p) {
		s.buffer = make([]byte, len(p))
	}
	there := s.buffer[:len(p)]
	n, _ := s.ReadAt(there, s.size) // what cannot be read is not equal
	if !bytes.Equal(there[:n], p) {
		same := 0
		for same < n && there[same] == p[same] {
			same++
		}
		return &KeptError{s.keep, fmt.Sprintf("is not this core unpacked: they differ from byte %d on", s.size+int64(same))}
	}
	s.size += int64(n)
	return nil
}

// compared is finish for a file that is there already.
func (s *scratch) compared() (path string, err error) {
	info, err := s.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() != s.size {
		return "", &KeptError{s.keep, fmt.Sprintf("is not this core unpacked: it has %d bytes, and should have %d", info.Size(), s.size)}
	}
	return s.keep, nil
}
