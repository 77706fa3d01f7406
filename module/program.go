package module

import (
	"debug/elf"

	"github.com/corethreads/corethreads/elfcore"
)

// findProgram finds the program's headers: in the core, else in its file.
func (l *loading) findProgram() {
	if im, ok := l.programImage(); ok {
		l.program = im
		return
	}
	if l.Auxv[elfcore.AuxPhdr] == 0 && l.Auxv[elfcore.AuxEntry] == 0 {
		l.findProgramByName()
		return
	}
	m := &Module{set: l.set, IsExecutable: true, auxv: true}
	l.nameProgram(m)
	l.set.finder.find(m)
	if m.File == nil {
		return
	}
	defer m.File.close()
	if !m.File.Proof.Certain() || !m.BiasKnown {
		return
	}
	im := &image{programs: m.File.Programs, bias: m.Bias}
	if first, ok := l.firstLoad(im.programs); ok {
		im.base = l.sum(im.bias, uint64(first))
	}
	l.program, l.programFromFile = im, true
}

// findProgramByName finds the program's headers where the core has no auxiliary
// vector.
func (l *loading) findProgramByName() {
	for _, g := range l.mapped.groups {
		if g.image != nil && l.isProgramName(g.path) && g.loaded(l.process) {
			l.program = g.image
			return
		}
	}
}

// nameProgram sets the path of the program's module.
func (l *loading) nameProgram(m *Module) {
	places := []elfcore.Addr{elfcore.Addr(l.Auxv[elfcore.AuxPhdr]), elfcore.Addr(l.Auxv[elfcore.AuxEntry])}
	if l.program != nil {
		places = append(places, l.program.base)
	}
	for _, at := range places {
		if g := l.mapped.at(at); g != nil {
			m.belongsTo(g)
			return
		}
	}
	if at, ok := l.Auxv[elfcore.AuxExecFn]; ok {
		m.Path, _ = l.name(elfcore.Addr(at))
	}
}

// programImage reads the image that AT_PHDR speaks of: the program's, or the
// loader's where that was run by hand (ld.so ./prog). It is false where the core
// does not hold the program headers.
func (p process) programImage() (*image, bool) {
	at, ok := p.Auxv[elfcore.AuxPhdr]
	if !ok {
		return nil, false
	}
	phdr := elfcore.Addr(at)
	base := elfcore.Addr(p.pageDown(at))
	if im, ok := p.image(base); ok && p.sum(base, im.header.Phoff) == phdr {
		return im, true
	}
	// The headers need not stand in the first page, as after patchelf.
	l := p.layout()
	n := p.Auxv[elfcore.AuxPhnum]
	if n == 0 || n > maxPrograms || p.Auxv[elfcore.AuxPhent] != uint64(l.programSize()) {
		return nil, false
	}
	b := make([]byte, int(n)*l.programSize())
	if _, err := p.ReadMemory(b, phdr); err != nil {
		return nil, false
	}
	im := &image{programs: l.programs(b)}
	self, ok := program(im.programs, elf.PT_PHDR)
	if !ok {
		return nil, false
	}
	im.bias = p.difference(phdr, elfcore.Addr(self.Vaddr))
	first, ok := p.firstLoad(im.programs)
	if !ok {
		return nil, false
	}
	im.base = p.sum(im.bias, uint64(first))
	if whole, ok := p.image(im.base); ok && whole.bias == im.bias {
		im.header = whole.header
	}
	return im, true
}

// interpreter tells whether the program asks for a loader.
func (im *image) interpreter() bool {
	_, ok := program(im.programs, elf.PT_INTERP)
	return ok
}

// programDynamic is where the program's dynamic section is, 0 for unknown.
func (l *loading) programDynamic() elfcore.Addr {
	if l.program == nil {
		return 0
	}
	at, ok := l.program.dynamic(l.process)
	if !ok {
		return 0
	}
	return at
}

// interpreterPath is the path of the loader that the program asks for, empty
// where the core does not hold it.
func (l *loading) interpreterPath() string {
	if l.program == nil {
		return ""
	}
	h, ok := program(l.program.programs, elf.PT_INTERP)
	if !ok {
		return ""
	}
	path, _ := l.name(l.sum(l.program.bias, h.Vaddr))
	return path
}

// loaderRange is the memory of the loader's image, empty for none. AT_BASE
// tells where it is; where the loader was run by hand (ld.so ./prog), AT_PHDR is
// of the loader itself. A static program looks the same, and is its own loader
// as far as link maps go.
func (l *loading) loaderRange() elfcore.Range {
	base := elfcore.Addr(l.Auxv[elfcore.AuxBase])
	im := l.program
	switch {
	case base != 0:
		im, _ = l.image(base)
	case im != nil && im.interpreter():
		return elfcore.Range{}
	case im != nil:
		base = im.base
	default:
		base = elfcore.Addr(l.pageDown(l.Auxv[elfcore.AuxPhdr]))
	}
	size := uint64(unknownLoaderImage)
	if im != nil {
		size = min(maxLoaderImage, extent(l.ranges(im.programs, im.bias)).Len())
	}
	end, ok := base.Add(size + loaderSlack)
	if base == 0 || !ok {
		return elfcore.Range{}
	}
	return elfcore.Range{Start: base, End: end}
}
