package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/module"
)

// debugFiles is what a debugger must be told to find the files of the dead
// process, and no others.
type debugFiles struct {
	// exe is the program's file, empty where none was found.
	exe string
	// sysroot is the folder below which the process's paths are, empty for
	// this machine's own.
	sysroot string
	// libDirs are folders to search for a library that is not there.
	libDirs []string
	// debugDirs are folders with .build-id, beside the usual one.
	debugDirs []string
	// threadDB is the folder with a libthread_db of the process's own glibc,
	// empty where the debugger's own search will do.
	threadDB string
	// warnings say where the debugger will have another file than the right
	// one all the same.
	warnings []string
}

// noFiles is a sysroot without files: it keeps a debugger from taking this
// machine's libraries for the process's.
const noFiles = "/nonexistent"

const usualDebugDir = "/usr/lib/debug"

// findDebugFiles turns what package module found, and proved, into what a
// debugger can be told.
func findDebugFiles(set *module.Set, flags *fileFlags) debugFiles {
	var d debugFiles
	if exe := set.Executable(); exe != nil && exe.File != nil {
		d.exe = absolute(exe.File.Path)
	}
	libs := libraries(set)
	d.sysroot, d.libDirs = searchPath(libs, flags.sysroots)
	for _, m := range libs {
		switch path := d.taken(m); {
		case m.File == nil && path != "":
			d.warnings = append(d.warnings, fmt.Sprintf("the debugger will take %s for %s, which it is not", path, m))
		case m.File != nil && path == "":
			d.warnings = append(d.warnings, fmt.Sprintf("the debugger will not find %s, since %s has another name", m, m.File.Path))
		case m.File != nil && !sameFile(path, m.File.Path):
			d.warnings = append(d.warnings, fmt.Sprintf("the debugger will take %s for %s, which is %s", path, m, m.File.Path))
		}
	}
	d.debugDirs = debugDirs(flags)
	d.threadDB = ownThreadDB(set)
	return d
}

// libraries are the modules that the debugger looks for by itself, those that
// the loader lists.
func libraries(set *module.Set) []*module.Module {
	var out []*module.Module
	for _, m := range set.Modules {
		if !m.IsExecutable && !m.IsVDSO && m.Original == nil {
			out = append(out, m)
		}
	}
	return out
}

// searchPath gives the sysroot under which the right files are, and the folders
// of those that are not there. Where no sysroot is free of wrong files, there is
// none, and all are searched for by name.
func searchPath(libs []*module.Module, sysroots []string) (sysroot string, libDirs []string) {
	sysroot = noFiles
	for _, root := range append(slices.Clone(sysroots), "") {
		if !slices.ContainsFunc(libs, func(m *module.Module) bool { return misleads(m, root) }) {
			sysroot = root
			break
		}
	}
	if sysroot != "" {
		sysroot = absolute(sysroot)
	}
	for _, m := range libs {
		if m.File == nil || sysroot != noFiles && sameFile(under(sysroot, m), m.File.Path) {
			continue
		}
		if dir := filepath.Dir(absolute(m.File.Path)); !slices.Contains(libDirs, dir) {
			libDirs = append(libDirs, dir)
		}
	}
	return sysroot, libDirs
}

// misleads tells that there is a file under a sysroot at a module's path which
// is not the module's.
func misleads(m *module.Module, root string) bool {
	path := under(root, m)
	if _, err := os.Stat(path); path == "" || err != nil {
		return false
	}
	return m.File == nil || !sameFile(path, m.File.Path)
}

// taken is the file that a debugger which was told d takes for a module, empty
// for none.
func (d *debugFiles) taken(m *module.Module) string {
	paths := []string{under(d.sysroot, m)}
	for _, dir := range d.libDirs {
		paths = append(paths, filepath.Join(dir, filepath.Base(loaderName(m))))
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// under is where a debugger looks for a module first, empty where it has no
// absolute path.
func under(root string, m *module.Module) string {
	name := loaderName(m)
	if !filepath.IsAbs(name) {
		return ""
	}
	return filepath.Join(root, name)
}

// loaderName is the name by which debuggers know a module.
func loaderName(m *module.Module) string {
	if m.Name != "" {
		return m.Name
	}
	return strings.TrimSuffix(m.Path, " (deleted)")
}

// debugDirs are the folders with separate debug files that the flags imply.
func debugDirs(flags *fileFlags) []string {
	var out []string
	for _, dir := range flags.libDirs {
		out = append(out, absolute(dir))
	}
	for _, root := range flags.sysroots {
		out = append(out, absolute(filepath.Join(root, usualDebugDir)))
	}
	return slices.DeleteFunc(out, func(dir string) bool { return !isFolder(filepath.Join(dir, ".build-id")) })
}

// ownThreadDB is the folder of the process's own libc where that is not this
// machine's, if a libthread_db is with it.
func ownThreadDB(set *module.Set) string {
	db, err := set.ThreadDB()
	if err != nil || sameFile(db.Module.File.Path, under("", db.Module)) {
		return ""
	}
	dir := filepath.Dir(absolute(db.Module.File.Path))
	if _, err := os.Stat(filepath.Join(dir, "libthread_db.so.1")); err != nil {
		return ""
	}
	return dir
}

// sameFile tells whether two paths lead to one file, or to copies of one, as a
// library often is in lib and in usr/lib.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	switch {
	case err1 != nil || err2 != nil:
		return false
	case os.SameFile(x, y):
		return true
	}
	return x.Mode().IsRegular() && y.Mode().IsRegular() && x.Size() == y.Size() && sameContents(a, b)
}

func sameContents(a, b string) bool {
	f, err := os.Open(a)
	if err != nil {
		return false
	}
	defer f.Close()
	g, err := os.Open(b)
	if err != nil {
		return false
	}
	defer g.Close()
	var p, q [64 << 10]byte
	for {
		n, err1 := io.ReadFull(f, p[:])
		m, err2 := io.ReadFull(g, q[:])
		switch {
		case !bytes.Equal(p[:n], q[:m]):
			return false
		case err1 != nil:
			// Both end here, and nothing else is the matter.
			return err1 == err2 && (err1 == io.EOF || err1 == io.ErrUnexpectedEOF)
		}
	}
}

// absolute is for paths that are used in another folder, or another time.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
