package module

import (
	"bytes"
	"debug/elf"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"path/filepath"
)

// DebugFile is the separate debug file of the module, nil where there is none
// or the file itself has symbols and debugging information. It is looked for
// when it is asked for first: by build-id, then by .gnu_debuglink.
func (m *Module) DebugFile() *File {
	m.debugOnce.Do(func() {
		if m.Original != nil {
			m.debug = m.Original.DebugFile()
			return
		}
		if m.IsVDSO || m.File != nil && m.File.hasDebug() && m.File.has(".symtab") {
			return
		}
		m.debug = m.set.finder.findDebug(m)
	})
	return m.debug
}

// has tells whether the file has a section with contents.
func (f *File) has(name string) bool {
	for _, s := range f.Sections {
		if (s.Name == name || s.Name == packedName(name)) && s.Type != elf.SHT_NOBITS && s.Size > 0 {
			return true
		}
	}
	return false
}

func (f *File) hasDebug() bool { return f.has(".debug_info") }

// findDebug tries the candidates for a separate debug file.
func (f *finder) findDebug(m *Module) *File {
	id := m.BuildID
	if id == nil && m.File != nil {
		id = m.File.BuildID
	}
	if id != nil {
		for path, how := range f.debugByID(m, id) {
			if d := tryDebug(m, path); d != nil {
				if d.BuildID.Equal(id) {
					d.How, d.Proof = how, ByBuildID
					return d
				}
				d.close()
			}
		}
	}
	if m.File == nil {
		return nil
	}
	name, sum, ok := m.File.debugLink()
	if !ok {
		return nil
	}
	for path := range f.debugByLink(m, name) {
		d := tryDebug(m, path)
		if d == nil {
			continue
		}
		d.How = ".gnu_debuglink"
		switch {
		case id != nil && d.BuildID != nil:
			d.Proof = ByBuildID
			if d.BuildID.Equal(id) {
				return d
			}
		case d.hasChecksum(sum):
			d.Proof = ByChecksum
			return d
		}
		d.close()
	}
	return nil
}

// tryDebug opens a file that can serve as a separate debug file.
func tryDebug(m *Module, path string) *File {
	if m.File != nil && path == m.File.Path {
		return nil
	}
	d, err := openFile(path)
	if err != nil {
		return nil
	}
	if !m.set.core.matches(d.header) || !d.hasDebug() && !d.has(".symtab") {
		d.close()
		return nil
	}
	return d
}

// debugByID gives the paths that a debug file with a build-id can have.
func (f *finder) debugByID(m *Module, id BuildID) iter.Seq2[string, string] {
	return func(yield func(path, how string) bool) {
		for _, c := range m.Rejected {
			if c.Problem.Kind == DebugOnly && !yield(c.Path, c.How) {
				return
			}
		}
		for _, lib := range f.libs {
			for _, path := range lib.byBuildID(id) {
				if !yield(path, "--lib-dir, by build-id") {
					return
				}
			}
		}
		dir, name, ok := buildIDPath(id)
		if !ok {
			return
		}
		for _, root := range f.debugRoots() {
			if !yield(filepath.Join(root, dir, name+".debug"), "build-id") {
				return
			}
		}
		if path, ok := f.remote(id, "debuginfo"); ok {
			yield(path, "debuginfod")
		}
	}
}

// debugByLink gives the paths that a debug file of a name can have
// (https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html).
func (f *finder) debugByLink(m *Module, name string) iter.Seq[string] {
	return func(yield func(path string) bool) {
		dir := filepath.Dir(m.File.Path)
		dirs := []string{dir, filepath.Join(dir, ".debug")}
		for _, root := range f.debugRoots() {
			for _, path := range m.recorded() {
				dirs = append(dirs, filepath.Join(root, filepath.Dir(path)))
			}
		}
		for _, lib := range f.libs {
			dirs = append(dirs, lib.path)
		}
		for _, dir := range dirs {
			if !yield(filepath.Join(dir, name)) {
				return
			}
		}
	}
}

// debugLink reads .gnu_debuglink: a file name, padded with NULs to a multiple
// of 4, and the CRC-32 of the file.
func (f *File) debugLink() (name string, sum uint32, ok bool) {
	for _, s := range f.Sections {
		if s.Name != ".gnu_debuglink" {
			continue
		}
		b := make([]byte, min(s.Size, maxPath))
		n, _ := f.plain(s).ReadAt(b, 0)
		b = b[:n]
		end := bytes.IndexByte(b, 0)
		at := (end + 4) &^ 3
		if end <= 0 || at+4 > len(b) || !filepath.IsLocal(string(b[:end])) {
			return "", 0, false
		}
		return string(b[:end]), f.header.order.Uint32(b[at:]), true
	}
	return "", 0, false
}

// hasChecksum tells whether the CRC-32 of the whole file is the one that
// .gnu_debuglink has.
func (f *File) hasChecksum(want uint32) bool {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, io.NewSectionReader(f.r, 0, f.Size))
	return err == nil && n == f.Size && sum.Sum32() == want
}

// String names the file and how it was found.
func (f *File) String() string { return fmt.Sprintf("%s (%s)", f.Path, f.How) }
