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
	// Bound is false for a global variable that an earlier module of its
	// namespace defines too: code uses that one, and this one keeps its
	// initial value.
	Bound bool
	// Symbol is where it was found.
	Symbol module.Symbol
}

// Variables are all thread-local variables of all modules with symbols, in the
// order of the modules and their tables.
func (r *Resolver) Variables() []Variable {
	var out []Variable
	first := make(map[nameIn]bool)
	for _, m := range r.modules {
		if m.Module == nil {
			continue
		}
		for _, s := range m.TLSSymbols() {
			key := nameIn{m.Namespace, s.Name}
			local := s.Bind == elf.STB_LOCAL
			bound := local || !first[key]
			first[key] = first[key] || !local
			out = append(out, Variable{
				Name: s.Demangled(), Linkage: s.Name, Module: m,
				Offset: s.Value, Size: s.Size, Bound: bound, Symbol: s,
			})
		}
	}
	return out
}

type nameIn struct {
	namespace int
	name      string
}

// Find gives the variables of a name: all of them, of all modules, but only
// those of the most exact way to match: the linkage name, the name as in source,
// its last parts behind "::", a function-local static (GCC's name.N), a part of
// a Rust path. A name with *, ? or [ is a pattern for whole names.
func Find(all []Variable, name string) []Variable {
	if strings.ContainsAny(name, "*?[") {
		return filter(all, func(v *Variable) bool { return glob(name, v.Linkage) || glob(name, v.Name) })
	}
	for _, match := range []func(*Variable) bool{
		func(v *Variable) bool { return v.Linkage == name },
		func(v *Variable) bool { return v.Name == name },
		func(v *Variable) bool { return strings.HasSuffix(v.Name, "::"+name) },
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

// numbered tells whether a linkage name is base.N, as GCC names static variables
// of functions.
func numbered(linkage, base string) bool {
	digits, ok := strings.CutPrefix(linkage, base+".")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
