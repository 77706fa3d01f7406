package module

import (
	"debug/elf"
	"fmt"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// Symbol is one defined symbol of a module.
type Symbol struct {
	// Name is the linkage name, Version what stood behind it or in the version
	// table: GLIBC_2.2.5, empty for none.
	Name, Version string
	// Value is st_value: an address of the file, before the bias; for a
	// thread-local variable, its offset in the module's block.
	Value uint64
	// Size is in bytes, 0 for unknown.
	Size    uint64
	Type    elf.SymType
	Bind    elf.SymBind
	Section elf.SectionIndex
	// Exported tells that it is a dynamic symbol: the loader can bind code of
	// other modules to it.
	Exported bool
	// Module is where it is defined.
	Module *Module
}

// Address is where the symbol was in the process. It is false for a
// thread-local variable, and where the module's bias is not known.
func (s Symbol) Address() (elfcore.Addr, bool) {
	if s.Type == elf.STT_TLS || !s.Module.BiasKnown {
		return 0, false
	}
	return s.Module.set.core.sum(s.Module.Bias, s.Value), true
}

// SymbolsFrom says which tables the module's symbols come from, in words. The
// error says why there are none.
func (m *Module) SymbolsFrom() ([]string, error) {
	ix := m.index()
	var out []string
	for _, t := range ix.tables {
		out = append(out, t.from)
	}
	if len(out) == 0 {
		why := "its file has none"
		if m.Problem != nil {
			why = m.Problem.Text
		}
		return nil, fmt.Errorf("%s: there are no symbols: %s", m, why)
	}
	return out, nil
}

// Symbolize finds the symbol that an address belongs to, and the address's
// offset in it: the innermost that contains it, or a label of code in front of
// it. Of several at one address, functions and variables come before labels,
// global ones before weak and local ones.
func (m *Module) Symbolize(a elfcore.Addr) (sym Symbol, offset uint64, ok bool) {
	if !m.BiasKnown {
		return Symbol{}, 0, false
	}
	v := uint64(m.set.core.difference(a, m.Bias))
	e, ok := m.index().find(v, m.sectionAt(v))
	if !ok {
		return Symbol{}, 0, false
	}
	sym, ok = m.symbol(e)
	return sym, v - sym.Value, ok
}

// TLSSymbols are the thread-local variables that the module defines, by the
// order of the table. What compilers add for their own use is left out.
func (m *Module) TLSSymbols() []Symbol {
	ix := m.index()
	budget := nameBudget
	for _, t := range ix.tables {
		budget += t.names.Size()
	}
	var out []Symbol
	for _, e := range ix.tls {
		s, ok := m.symbol(e)
		if !ok || isMarker(s.Name) || s.Name == "_TLS_MODULE_BASE_" {
			continue
		}
		if budget -= int64(len(s.Name)); budget < 0 {
			break
		}
		out = append(out, s)
	}
	return distinct(out)
}

// nameBudget is how many bytes more than the string table has the names of a
// listing may take together: in a damaged table all of them can be the same
// long one.
const nameBudget = int64(1 << 20)

// Lookup finds the symbols of a linkage name. A version can be asked for as in
// name@GLIBC_2.2.5.
func (m *Module) Lookup(name string) []Symbol {
	name, version, _ := strings.Cut(name, "@")
	if name == "" {
		return nil
	}
	version = strings.TrimPrefix(version, "@")
	return m.named(name, false, func(s Symbol) bool {
		return s.Name == name && (version == "" || s.Version == version)
	})
}

// withPrefix finds the symbols whose linkage name starts with prefix.
func (m *Module) withPrefix(prefix string) []Symbol {
	return m.named(prefix, true, func(s Symbol) bool { return strings.HasPrefix(s.Name, prefix) })
}

func (m *Module) named(name string, prefix bool, keep func(Symbol) bool) []Symbol {
	var out []Symbol
	for _, e := range m.index().named(name, prefix) {
		if s, ok := m.symbol(e); ok && keep(s) {
			out = append(out, s)
		}
	}
	return distinct(out)
}

// distinct leaves out what a second table repeats: a name at an address, or its
// versions if the first table has those.
func distinct(all []Symbol) []Symbol {
	type place struct {
		name  string
		value uint64
	}
	seen := make(map[place]string)
	out := all[:0]
	for _, s := range all {
		p := place{s.Name, s.Value}
		version, repeated := seen[p]
		if repeated && (s.Version == "" || s.Version == version) {
			continue
		}
		seen[p] = s.Version
		out = append(out, s)
	}
	return out
}

// symbol reads the name of an entry of the index.
func (m *Module) symbol(e entry) (Symbol, bool) {
	t := m.index().tables[e.table]
	s := Symbol{
		Name: stringAt(t.names, uint64(e.name), maxName), Value: e.value, Size: e.size,
		Type: elf.ST_TYPE(e.info), Bind: elf.ST_BIND(e.info), Section: elf.SectionIndex(e.section),
		Exported: t.dynamic, Module: m,
	}
	if t.version != nil {
		s.Version = t.version(e.index)
	}
	if name, version, ok := strings.Cut(s.Name, "@"); ok {
		s.Name, s.Version = name, strings.TrimPrefix(version, "@")
	}
	return s, s.Name != ""
}

// isMarker tells names that stand for no object of the program: mapping symbols
// ($x, $d.1 of the Arm and RISC-V ABIs) and the assembler's local labels.
func isMarker(name string) bool {
	return strings.HasPrefix(name, "$") || strings.HasPrefix(name, ".L")
}

// sectionAt is the range of file addresses of the section, or without section
// headers the segment, that holds code at an address; empty where there is no
// code.
func (m *Module) sectionAt(v uint64) elfcore.Range {
	const code = elf.SHF_ALLOC | elf.SHF_EXECINSTR
	if m.File != nil && len(m.File.Sections) > 0 {
		for _, s := range m.File.Sections {
			if s.Flags&code == code && v >= s.Addr && v-s.Addr < s.Size {
				return elfcore.Range{Start: elfcore.Addr(s.Addr), End: elfcore.Addr(s.Addr + s.Size)}
			}
		}
		return elfcore.Range{}
	}
	for _, h := range m.Programs {
		if h.Type == elf.PT_LOAD && h.Flags&elf.PF_X != 0 && v >= h.Vaddr && v-h.Vaddr < h.Filesz {
			return elfcore.Range{Start: elfcore.Addr(h.Vaddr), End: elfcore.Addr(h.Vaddr + h.Filesz)}
		}
	}
	return elfcore.Range{}
}
