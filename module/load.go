package module

import (
	"context"
	"debug/elf"
	"fmt"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// Load finds the modules of the process and a proven file for each that has
// one. The error is that of the context; all else that goes wrong is told by
// the modules' problems and the set's warnings.
func Load(ctx context.Context, core *elfcore.Core, cfg Config) (*Set, error) {
	p := newProcess(core)
	l := &loading{process: p, set: &Set{core: p, finder: newFinder(cfg)}, mapped: p.mapped()}
	if err := l.run(ctx); err != nil {
		l.set.Close()
		return nil, err
	}
	return l.set, nil
}

// loading is the state of one Load.
type loading struct {
	process
	set    *Set
	mapped *mapped
	// program is the image that AT_PHDR speaks of, nil where its headers are
	// neither in the core nor in a file.
	program *image
	// programFromFile tells that they were read from a file.
	programFromFile bool
}

func (l *loading) run(ctx context.Context) error {
	l.findProgram()
	loader := l.loaderRange()
	whole := l.addLinked(l.namespaces(l.programDynamic(), loader), loader.Start)
	l.addUnlinked(loader.Start, whole)
	l.addVDSO()
	if len(l.set.Modules) == 0 {
		l.warn(nil, "no mapped file is known: the core has no usable auxiliary vector (NT_AUXV) and no list of mapped files (NT_FILE)")
	}
	for _, m := range l.set.Modules {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.settle(m)
		if m.IsExecutable {
			l.set.makeIndex()
		}
	}
	for _, lib := range l.set.finder.libs {
		if lib.err != nil {
			l.warn(nil, "%v", lib.err)
		}
	}
	l.set.makeIndex()
	return nil
}

func (l *loading) warn(m *Module, format string, args ...any) {
	l.set.Warnings = append(l.set.Warnings, Warning{Module: m, Text: fmt.Sprintf(format, args...)})
}

// adopt takes over what the core has of a file's headers.
func (l *loading) adopt(m *Module, im *image) {
	m.Bias, m.BiasKnown = im.bias, true
	if im == l.program && l.programFromFile {
		m.setPrograms(im.programs, FromFile)
		return
	}
	m.image = im
	m.setPrograms(im.programs, FromCore)
	m.BuildID = im.buildID(l.process)
	if at, ok := im.dynamic(l.process); ok && m.Dynamic == 0 {
		m.Dynamic = at
	}
}

// base is where byte 0 of the module's file is mapped, 0 for unknown.
func (m *Module) base(p process) elfcore.Addr {
	if m.image != nil {
		return m.image.base
	}
	if len(m.mappings) > 0 && m.mappings[0].FileOffset == 0 {
		return m.mappings[0].Start
	}
	return m.Bias
}

// settle finds the file of a module, and fills from it what the core does not
// have.
func (l *loading) settle(m *Module) {
	switch {
	case m.IsVDSO:
		return
	case m.Original != nil:
		o := m.Original
		m.Path, m.Ranges, m.BuildID = o.Path, o.Ranges, o.BuildID
		m.Programs, m.ProgramsFrom, m.TLS = o.Programs, o.ProgramsFrom, o.TLS
		m.File, m.Problem, m.Rejected = o.File, o.Problem, o.Rejected
		return
	}
	if m.nameAt != 0 {
		l.nameFromFile(m)
	}
	l.set.finder.find(m)
	for _, c := range m.Rejected {
		if c.Problem.Kind != DebugOnly {
			l.warn(m, "%s (%s) is not used: %s", c.Path, c.How, c.Problem.Text)
		}
	}
	if m.File == nil {
		return
	}
	switch m.File.Proof {
	case Unproven:
		l.warn(m, "%s is used for names only: the core holds nothing to compare it with", m.File)
		return
	case ByMappings:
		l.warn(m, "%s is used for names only: it fits where the segments were mapped, but another build could too, and the core holds nothing else to compare it with", m.File)
		return
	}
	if m.ProgramsFrom == FromNowhere {
		m.setPrograms(m.File.Programs, FromFile)
	}
	if h, ok := program(m.File.Programs, elf.PT_DYNAMIC); ok && m.Dynamic == 0 && m.BiasKnown {
		m.Dynamic = l.sum(m.Bias, h.Vaddr)
	}
}

// nameFromFile reads a name that the core does not hold from the program's file:
// the loader is called by the path that the program asked for, which lies in
// memory that is not writable and often not dumped.
func (l *loading) nameFromFile(m *Module) {
	b := make([]byte, maxPath)
	n, _ := l.set.ReadMemory(b, m.nameAt)
	name, _, ended := strings.Cut(string(b[:n]), "\x00")
	if !ended {
		return
	}
	m.Name = name
	if m.Path == "" {
		m.Path = name
	}
}
