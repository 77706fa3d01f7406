package tls

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// types reads as much of a module's debug information as members take. It works
// on entries, since package dwarf leaves base classes out of its types.
type types struct {
	data  *dwarf.Data
	order binary.ByteOrder
}

// maxTypeDepth bounds typedefs of typedefs, and maxTypes the classes in a class.
const (
	maxTypeDepth = 32
	maxTypes     = 1000
)

// variable finds the type of a variable, and the source file that it is in: by
// its linkage name, or by the name in source where GCC made name.N of that. Of
// several it is the one that lies at the variable's place in its block, as far as
// the debug information tells.
func (t *types) variable(v *Variable) (typ dwarf.Offset, unit string, ok bool) {
	r := t.data.Reader()
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return 0, "", false
		}
		if e.Tag == dwarf.TagCompileUnit {
			unit, _ = e.Val(dwarf.AttrName).(string)
		}
		if e.Tag != dwarf.TagVariable {
			continue
		}
		linkage, _ := e.Val(dwarf.AttrLinkageName).(string)
		name, _ := e.Val(dwarf.AttrName).(string)
		typ, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if spec, has := e.Val(dwarf.AttrSpecification).(dwarf.Offset); has {
			if d, err := t.entry(spec); err == nil {
				if inherited, has := d.Val(dwarf.AttrType).(dwarf.Offset); has && !ok {
					typ, ok = inherited, true
				}
				if declared, has := d.Val(dwarf.AttrLinkageName).(string); has {
					linkage = declared
				}
			}
		}
		if linkage == "" {
			linkage = name
		}
		if !ok || linkage != v.Linkage && !numbered(v.Linkage, name) {
			continue
		}
		if at, told := t.place(e); !told || at == v.Offset {
			return typ, unit, true
		}
	}
}

// place is where a thread-local variable is in its module's block: its location
// is DW_OP_const4u or const8u, then DW_OP_form_tls_address or
// DW_OP_GNU_push_tls_address. Some compilers leave it out.
func (t *types) place(e *dwarf.Entry) (uint64, bool) {
	const const4u, const8u = 0x0c, 0x0e
	switch b, _ := e.Val(dwarf.AttrLocation).([]byte); {
	case len(b) == 6 && b[0] == const4u:
		return uint64(t.order.Uint32(b[1:])), true
	case len(b) == 10 && b[0] == const8u:
		return t.order.Uint64(b[1:]), true
	}
	return 0, false
}

func (t *types) entry(off dwarf.Offset) (*dwarf.Entry, error) {
	r := t.data.Reader()
	r.Seek(off)
	e, err := r.Next()
	if err == nil && e == nil {
		err = errors.New("the debug information ends inside a type")
	}
	return e, err
}

// resolve follows typedefs and qualifiers, and a declaration to its definition.
func (t *types) resolve(off dwarf.Offset) (*dwarf.Entry, error) {
	for range maxTypeDepth {
		e, err := t.entry(off)
		if err != nil {
			return nil, err
		}
		switch e.Tag {
		case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType, dwarf.TagAtomicType:
			next, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
			if !ok {
				return e, nil
			}
			off = next
		case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
			if declared, _ := e.Val(dwarf.AttrDeclaration).(bool); declared {
				return t.definition(e)
			}
			return e, nil
		default:
			return e, nil
		}
	}
	return nil, errors.New("the debug information has a type that refers to itself")
}

// skipChildren reads past what belongs to an entry, and is false where that does
// not end. Unlike the Reader's own SkipChildren it follows no reference to the
// next entry, which in damaged debug information can lead back, and does not
// recurse.
func skipChildren(r *dwarf.Reader, e *dwarf.Entry) bool {
	depth := 0
	for {
		switch {
		case e.Tag == 0:
			depth--
		case e.Children:
			depth++
		}
		if depth <= 0 {
			return true
		}
		var err error
		if e, err = r.Next(); err != nil || e == nil {
			return false
		}
	}
}

