package tls

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// access is one -> or . of an expression.
type access struct {
	arrow  bool
	member string
}

func (x access) String() string {
	if x.arrow {
		return "->" + x.member
	}
	return "." + x.member
}

// parseMembers splits var->a.b into the variable and its accesses.
func parseMembers(name string) (base string, steps []access, ok bool) {
	i := strings.Index(name, "->")
	if j := strings.IndexByte(name, '.'); i < 0 || j >= 0 && j < i {
		i = j
	}
	if i <= 0 {
		return "", nil, false
	}
	base, rest := name[:i], name[i:]
	for rest != "" {
		var s access
		if after, found := strings.CutPrefix(rest, "->"); found {
			s.arrow, rest = true, after
		} else {
			rest = rest[1:]
		}
		end := strings.IndexAny(rest, ".-")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 || end < len(rest) && rest[end] == '-' && !strings.HasPrefix(rest[end:], "->") {
			return "", nil, false
		}
		s.member, rest = rest[:end], rest[end:]
		steps = append(steps, s)
	}
	return base, steps, true
}

// step is one step from the address of a variable to that of a member: read a
// pointer first, then add an offset.
type step struct {
	pointer bool
	offset  uint64
}

// follow takes the steps of a path.
func (r *Resolver) follow(a elfcore.Addr, path []step) (elfcore.Addr, string) {
	for _, s := range path {
		if s.pointer {
			p, err := r.core.Word(a)
			switch {
			case err != nil:
				return 0, fmt.Sprintf("the pointer is not there: %v", err)
			case p == 0:
				return 0, "the pointer is null"
			}
			a = elfcore.Addr(p)
		}
		a = r.narrow(a + elfcore.Addr(s.offset))
	}
	return a, ""
}

// member resolves accesses by the debug information of the variable's module.
func (r *Resolver) member(v Variable, accesses []access) (Variable, error) {
	if v.Module.Module == nil {
		return v, errors.New("its module is not known")
	}
	data, err := v.Module.DWARF()
	if err != nil {
		return v, fmt.Errorf("members take debug information: %w", err)
	}
	t := &types{data: data, order: r.core.ByteOrder}
	off, _, ok := t.variable(&v)
	if !ok {
		return v, fmt.Errorf("the debug information of %s has no variable %s with a type", v.Module, v.Linkage)
	}
	name := v.Name
	for _, x := range accesses {
		typ, err := t.resolve(off)
		if err != nil {
			return v, err
		}
		s := step{pointer: x.arrow}
		points := typ.Tag == dwarf.TagPointerType || typ.Tag == dwarf.TagReferenceType
		if points && !x.arrow {
			return v, fmt.Errorf("%s is a pointer: use ->", name)
		}
		if x.arrow {
			if !points {
				return v, fmt.Errorf("-> wants a pointer, but %s is of type %s: use . instead", name, t.name(typ))
			}
			target, ok := typ.Val(dwarf.AttrType).(dwarf.Offset)
			if !ok {
				return v, fmt.Errorf("%s points at nothing that has members", name)
			}
			if typ, err = t.resolve(target); err != nil {
				return v, err
			}
		}
		at, next, ok := t.find(typ, x.member)
		if !ok {
			return v, fmt.Errorf("type %s has no member %s", t.name(typ), x.member)
		}
		s.offset, off = at, next
		v.path = append(v.path, s)
		name += x.String()
	}
	typ, err := t.resolve(off)
	if err != nil {
		return v, err
	}
	v.Size = t.size(typ, r.w)
	v.Type = t.name(typ)
	return v, nil
}
