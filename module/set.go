package module

import (
	"cmp"
	"errors"
	"slices"
	"sort"

	"github.com/corethreads/corethreads/elfcore"
)

// Set is all modules of a process. It does not change after Load and is safe
// for concurrent use; what is asked of its files is read from them then, so
// Close it only when it is not needed any more.
type Set struct {
	// Modules are in the order of the link maps, namespace by namespace, the
	// program first; behind them those without a link map, by address.
	Modules []*Module
	// Warnings are what was odd, and which files were not used.
	Warnings []Warning

	core   process
	finder *finder
	index  []span
}

// Warning is something that keeps a module, or all of them, from being known
// well.
type Warning struct {
	// Module is nil for what concerns them all.
	Module *Module
	// Text says what, and what follows from it.
	Text string
}

// span is memory of one module.
type span struct {
	elfcore.Range
	module *Module
}

// Close closes the files.
func (s *Set) Close() error {
	var errs []error
	for _, m := range s.Modules {
		// From here on no debug file is opened any more.
		m.debugOnce.Do(func() {})
		if m.Original != nil {
			continue // it shares its files
		}
		for _, f := range []*File{m.File, m.debug} {
			if f != nil {
				errs = append(errs, f.close())
			}
		}
	}
	return errors.Join(errs...)
}

// At finds the module that an address lies in, nil for none.
func (s *Set) At(a elfcore.Addr) *Module {
	i := sort.Search(len(s.index), func(i int) bool { return s.index[i].End > a })
	if i == len(s.index) || s.index[i].Start > a {
		return nil
	}
	return s.index[i].module
}

// Executable is the program, nil where it is not known.
func (s *Set) Executable() *Module {
	return s.first(func(m *Module) bool { return m.IsExecutable })
}

// Loader is the dynamic loader, nil for none, as in a static program.
func (s *Set) Loader() *Module {
	return s.first(func(m *Module) bool { return m.IsLoader })
}

func (s *Set) first(is func(*Module) bool) *Module {
	for _, m := range s.Modules {
		if is(m) {
			return m
		}
	}
	return nil
}

// makeIndex sorts the memory of the modules. Where two claim an address, it is
// the first one's.
func (s *Set) makeIndex() {
	type claim struct {
		span
		order int
	}
	var claims []claim
	for i, m := range s.Modules {
		if m.Original != nil {
			continue
		}
		for _, r := range m.Ranges {
			claims = append(claims, claim{span{r, m}, i})
		}
	}
	slices.SortStableFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.order, b.order))
	})
	s.index = nil
	for _, c := range claims {
		if n := len(s.index); n > 0 {
			c.Start = max(c.Start, s.index[n-1].End)
		}
		if c.Start < c.End {
			s.index = append(s.index, c.span)
		}
	}
}

// Lookup finds the symbols of a linkage name in all modules, in their order:
// of several global ones in a namespace, the loader binds code to the first.
// A version can be asked for as in name@GLIBC_2.2.5. Of modules that share a
// mapping one is looked at.
func (s *Set) Lookup(name string) []Symbol {
	var found []Symbol
	for _, m := range s.Modules {
		if m.Original == nil {
			found = append(found, m.Lookup(name)...)
		}
	}
	return found
}

// Symbolize finds the symbol that an address belongs to, and the address's
// offset in it.
func (s *Set) Symbolize(a elfcore.Addr) (sym Symbol, offset uint64, ok bool) {
	m := s.At(a)
	if m == nil {
		return Symbol{}, 0, false
	}
	return m.Symbolize(a)
}
