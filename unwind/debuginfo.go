package unwind

import (
	"cmp"
	"debug/dwarf"
	"slices"
	"sort"
	"time"

	"github.com/corethreads/corethreads/module"
)

// debugInfo is the DWARF of a module by addresses. Of the compilation units
// only the ranges are read in the beginning; functions and lines are read for
// units that are on a stack.
type debugInfo struct {
	data  *dwarf.Data
	units []extent
	open  map[dwarf.Offset]*unit
	// calls are those of functions, by their entry; callEntries counts what was
	// read for them.
	calls       map[dwarf.Offset]*callSites
	callEntries int
	// chainEntries, rangesRead and rowsRead count what was read for inlined
	// functions, address ranges and lines.
	chainEntries, rangesRead, rowsRead int
	// rangeTime is how long the reading of ranges took.
	rangeTime time.Duration
}

// extent is an address range of a unit or of a function.
type extent struct {
	low, high uint64
	entry     dwarf.Offset
}

// unit is one compilation unit.
type unit struct {
	entry     dwarf.Offset
	functions []extent
	// nested are the functions that stand in others, nil where they have not
	// been looked for.
	nested map[dwarf.Offset]bool
	// scopes are the namespaces and classes around functions, by their entry.
	scopes map[dwarf.Offset]string
	lines  []lineRow
	// files are those of the line table, by number.
	files []*dwarf.LineFile
	// isC tells that the names in the source are those of the symbols.
	isC bool
}

// maxRanges bounds the ranges that are kept of one module, and of one unit.
const maxRanges = 1 << 22

// contained runs code of debug/dwarf, which is not meant for hostile input.
func contained(f func()) {
	defer func() {
		// What was read before stays; the rest has no names.
		_ = recover()
	}()
	f()
}

// openDebugInfo reads where the units of a module are; nil for no debugging
// information.
func openDebugInfo(m *module.Module) *debugInfo {
	data, units, err := m.DWARFUnits()
	if err != nil {
		return nil
	}
	d := &debugInfo{data: data, open: make(map[dwarf.Offset]*unit), calls: make(map[dwarf.Offset]*callSites)}
	contained(func() { d.readUnits(units) })
	if len(d.units) == 0 {
		return nil
	}
	sortExtents(d.units)
	return d
}

func sortExtents(x []extent) {
	slices.SortStableFunc(x, func(a, b extent) int { return cmp.Compare(a.low, b.low) })
}

// readUnits goes from one unit's header to the next; the entries in between are
// not read.
func (d *debugInfo) readUnits(entries []dwarf.Offset) {
	r := d.data.Reader()
	for _, offset := range entries {
		r.Seek(offset)
		e, err := r.Next()
		if err != nil || e == nil || len(d.units) > maxRanges {
			return
		}
		if e.Tag == dwarf.TagCompileUnit || e.Tag == dwarf.TagPartialUnit {
			d.units = d.extents(d.units, e)
		}
	}
}

// extents adds the address ranges of an entry.
func (d *debugInfo) extents(to []extent, e *dwarf.Entry) []extent {
	for _, r := range d.ranges(e) {
		// The linker sets the ranges of functions that it dropped to 0 or 1.
		if r[0] < r[1] && r[0] > 1 && len(to) < maxRanges {
			to = append(to, extent{r[0], r[1], e.Offset})
		}
	}
	return to
}

// maxRangesRead bounds the ranges that are read for all entries of a module, of
// which many can share a list that is long.
const maxRangesRead = 1 << 26

// maxRangeTime bounds how long that takes: a list can be long and have no range
// in it, which package dwarf does not tell. Half a million units take a second.
const maxRangeTime = 10 * time.Second

// ranges gives the address ranges of an entry.
func (d *debugInfo) ranges(e *dwarf.Entry) [][2]uint64 {
	if d.rangesRead > maxRangesRead || d.rangeTime > maxRangeTime {
		return nil
	}
	began := time.Now()
	ranges, err := d.data.Ranges(e)
	d.rangeTime += time.Since(began)
	if err != nil {
		return nil
	}
	d.rangesRead += len(ranges)
	return ranges
}

// find gives the extents that contain an address, the smallest first.
func find(x []extent, pc uint64) []extent {
	var out []extent
	after := sort.Search(len(x), func(i int) bool { return x[i].low > pc })
	for i := after - 1; i >= max(0, after-64); i-- {
		if pc < x[i].high {
			out = append(out, x[i])
		}
	}
	slices.SortStableFunc(out, func(a, b extent) int { return cmp.Compare(a.high-a.low, b.high-b.low) })
	return out
}

// unitOf reads the unit that starts at an entry.
func (d *debugInfo) unitOf(entry dwarf.Offset) *unit {
	u := d.open[entry]
	if u != nil {
		return u
	}
	u = &unit{entry: entry, scopes: make(map[dwarf.Offset]string)}
	d.open[entry] = u
	contained(func() {
		r := d.data.Reader()
		r.Seek(entry)
		e, err := r.Next()
		if err != nil || e == nil {
			return
		}
		u.isC = isC(e)
		d.readLines(u, e)
		d.readFunctions(u, r)
	})
	sortExtents(u.functions)
	return u
}

// maxScope bounds the nesting of namespaces and classes.
const maxScope = 64

// readFunctions goes through the entries of a unit. Functions stand in it and
// in its namespaces and types; the inside of a function is skipped.
func (d *debugInfo) readFunctions(u *unit, r *dwarf.Reader) {
	scopes := []string{""}
	for len(scopes) > 0 {
		e, err := r.Next()
		if err != nil || e == nil {
			return
		}
		scope := scopes[len(scopes)-1]
		switch e.Tag {
		case 0:
			scopes = scopes[:len(scopes)-1]
			continue
		case dwarf.TagSubprogram:
			u.functions = d.extents(u.functions, e)
			if scope != "" {
				u.scopes[e.Offset] = scope
			}
		case dwarf.TagCompileUnit, dwarf.TagPartialUnit:
			return
		case dwarf.TagNamespace, dwarf.TagClassType, dwarf.TagStructType, dwarf.TagModule, dwarf.TagUnionType:
			if e.Children && len(scopes) < maxScope {
				scopes = append(scopes, scope+d.scopeName(e)+"::")
				continue
			}
		}
		if left := maxNested; e.Children && !skipChildren(r, e, &left) {
			return
		}
	}
}

// functions names an address of the file. outer is what symbols tell of it.
func (d *debugInfo) functions(pc uint64, outer Function) []Function {
	for _, x := range find(d.units, pc) {
		u := d.unitOf(x.entry)
		var chain []inlined
		contained(func() {
			if f := d.functionsAt(u, pc); len(f) > 0 {
				chain = d.chain(u, f[0].entry, pc)
			}
		})
		file, line := lineAt(u.lines, pc)
		if len(chain) == 0 && line == 0 {
			continue
		}
		return join(chain, outer, file, line)
	}
	return []Function{outer}
}
