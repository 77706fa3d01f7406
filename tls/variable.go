package tls

import (
	"debug/elf"
	"path"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/module"
)

// Variable is one thread-local variable of one module.
type Variable struct {
	// Name is as in source, Linkage as in the symbol table.
	Name, Linkage string
	Module        *Module
	// Offset is where it is in the module's block, Size how long, in bytes (0
	// where the symbol table does not say).
	Offset, Size uint64
	// Bound is false for a global variable that an earlier module defines too,
	// which was there from the start: the loader binds code to that one, and
	// this one most likely keeps its initial value.
	Bound bool
	// Symbol is where it was found.
	Symbol module.Symbol
	// Type is the name of its type, and Unit the source file that it is in,
	// empty where no debug information was asked. Find asks for Unit where
	// several variables of a module have the name.
	Type, Unit string
	// path leads from the variable to a member of what it points at.
	path []step
	// rustState is the offset from the variable to the byte in which Rust notes
	// whether the thread has initialised it, nil for none.
	rustState *uint64
}

// Variables are all thread-local variables of all modules with symbols, in the
// order of the modules and their tables.
func (r *Resolver) Variables() []Variable {
	var out []Variable
	start := r.startGenerations()
	taken := make(map[nameIn]bool)
	for _, m := range r.modules {
		if m.Module == nil {
			continue
		}
		for _, s := range m.TLSSymbols() {
			name := nameIn{m.Namespace, s.Name}
			local := s.Bind == elf.STB_LOCAL
			out = append(out, Variable{
				Name: s.Demangled(), Linkage: s.Name, Module: m,
				Offset: s.Value, Size: s.Size, Bound: local || !taken[name], Symbol: s,
			})
			// What dlopen adds is searched after these, and by its own
			// module only, as a rule.
			if s.Exported && !local && r.slotsKnown && m.Generation == start[m.Namespace] {
				taken[name] = true
			}
		}
	}
	return out
}

type nameIn struct {
	namespace int
	name      string
}

// startGenerations gives the generation of the modules that each namespace had
// from the start: the first one.
func (r *Resolver) startGenerations() map[int]uint64 {
	first := make(map[int]uint64)
	for _, m := range r.modules {
		if m.Module == nil || m.Moving {
			continue
		}
		if g, ok := first[m.Namespace]; !ok || m.Generation < g {
			first[m.Namespace] = m.Generation
		}
	}
	return first
}

// IsPattern tells whether a name is a pattern: it has a *, ? or [ in it.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Find gives the variables of a name among all: those of all modules, but only
// those of the most exact way to match: the linkage name, the name as in source,
// its last parts behind "::", the same without parameters of functions, nameless
// namespaces and tags of ABIs, a function-local static (GCC's name.N), a part of a Rust
// path. A name that starts with "::" is whole. A pattern must match a whole name.
// Behind "->" or "." follows a member of the variable, or of what it points at;
// that takes debug information, and the error says why it cannot be had.
func (r *Resolver) Find(all []Variable, name string) ([]Variable, error) {
	if found := match(all, name); len(found) > 0 {
		for i := range found {
			found[i] = r.unwrapRust(found[i])
		}
		r.tellApart(found)
		return found, nil
	}
	base, steps, ok := parseMembers(name)
	if !ok {
		return nil, nil
	}
	var out []Variable
	for _, v := range match(all, base) {
		member, err := r.member(v, steps)
		if err != nil {
			return nil, err
		}
		out = append(out, member)
	}
	return out, nil
}

// tellApart fills in the units of static variables of one name, of several source
// files of a module.
func (r *Resolver) tellApart(vars []Variable) {
	type same struct {
		module *Module
		name   string
	}
	count := make(map[same]int)
	for _, v := range vars {
		count[same{v.Module, v.Linkage}]++
	}
	for i := range vars {
		v := &vars[i]
		if count[same{v.Module, v.Linkage}] < 2 {
			continue
		}
		if data, err := v.Module.DWARF(); err == nil {
			t := &types{data: data, order: r.core.ByteOrder}
			_, v.Unit, _ = t.variable(v)
		}
	}
}

func match(all []Variable, name string) []Variable {
	// The tag of an ABI, [abi:cxx11], looks like a pattern.
	if IsPattern(name) && !strings.Contains(name, "[abi:") {
		return filter(all, func(v *Variable) bool { return glob(name, v.Linkage) || glob(name, v.Name) })
	}
	if whole, ok := strings.CutPrefix(name, "::"); ok {
		return filter(all, func(v *Variable) bool { return v.Name == whole || bare(v.Name) == whole })
	}
	for _, match := range []func(*Variable) bool{
		func(v *Variable) bool { return v.Linkage == name },
		func(v *Variable) bool { return v.Name == name },
		func(v *Variable) bool { return strings.HasSuffix(v.Name, "::"+name) },
		func(v *Variable) bool { return strings.HasSuffix("::"+bare(v.Name), "::"+name) },
		func(v *Variable) bool { return numbered(v.Linkage, name) },
		func(v *Variable) bool { return slices.Contains(strings.Split(v.Name, "::"), name) },
		func(v *Variable) bool { return strings.Contains("::"+v.Name+"::", "::"+name+"::") },
	} {
		if found := filter(all, match); len(found) > 0 {
			return found
		}
	}
	return nil
}

func filter(all []Variable, match func(*Variable) bool) []Variable {
	var out []Variable
	for i := range all {
		if match(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}

// glob matches a shell pattern; a malformed one matches nothing.
func glob(pattern, name string) bool {
	// path.Match gives / a meaning that names of variables do not have.
	escape := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(escape.Replace(pattern), escape.Replace(name))
	return err == nil && ok
}

// bare leaves out of a name as in source what people leave out: parameters of
// functions, nameless namespaces, and the tags of ABIs (var[abi:cxx11]), which
// stand in no source.
func bare(name string) string {
	for {
		before, rest, tagged := strings.Cut(name, "[abi:")
		_, after, closed := strings.Cut(rest, "]")
		if !tagged || !closed {
			break
		}
		name = before + after
	}
	var b strings.Builder
	depth := 0
	for _, c := range name {
		switch {
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(c)
		}
	}
	return strings.TrimPrefix(strings.NewReplacer(" const::", "::", "::::", "::").Replace(b.String()), "::")
}

// numbered tells whether a linkage name is base.N, as GCC names static variables
// of functions.
func numbered(linkage, base string) bool {
	digits, ok := strings.CutPrefix(linkage, base+".")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
