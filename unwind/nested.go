package unwind

import (
	"debug/dwarf"
	"slices"
)

// functionsAt finds the functions of a unit that an address belongs to, the
// smallest first.
func (d *debugInfo) functionsAt(u *unit, pc uint64) []extent {
	found := find(u.functions, pc)
	if len(found) > 0 || u.nested != nil {
		return found
	}
	d.readNested(u)
	return find(u.functions, pc)
}

// maxNested bounds the entries of a unit that are gone through for functions in
// functions.
const maxNested = 1 << 22

// readNested finds the functions that stand in others, as those of lambdas and
// of local classes do. To go through the inside of all functions takes long: it
// is done when there is code of the unit that belongs to none of those outside.
func (d *debugInfo) readNested(u *unit) {
	u.nested = make(map[dwarf.Offset]bool)
	defer func() { sortExtents(u.functions) }()
	r := d.data.Reader()
	r.Seek(u.entry)
	if e, err := r.Next(); err != nil || e == nil || !e.Children {
		return
	}
	// function is the depth of the outermost function that is around.
	depth, function := 1, 0
	for n := 0; depth > 0 && n < maxNested; n++ {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == dwarf.TagCompileUnit || e.Tag == dwarf.TagPartialUnit {
			break
		}
		if e.Tag == 0 {
			depth--
			if depth == function {
				function = 0
			}
			continue
		}
		if e.Tag == dwarf.TagSubprogram {
			if function > 0 {
				u.functions = d.extents(u.functions, e)
				u.nested[e.Offset] = true
			} else if e.Children {
				function = depth
			}
		}
		if e.Children {
			depth++
		}
	}
}

// scopeName is the name of a namespace or class. With link-time optimization it
// stands in another entry.
func (d *debugInfo) scopeName(e *dwarf.Entry) string {
	named := e
	if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
		if other := d.entryAt(origin); other != nil {
			named = other
		}
	}
	name, ok := named.Val(dwarf.AttrName).(string)
	if !ok && e.Tag == dwarf.TagNamespace {
		return "(anonymous namespace)"
	}
	return name
}

// ownName is the name of a function that has code. One that stands in another
// function and is not in C has no name that is unique: then its symbol is better.
func (d *debugInfo) ownName(u *unit, e *dwarf.Entry) string {
	if _, ok := e.Val(dwarf.AttrLinkageName).(string); !ok && u.nested[e.Offset] && !u.isC {
		return ""
	}
	return d.nameOf(u, e)
}

// languageC are the numbers of C in DW_AT_language: C89, C, C99, C11 and C17.
var languageC = []int64{0x01, 0x02, 0x0c, 0x1d, 0x2c}

// isC tells whether a unit is in C.
func isC(e *dwarf.Entry) bool {
	n, ok := e.Val(dwarf.AttrLanguage).(int64)
	return ok && slices.Contains(languageC, n)
}
