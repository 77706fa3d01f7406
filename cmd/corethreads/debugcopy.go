package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/corethreads/corethreads/fixup"
)

// nameless is a file for the debugger that nobody has to remove: it has no name
// and ends with this process, whatever ends that.
type nameless struct {
	file *os.File
	// name is not empty on systems where an open file keeps its name.
	name string
}

// newNameless creates one in dir, of mode 0600.
func newNameless(dir, pattern string) (*nameless, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return takeName(f), nil
}

// takeName removes the name of a file, where another process can open it
// without.
func takeName(f *os.File) *nameless {
	n := &nameless{file: f, name: f.Name()}
	if _, err := os.Stat(openPath(f)); err == nil && os.Remove(n.name) == nil {
		n.name = ""
	}
	return n
}

// path is where the debugger can open it, as long as this process lives.
func (n *nameless) path() string {
	if n.name != "" {
		return absolute(n.name)
	}
	return openPath(n.file)
}

func (n *nameless) close() {
	n.file.Close()
	if n.name != "" {
		os.Remove(n.name)
	}
}

// openPath is where another process can open a file that this one has open,
// by proc(5).
func openPath(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// repairedCopy makes the copy in the first folder that takes it: --tmp-dir,
// else that of the core, where a copy can share its blocks, else the usual one.
func (r *debugRun) repairedCopy() (*nameless, fixup.Method, error) {
	dirs := []string{filepath.Dir(r.Core.Path), os.TempDir()}
	if r.globals.tempDir != "" {
		dirs = []string{r.globals.tempDir}
	}
	var err error
	for _, dir := range dirs {
		var n *nameless
		var method fixup.Method
		if n, method, err = r.copyTo(dir); err == nil {
			return n, method, nil
		}
		if r.cmd.Context().Err() != nil {
			break
		}
	}
	return nil, "", fmt.Errorf("no repaired copy could be made (--tmp-dir names another place, --in-place does without): %w", err)
}

func (r *debugRun) copyTo(dir string) (*nameless, fixup.Method, error) {
	// The folder holds the copy's place until its name is taken away.
	place, err := os.MkdirTemp(dir, ".corethreads-debug-*")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(place)
	bar := newProgress(r.cmd.ErrOrStderr(), r.globals.progress)
	defer bar.done()
	path := filepath.Join(place, "core")
	res, err := fixup.Apply(r.cmd.Context(), r.Core.File(), path, r.plan, fixup.WriteOptions{Progress: func(done, total int64) {
		bar.show("copying "+coreName(r.path), done, total, done)
	}})
	if err != nil {
		return nil, "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	return takeName(f), res.Method, nil
}
