package module

import (
	"path/filepath"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// addUnlinked makes modules of what was mapped but has no link map: the program
// and the loader where there are no link maps, and whatever NT_FILE has.
//
// Where the link maps tell of all modules, what was mapped by hand must show
// that it is ELF.
func (l *loading) addUnlinked(loader elfcore.Addr, whole bool) {
	hasExe, hasLoader := l.set.Executable() != nil, l.set.Loader() != nil
	if !hasExe && (l.program != nil || l.Auxv[elfcore.AuxPhdr] != 0) {
		m := &Module{set: l.set, auxv: true}
		l.nameProgram(m)
		if l.program != nil {
			l.adopt(m, l.program)
		}
		// Of a loader that was run by hand, AT_PHDR is its own.
		m.IsLoader = isLoaderName(m.Path)
		m.IsExecutable = !m.IsLoader
		hasExe, hasLoader = hasExe || m.IsExecutable, hasLoader || m.IsLoader
		l.set.Modules = append([]*Module{m}, l.set.Modules...)
	}
	l.set.makeIndex()
	for _, g := range l.mapped.groups {
		if g.taken || l.set.At(g.mappings[0].Start) != nil || !g.loaded(l.process) || whole && g.image == nil {
			continue
		}
		m := &Module{set: l.set}
		m.belongsTo(g)
		if g.image != nil {
			l.adopt(m, g.image)
		}
		m.IsLoader = !hasLoader && (g.mappings[0].Start == loader || loader == 0 && isLoaderName(g.path))
		m.IsExecutable = !hasExe && l.isProgramName(g.path)
		hasExe, hasLoader = hasExe || m.IsExecutable, hasLoader || m.IsLoader
		l.set.Modules = append(l.set.Modules, m)
	}
}

// isLoaderName tells the usual names of loaders.
func isLoaderName(path string) bool {
	name := filepath.Base(path)
	for _, prefix := range []string{"ld-", "ld.so", "ld64."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isProgramName tells whether a file has the name of the process, of which the
// kernel keeps 15 bytes (TASK_COMM_LEN).
func (l *loading) isProgramName(path string) bool {
	if l.Process == nil || l.Process.Name == "" {
		return false
	}
	name := strings.TrimSuffix(filepath.Base(path), deleted)
	return name[:min(len(name), 15)] == l.Process.Name
}

// addVDSO marks the module of the vDSO, or makes one: a static program has no
// link map of it, and NT_FILE never has it.
func (l *loading) addVDSO() {
	base := elfcore.Addr(l.Auxv[elfcore.AuxSysinfo])
	if base == 0 {
		return
	}
	im, ok := l.image(base)
	for _, m := range l.set.Modules {
		if ok && m.image == nil && m.LinkMap != 0 && m.Bias == im.bias {
			if at, ok := im.dynamic(l.process); ok && at == m.Dynamic {
				l.adopt(m, im)
			}
		}
		if m.base(l.process) == base {
			m.IsVDSO = true
			return
		}
	}
	if !ok {
		return
	}
	m := &Module{set: l.set, IsVDSO: true, Path: "linux-vdso.so.1", Name: "linux-vdso.so.1"}
	l.adopt(m, im)
	l.set.Modules = append(l.set.Modules, m)
}
