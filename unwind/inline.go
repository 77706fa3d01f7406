package unwind

import (
	"debug/dwarf"
)

// inlined is a function of an inline tree, with the place of its call in the
// one around it.
type inlined struct {
	name string
	// callFile and callLine are where it was called, nil and 0 for unknown.
	callFile *dwarf.LineFile
	callLine int
}

const (
	// maxInlined bounds the depth of inlining, maxEntries the entries of one
	// function that are looked at, and maxChainEntries those of all of a module.
	maxInlined      = 256
	maxEntries      = 1 << 20
	maxChainEntries = 1 << 26
)

// chain gives the functions at an address, from the one at an entry inwards.
func (d *debugInfo) chain(u *unit, entry dwarf.Offset, pc uint64) []inlined {
	r := d.data.Reader()
	r.Seek(entry)
	e, err := r.Next()
	if err != nil || e == nil || e.Tag != dwarf.TagSubprogram {
		return nil
	}
	out := []inlined{{name: d.ownName(u, e)}}
	if !e.Children {
		return out
	}
	most := min(maxEntries, maxChainEntries-d.chainEntries)
	depth, left := 1, most
	defer func() { d.chainEntries += most - left }()
	for depth > 0 && left > 0 && len(out) < maxInlined {
		e, err := r.Next()
		if err != nil || e == nil {
			return out
		}
		left--
		switch e.Tag {
		case 0:
			depth--
			continue
		case dwarf.TagInlinedSubroutine:
			if d.covers(e, pc) {
				x := inlined{name: d.nameOf(u, e)}
				if n, ok := e.Val(dwarf.AttrCallFile).(int64); ok && n >= 0 && n < int64(len(u.files)) {
					x.callFile = u.files[n]
				}
				if n, ok := e.Val(dwarf.AttrCallLine).(int64); ok {
					x.callLine = int(n)
				}
				out = append(out, x)
				if !e.Children {
					return out
				}
				// What else there is at this depth does not cover the address.
				depth = 1
				continue
			}
		case dwarf.TagLexDwarfBlock:
			if e.Children {
				depth++
			}
			continue
		}
		if e.Children && !skipChildren(r, e, &left) {
			return out
		}
	}
	return out
}

func (d *debugInfo) covers(e *dwarf.Entry, pc uint64) bool {
	for _, r := range d.ranges(e) {
		if pc >= r[0] && pc < r[1] {
			return true
		}
	}
	return false
}

// maxOrigins bounds the references from an entry to the one with its name.
const maxOrigins = 8

// nameOf gives a function's linkage name, else its name in the source with
// the namespaces and classes around it.
func (d *debugInfo) nameOf(u *unit, e *dwarf.Entry) string {
	name, scope := "", ""
	for range maxOrigins {
		if s, ok := e.Val(dwarf.AttrLinkageName).(string); ok {
			return s
		}
		if s, ok := e.Val(dwarf.AttrName).(string); ok && name == "" {
			name = s
		}
		if s := u.scopes[e.Offset]; scope == "" {
			scope = s
		}
		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			origin, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		if !ok {
			break
		}
		r := d.data.Reader()
		r.Seek(origin)
		next, err := r.Next()
		if err != nil || next == nil {
			break
		}
		e = next
	}
	if name == "" {
		return ""
	}
	return scope + name
}

// join puts the inline tree and the line table together: the line table says where in
// the innermost function the address is, and each call says where in the one
// around it.
func join(chain []inlined, outer Function, file string, line int) []Function {
	if len(chain) == 0 {
		outer.File, outer.Line = file, line
		return []Function{outer}
	}
	if chain[0].name != "" {
		outer.Name = chain[0].name
	}
	var out []Function
	for i := len(chain) - 1; i > 0; i-- {
		f := outer
		f.Name, f.Offset, f.HasOffset, f.Inlined = chain[i].name, 0, false, true
		f.File, f.Line = file, line
		out = append(out, f)
		file, line = "", chain[i].callLine
		if chain[i].callFile != nil {
			file = chain[i].callFile.Name
		}
	}
	outer.File, outer.Line = file, line
	return append(out, outer)
}
