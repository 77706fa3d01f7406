package module

import (
	"debug/elf"

	"github.com/corethreads/corethreads/elfcore"
)

// group is one mapping of a file: the entries of NT_FILE that one load made.
type group struct {
	path     string
	mappings []elfcore.Mapping
	// image is what the core holds of the file's headers, nil for nothing.
	image *image
	// taken tells that a module was made of it.
	taken bool
}

// mapped is NT_FILE by groups.
type mapped struct {
	core   *elfcore.Core
	groups []*group
	// of finds the group of an entry by its start.
	of map[elfcore.Addr]*group
}

// mapped sorts the entries of NT_FILE by the load that made them. A file that
// was loaded twice starts anew where the file offset returns to 0; old linkers
// map the first page of a small file twice in one load, so the extent of the
// image decides where the core holds its headers.
func (p process) mapped() *mapped {
	all := &mapped{core: p.Core, of: make(map[elfcore.Addr]*group)}
	last := make(map[string]*group)
	limit := make(map[*group]elfcore.Range)
	for _, m := range p.Mappings {
		g := last[m.Path]
		known := g != nil && limit[g].Len() > 0
		switch {
		case g == nil, known && !limit[g].Contains(m.Start), !known && m.FileOffset == 0:
			g = &group{path: m.Path}
			if m.FileOffset == 0 {
				if im, ok := p.image(m.Start); ok {
					g.image = im
					limit[g] = extent(p.ranges(im.programs, im.bias))
				}
			}
			last[m.Path] = g
			all.groups = append(all.groups, g)
		}
		g.mappings = append(g.mappings, m)
		all.of[m.Start] = g
	}
	return all
}

// ranges are the memory of the group's entries.
func (g *group) ranges() []elfcore.Range {
	out := make([]elfcore.Range, len(g.mappings))
	for i, m := range g.mappings {
		out[i] = m.Range
	}
	return out
}

// belongsTo makes a module one of a group: its memory is what NT_FILE has, until
// program headers tell more.
func (m *Module) belongsTo(g *group) {
	m.Path, m.mappings, m.Ranges = g.path, g.mappings, g.ranges()
	g.taken = true
}

// loaded tells whether a file was mapped to be run, and not to be read as data:
// part of it is executable, and where its start is in the core it is ELF.
func (g *group) loaded(p process) bool {
	if g.mappings[0].FileOffset != 0 {
		return false
	}
	if g.image == nil {
		var magic [4]byte
		if n, _ := p.ReadMemory(magic[:], g.mappings[0].Start); n == len(magic) && string(magic[:]) != elf.ELFMAG {
			return false
		}
	}
	for _, m := range g.mappings {
		if s, ok := p.Segment(m.Start); ok && s.Executable() {
			return true
		}
	}
	return false
}

// at finds the group that an address lies in, nil for none.
func (all *mapped) at(a elfcore.Addr) *group {
	m, ok := all.core.Mapping(a)
	if !ok {
		return nil
	}
	return all.of[m.Start]
}
