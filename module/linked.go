package module

import (
	"sort"

	"github.com/corethreads/corethreads/elfcore"
)

// addLinked makes a module of every link map. It tells whether these are all
// modules of the process, as far as can be seen.
func (l *loading) addLinked(all []namespace, loader elfcore.Addr) (whole bool) {
	interpreter := l.interpreterPath()
	byMap := make(map[elfcore.Addr]*Module)
	byDynamic := make(map[elfcore.Addr]*Module)
	whole = len(all) > 0
	for _, n := range all {
		if n.broken != "" {
			whole = false
			l.warn(nil, "%s breaks after %d maps: %s; modules behind that are known by NT_FILE only", n.describe(), len(n.maps), n.broken)
		}
		for i, lm := range n.maps {
			m := l.linked(lm, n.number, byMap, byDynamic)
			m.IsExecutable = i == 0 && n.number == 0
			l.locate(m)
			m.IsLoader = !m.IsExecutable && (loader != 0 && m.base(l.process) == loader || interpreter != "" && m.Name == interpreter)
			l.set.Modules = append(l.set.Modules, m)
		}
	}
	exe := l.set.Executable()
	if exe == nil {
		return false
	}
	l.checkProgram(exe)
	if whole && l.program != nil && l.program.interpreter() && l.set.Loader() == nil {
		whole = false
		l.warn(nil, "%s has no map of the loader, as every whole one has: it is cut; more modules are known by NT_FILE only", all[0].describe())
	}
	return whole
}

// linked makes the module of one link map.
func (l *loading) linked(lm linkMap, number int, byMap, byDynamic map[elfcore.Addr]*Module) *Module {
	m := &Module{set: l.set, LinkMap: lm.at, Namespace: number}
	var err error
	if m.Name, err = l.name(lm.name); err != nil {
		m.nameAt = lm.name
	}
	own := lm
	if o := l.originalOf(lm); o != nil {
		own = *o
		m.Original = byMap[o.at]
	}
	m.Bias, m.BiasKnown, m.Dynamic = own.addr, true, own.dynamic
	if m.Original == nil && m.Dynamic != 0 {
		m.Original = byDynamic[m.Dynamic]
	}
	byMap[m.LinkMap] = m
	if m.Original == nil && m.Dynamic != 0 {
		byDynamic[m.Dynamic] = m
	}
	return m
}

// locate finds what the core has of a module with a link map: its entries of
// NT_FILE, its headers, its build-id.
func (l *loading) locate(m *Module) {
	g := l.mapped.at(m.Dynamic)
	if g != nil {
		m.belongsTo(g)
	} else {
		m.Path = m.Name
	}
	// The header page is where byte 0 of the file is mapped: nearly always at
	// the bias.
	bases := []elfcore.Addr{m.Bias}
	if g != nil {
		bases = append(bases, g.mappings[0].Start)
	}
	if m.IsExecutable && l.program != nil {
		if at, ok := l.program.dynamic(l.process); ok && at == m.Dynamic || !ok && m.Dynamic == 0 {
			m.auxv = true
			if m.Path == "" {
				l.nameProgram(m)
			}
			l.adopt(m, l.program)
			return
		}
	}
	for _, base := range append(bases, l.segmentsBelow(m.Dynamic)...) {
		if im, ok := l.image(base); ok && im.bias == m.Bias {
			if at, ok := im.dynamic(l.process); ok && at == m.Dynamic {
				l.adopt(m, im)
				return
			}
		}
	}
}

// segmentsBelow are the starts of the segments of the core that lie in front of
// an address, nearest first: one is that of the file's byte 0, also where a
// prelinked module has no bias and the core no NT_FILE.
func (l *loading) segmentsBelow(a elfcore.Addr) []elfcore.Addr {
	const most = 8 // a module has two to six
	after := sort.Search(len(l.Segments), func(i int) bool { return l.Segments[i].Start > a })
	var out []elfcore.Addr
	for i := after - 1; i >= max(0, after-most); i-- {
		out = append(out, l.Segments[i].Start)
	}
	return out
}

// checkProgram compares the first link map with what the kernel says of the
// program.
func (l *loading) checkProgram(exe *Module) {
	if exe.auxv {
		return
	}
	byHand := l.Auxv[elfcore.AuxBase] == 0 && (l.program == nil || !l.program.interpreter())
	if l.program != nil && !byHand {
		l.warn(exe, "the first link map (%s, dynamic section at %s) is not of the program that AT_PHDR speaks of: one of them is damaged", exe, exe.Dynamic)
		return
	}
	if byHand {
		return
	}
	exe.auxv = true
	if exe.Path == "" {
		l.nameProgram(exe)
	}
}