// definition finds the type that an entry only declares, by its full name: it is
// defined in another source file.
func (t *types) definition(declared *dwarf.Entry) (*dwarf.Entry, error) {
	name := t.name(declared)
	found := make(map[string]*dwarf.Entry)
	want := ""
	var unit dwarf.Offset
	var scopes []string
	for r := t.data.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		scope, _ := e.Val(dwarf.AttrName).(string)
		switch e.Tag {
		case 0:
			scopes = scopes[:max(len(scopes)-1, 0)]
			continue
		case dwarf.TagCompileUnit:
			scope, unit, scopes = "", e.Offset, nil
		case dwarf.TagNamespace:
			if scope == "" { // its types are those of one source file
				scope = fmt.Sprintf("(%#x)", unit)
			}
		case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
			if scope != name {
				break
			}
			full := strings.Join(append(scopes, name), "::")
			if e.Offset == declared.Offset {
				want = full
			}
			if incomplete, _ := e.Val(dwarf.AttrDeclaration).(bool); !incomplete && found[full] == nil && len(found) < maxTypes {
				found[full] = e
			}
		case dwarf.TagSubprogram:
			if !skipChildren(r, e) {
				return nil, errors.New("the debug information ends inside a function")
			}
			continue
		}
		if e.Children {
			scopes = append(scopes, scope)
		}
	}
	if e := found[want]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("the debug information declares the type %s but does not define it", name)
}

// find looks for a member in a structure, in its nameless members and in its
// base classes.
func (t *types) find(typ *dwarf.Entry, member string) (offset uint64, of dwarf.Offset, ok bool) {
	return t.findIn(typ, member, make(map[dwarf.Offset]bool))
}

// findIn leaves out the structures that it has looked at: damaged debug
// information can have some that contain themselves.
func (t *types) findIn(typ *dwarf.Entry, member string, seen map[dwarf.Offset]bool) (offset uint64, of dwarf.Offset, ok bool) {
	if !typ.Children || seen[typ.Offset] || len(seen) > maxTypes {
		return 0, 0, false
	}
	seen[typ.Offset] = true
	r := t.data.Reader()
	r.Seek(typ.Offset)
	if _, err := r.Next(); err != nil {
		return 0, 0, false
	}
	type nested struct {
		at uint64
		of dwarf.Offset
	}
	var inner []nested
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 {
			break
		}
		if !skipChildren(r, e) {
			break
		}
		of, typed := e.Val(dwarf.AttrType).(dwarf.Offset)
		if e.Tag != dwarf.TagMember && e.Tag != dwarf.TagInheritance || !typed {
			continue
		}
		at, _ := e.Val(dwarf.AttrDataMemberLoc).(int64)
		name, named := e.Val(dwarf.AttrName).(string)
		if named && name == member {
			return uint64(at), of, true
		}
		if !named || e.Tag == dwarf.TagInheritance {
			inner = append(inner, nested{uint64(at), of})
		}
	}
	for _, n := range inner {
		base, err := t.resolve(n.of)
		if err != nil {
			continue
		}
		if at, of, ok := t.findIn(base, member, seen); ok {
			return n.at + at, of, true
		}
	}
	return 0, 0, false
}

// size is that of a type in bytes, 0 where it cannot be told.
func (t *types) size(typ *dwarf.Entry, word uint64) uint64 {
	if n, ok := typ.Val(dwarf.AttrByteSize).(int64); ok && n >= 0 {
		return uint64(n)
	}
	switch typ.Tag {
	case dwarf.TagPointerType, dwarf.TagReferenceType:
		return word
	case dwarf.TagArrayType:
		of, ok := typ.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			return 0
		}
		element, err := t.resolve(of)
		if err != nil || element.Tag == dwarf.TagArrayType {
			return 0
		}
		return t.size(element, word) * t.count(typ)
	}
	return 0
}

// count is how many elements an array has, over all of its dimensions.
func (t *types) count(array *dwarf.Entry) uint64 {
	r := t.data.Reader()
	r.Seek(array.Offset)
	if _, err := r.Next(); err != nil || !array.Children {
		return 0
	}
	n := uint64(1)
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 {
			return n
		}
		if e.Tag != dwarf.TagSubrangeType {
			continue
		}
		if count, ok := e.Val(dwarf.AttrCount).(int64); ok && count >= 0 {
			n *= uint64(count)
		} else if upper, ok := e.Val(dwarf.AttrUpperBound).(int64); ok && upper >= 0 {
			n *= uint64(upper) + 1
		} else {
			return 0
		}
	}
}

// name is a type's name as debug information has it.
func (t *types) name(typ *dwarf.Entry) string {
	if name, ok := typ.Val(dwarf.AttrName).(string); ok {
		return name
	}
	if typ.Tag == dwarf.TagPointerType {
		if of, ok := typ.Val(dwarf.AttrType).(dwarf.Offset); ok {
			if e, err := t.entry(of); err == nil && e.Tag != dwarf.TagPointerType {
				return t.name(e) + " *"
			}
		}
		return "void *"
	}
	return "(unnamed)"
}
