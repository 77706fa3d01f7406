package module

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"

	"github.com/corethreads/corethreads/elfcore"
)

// entry is one symbol without its name: a large program has a million.
type entry struct {
	value, size uint64
	// name is its offset in the string table, index its number in the table.
	name, index uint32
	section     uint16
	info, table uint8
}

// symbolIndex is the symbols of a module.
type symbolIndex struct {
	tables []*symtab
	// addressed are those with an address, sorted by it; reach is how far the
	// symbols up to one go.
	addressed []entry
	reach     []uint64
	tls       []entry
}

// index reads the module's symbols when they are wanted first.
func (m *Module) index() *symbolIndex {
	if m.Original != nil {
		return m.Original.index()
	}
	m.symbolsOnce.Do(func() {
		ix := &symbolIndex{}
		for _, t := range m.symbolTables() {
			ix.add(t, m.set.core.Arch.Machine == elf.EM_ARM)
		}
		ix.sort()
		m.symbols = ix
	})
	return m.symbols
}

// add reads all symbols of a table.
func (ix *symbolIndex) add(t *symtab, thumb bool) {
	number := uint8(len(ix.tables))
	ix.tables = append(ix.tables, t)
	t.each(func(e entry) bool {
		e.table = number
		if elf.SectionIndex(e.section) == elf.SHN_UNDEF {
			return true
		}
		switch elf.ST_TYPE(e.info) {
		case elf.STT_TLS:
			if e.size > 0 {
				ix.tls = append(ix.tls, e)
			}
		case elf.STT_FUNC, elf.STT_GNU_IFUNC:
			if thumb {
				e.value &^= 1 // the instruction set (IHI 0044, 5.5.3)
			}
			ix.addressed = append(ix.addressed, e)
		case elf.STT_NOTYPE, elf.STT_OBJECT, elf.STT_COMMON:
			// What is absolute is no address, and what is common has none.
			if s := elf.SectionIndex(e.section); s != elf.SHN_ABS && s != elf.SHN_COMMON {
				ix.addressed = append(ix.addressed, e)
			}
		}
		return t.budget == nil || spend(t.budget, 1)
	})
}

func (ix *symbolIndex) sort() {
	slices.SortFunc(ix.addressed, func(a, b entry) int {
		if a.value != b.value {
			return cmp.Compare(a.value, b.value)
		}
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.index, b.index))
	})
	ix.reach = make([]uint64, len(ix.addressed))
	reach := uint64(0)
	for i, e := range ix.addressed {
		reach = max(reach, e.end())
		ix.reach[i] = reach
	}
}

// end is the first address behind the symbol.
func (e entry) end() uint64 {
	if end := e.value + e.size; end >= e.value {
		return end
	}
	return ^uint64(0)
}

// rank orders symbols of one address, the best first.
func (e entry) rank() int {
	r := 0
	if elf.ST_TYPE(e.info) == elf.STT_NOTYPE {
		r += 4
	}
	switch elf.ST_BIND(e.info) {
	case elf.STB_WEAK:
		r++
	case elf.STB_LOCAL:
		r += 2
	}
	return r
}

// maxNested bounds how far a search goes back for a symbol that contains an
// address.
const maxNested = 4096

// find gives the best symbol for an address of the file; code is the section of
// code that it lies in.
func (ix *symbolIndex) find(v uint64, code elfcore.Range) (entry, bool) {
	after := sort.Search(len(ix.addressed), func(i int) bool { return ix.addressed[i].value > v })
	var best entry
	found := false
	for i := after - 1; i >= max(0, after-maxNested) && ix.reach[i] > v; i-- {
		e := ix.addressed[i]
		if found && e.value < best.value {
			break
		}
		if e.end() > v && (!found || e.rank() <= best.rank()) {
			best, found = e, true
		}
	}
	if found {
		return best, true
	}
	return ix.label(v, after, code)
}

// label gives the label without a size that stands in front of an address, as
// code that was written in assembler has; after counts the symbols up to the
// address.
func (ix *symbolIndex) label(v uint64, after int, code elfcore.Range) (entry, bool) {
	var best entry
	found := false
	for i := after - 1; i >= max(0, after-maxNested); i-- {
		e := ix.addressed[i]
		if e.size > 0 || !code.Contains(elfcore.Addr(e.value)) || found && e.value < best.value {
			break
		}
		if isMarker(stringAt(ix.tables[e.table].names, uint64(e.name), maxName)) {
			continue
		}
		if !found || e.rank() <= best.rank() {
			best, found = e, true
		}
	}
	return best, found
}

// named gives the entries whose name is name, perhaps with a version behind it;
// as a prefix, those whose name starts with it.
func (ix *symbolIndex) named(name string, prefix bool) []entry {
	offsets := make([]map[uint32]bool, len(ix.tables))
	for i, t := range ix.tables {
		offsets[i] = t.offsets(name, prefix)
	}
	var out []entry
	for _, list := range [][]entry{ix.tls, ix.addressed} {
		for _, e := range list {
			if o := offsets[e.table]; len(o) > 0 && o[e.name] {
				out = append(out, e)
			}
		}
	}
	return out
}
