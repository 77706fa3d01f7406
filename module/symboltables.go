package module

// symbolTables are the tables that the module's symbols are read from: the
// dynamic symbols, which alone have versions, and .symtab, which has them all,
// be it in the file or in its debug file; without that, what MiniDebugInfo adds.
// Without a file there are the dynamic symbols that the core holds.
func (m *Module) symbolTables() []*symtab {
	var tables []*symtab
	add := func(t *symtab, from string) bool {
		if t == nil {
			return false
		}
		t.from = from
		tables = append(tables, t)
		return true
	}
	if m.File != nil {
		add(m.File.dynsym(), "dynamic symbols of "+m.File.Path)
	} else {
		add(m.dynsym(), "dynamic symbols in the core")
	}
	for _, f := range []*File{m.File, m.DebugFile()} {
		if f != nil && add(f.symtab(), ".symtab of "+f.Path) {
			return tables
		}
	}
	if m.File != nil {
		add(m.File.miniDebugInfo(), "MiniDebugInfo of "+m.File.Path)
	}
	return tables
}
