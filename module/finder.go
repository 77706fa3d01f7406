package module

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/corethreads/corethreads/elfcore"
)

// deleted is what the kernel puts behind the path of a file that was unlinked
// or replaced (fs/d_path.c).
const deleted = " (deleted)"

// memfdPrefix starts the path of a file of memfd_create(2), which no file
// system has.
const memfdPrefix = "/memfd:"

// byExe is the rule of the one candidate that must not be missing: it was asked
// for by name.
const byExe = "--exe"

// finder looks for files by the rules of a Config.
type finder struct {
	cfg  Config
	libs []*libDir
}

func newFinder(cfg Config) *finder {
	f := &finder{cfg: cfg}
	for _, dir := range cfg.LibDirs {
		f.libs = append(f.libs, &libDir{path: dir})
	}
	return f
}

// find tries the candidates for a module until one is certain, and sets File,
// Problem and Rejected. Of those that are not certain the first is taken where
// no other is. Where the bias is not known, the file gives it.
func (f *finder) find(m *Module) {
	tried := make(map[string]bool)
	var likely *match
	for path, how := range f.candidates(m) {
		if tried[path] {
			continue
		}
		tried[path] = true
		found, problem := f.try(m, path)
		switch {
		case problem != nil && problem.Kind == Missing && how != byExe:
		case problem != nil:
			m.Rejected = append(m.Rejected, Candidate{Path: path, How: how, Problem: problem})
		case found.file.Proof.Certain():
			found.file.How = how
			likely.close()
			m.take(found)
			return
		case likely == nil:
			found.file.How = how
			likely = found
		default:
			found.close()
		}
	}
	if likely != nil {
		m.take(likely)
		return
	}
	m.Problem = f.problem(m)
}

// match is a file that may be a module's, and the bias that the module then
// has.
type match struct {
	file      *File
	bias      elfcore.Addr
	biasKnown bool
}

func (x *match) close() {
	if x != nil {
		x.file.close()
	}
}

func (m *Module) take(x *match) {
	m.File = x.file
	if !m.BiasKnown && x.biasKnown {
		m.Bias, m.BiasKnown = x.bias, true
	}
}

// candidates gives the paths of a module's file, in the order in which they are
// to be tried, and by which rule. Not all of them exist.
func (f *finder) candidates(m *Module) iter.Seq2[string, string] {
	return func(yield func(path, how string) bool) {
		if m.IsExecutable && f.cfg.Exe != "" && !yield(f.cfg.Exe, byExe) {
			return
		}
		for _, lib := range f.libs {
			for _, name := range m.fileNames() {
				if !yield(filepath.Join(lib.path, name), "--lib-dir") {
					return
				}
			}
			for _, path := range lib.byBuildID(m.BuildID) {
				if !yield(path, "--lib-dir, by build-id") {
					return
				}
			}
		}
		for _, root := range f.cfg.Sysroots {
			for _, path := range m.recorded() {
				if !yield(filepath.Join(root, path), "--sysroot") {
					return
				}
			}
		}
		for _, path := range m.recorded() {
			if to, ok := f.remap(path); ok && !yield(to, "--map") {
				return
			}
		}
		if !f.cfg.NoHostFiles {
			for _, path := range m.recorded() {
				if !yield(path, "recorded path") {
					return
				}
			}
		}
		for _, root := range f.debugRoots() {
			if dir, name, ok := buildIDPath(m.BuildID); ok && !yield(filepath.Join(root, dir, name), "build-id") {
				return
			}
		}
		if path, ok := f.remote(m.BuildID, "executable"); ok {
			yield(path, "debuginfod")
		}
	}
}

// remote asks the Config's Remote for a file.
func (f *finder) remote(id BuildID, kind string) (path string, ok bool) {
	if f.cfg.Remote == nil || len(id) == 0 {
		return "", false
	}
	path, err := f.cfg.Remote(id.String(), kind)
	return path, err == nil
}

// recorded are the absolute paths that the core has for the module. What is
// relative was relative to a folder that no core names.
func (m *Module) recorded() []string {
	var out []string
	for _, path := range []string{m.Path, m.Name} {
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) || strings.HasPrefix(path, memfdPrefix) {
			continue
		}
		out = append(out, path)
		if bare, ok := strings.CutSuffix(path, deleted); ok {
			out = append(out, bare)
		}
	}
	return out
}

// fileNames are the names that the module's file can have in a folder.
func (m *Module) fileNames() []string {
	var out []string
	for _, path := range []string{m.Path, m.Name} {
		path = strings.TrimPrefix(strings.TrimSuffix(path, deleted), memfdPrefix)
		if name := filepath.Base(path); path != "" && filepath.IsLocal(name) {
			out = append(out, name)
		}
	}
	return out
}

// remap applies the first --map whose prefix fits.
func (f *finder) remap(path string) (string, bool) {
	for _, m := range f.cfg.PathMap {
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m.From, "/"))
		if ok && (rest == "" || rest[0] == '/') {
			return m.To + rest, true
		}
	}
	return "", false
}

// debugRoots are the folders for separate debug files.
func (f *finder) debugRoots() []string {
	const dir = "/usr/lib/debug"
	var out []string
	for _, root := range f.cfg.Sysroots {
		out = append(out, filepath.Join(root, dir))
	}
	if !f.cfg.NoHostFiles {
		out = append(out, dir)
	}
	return out
}

// buildIDPath is where a folder of debug files has those of a build-id: the
// file itself, and with .debug behind it its debug file
// (https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html).
func buildIDPath(id BuildID) (dir, name string, ok bool) {
	s := id.String()
	if len(s) < 4 {
		return "", "", false
	}
	return filepath.Join(".build-id", s[:2]), s[2:], true
}

// try opens a candidate and compares it with the module.
func (f *finder) try(m *Module, path string) (*match, *Problem) {
	file, err := openFile(path)
	if err != nil {
		return nil, openProblem(err)
	}
	bias, known, proof, problem := m.prove(file)
	if problem != nil {
		file.close()
		return nil, problem
	}
	file.Proof = proof
	return &match{file, bias, known}, nil
}

// openProblem says why a file could not be opened.
func openProblem(err error) *Problem {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	p := &Problem{Kind: Damaged, Text: err.Error()}
	switch {
	case errors.Is(err, errNotELF):
		p.Kind = NotELF
	case errors.Is(err, fs.ErrPermission):
		p.Kind, p.Text = NoPermission, "it may not be read; run as a user who may"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		p.Kind = Missing
	}
	return p
}

// problem says why a module has no file, by the first candidate that there was.
func (f *finder) problem(m *Module) *Problem {
	id := ""
	if m.BuildID != nil {
		id = fmt.Sprintf(" with build-id %s", m.BuildID)
	}
	remedy := "give the folder of the file by --lib-dir, or the file system of the process by --sysroot"
	if m.IsExecutable {
		remedy = "give the file by --exe, or its folder by --lib-dir"
	}
	for _, c := range m.Rejected {
		if c.Problem.Kind == DebugOnly {
			continue
		}
		return &Problem{Kind: c.Problem.Kind, Text: fmt.Sprintf("%s (%s) is not it: %s; the file%s is needed: %s", c.Path, c.How, c.Problem.Text, id, remedy)}
	}
	what := "no file was found for it"
	switch {
	case strings.HasPrefix(m.Path, memfdPrefix):
		what = "it was only in memory (memfd_create)"
	case strings.HasSuffix(m.Path, deleted):
		what = "the file had been removed or replaced while it was mapped"
	}
	return &Problem{Kind: Missing, Text: fmt.Sprintf("%s; the file%s is needed: %s", what, id, remedy)}
}
