package tls

import (
	"debug/dwarf"
	"errors"
	"fmt"
)

// types reads as much of a module's debug information as members take. It works
// on entries, since package dwarf leaves base classes out of its types.
type types struct {
	data *dwarf.Data
}

// maxTypeDepth bounds typedefs of typedefs and classes in classes: damaged debug
// information can go round in circles.
const maxTypeDepth = 32

// variable finds the type of a variable by its linkage name.
func (t *types) variable(linkage string) (dwarf.Offset, bool) {
	r := t.data.Reader()
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return 0, false
		}
		if e.Tag == dwarf.TagSubprogram && !e.Children || e.Tag != dwarf.TagVariable {
			continue
		}
		name, _ := e.Val(dwarf.AttrLinkageName).(string)
		if name == "" {
			name, _ = e.Val(dwarf.AttrName).(string)
		}
		typ, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if spec, has := e.Val(dwarf.AttrSpecification).(dwarf.Offset); has {
			if d, err := t.entry(spec); err == nil {
				if inherited, has := d.Val(dwarf.AttrType).(dwarf.Offset); has && !ok {
					typ, ok = inherited, true
				}
				if declared, has := d.Val(dwarf.AttrLinkageName).(string); has {
					name = declared
				}
			}
		}
		if name == linkage && ok {
			return typ, true
		}
	}
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

// definition finds the type that an entry only declares, by its name.
func (t *types) definition(declared *dwarf.Entry) (*dwarf.Entry, error) {
	name := t.name(declared)
	r := t.data.Reader()
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return nil, fmt.Errorf("the debug information declares the type %s but does not define it", name)
		}
		if incomplete, _ := e.Val(dwarf.AttrDeclaration).(bool); e.Tag == declared.Tag && !incomplete && t.name(e) == name {
			return e, nil
		}
		if e.Tag == dwarf.TagSubprogram {
			r.SkipChildren()
		}
	}
}

// find looks for a member in a structure, in its nameless members and in its
// base classes.
func (t *types) find(typ *dwarf.Entry, member string, depth int) (offset uint64, of dwarf.Offset, ok bool) {
	if !typ.Children || depth > maxTypeDepth {
		return 0, 0, false
	}
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
		if e.Children {
			r.SkipChildren()
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
		if at, of, ok := t.find(base, member, depth+1); ok {
			return n.at + at, of, true
		}
	}
	return 0, 0, false
}

// size is that of a type in bytes.
func (t *types) size(typ *dwarf.Entry, word uint64) uint64 {
	if n, ok := typ.Val(dwarf.AttrByteSize).(int64); ok && n >= 0 {
		return uint64(n)
	}
	if typ.Tag == dwarf.TagPointerType || typ.Tag == dwarf.TagReferenceType {
		return word
	}
	return 0
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
