package module

import (
	"bytes"
	"debug/elf"
	"io"
	"sync/atomic"
)

// maxSymbols bounds the symbols of one table; a browser has some millions.
const maxSymbols = 1 << 25

// symtab is one symbol table with its string table.
type symtab struct {
	// from says where it is, in words; dynamic tells that it holds the dynamic
	// symbols.
	from    string
	dynamic bool
	layout  layout
	symbols io.ReaderAt
	count   uint64
	names   *io.SectionReader
	// version gives the version of a symbol by its number; nil where the table
	// has none.
	version func(index uint32) string
	// budget is how many symbols may be kept, nil for all: only those of a core
	// have one.
	budget *atomic.Int64
}

// each decodes symbols, all of them unless do is false
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.symtab.html).
func (t *symtab) each(do func(entry) bool) {
	is64, o := t.layout.class == elf.ELFCLASS64, t.layout.order
	size := t.layout.symbolSize()
	buf := make([]byte, 4096*size)
	count := min(t.count, maxSymbols)
	for i := uint64(0); i < count; {
		n, _ := t.symbols.ReadAt(buf[:min(uint64(len(buf)), (count-i)*uint64(size))], int64(i)*int64(size))
		if n < size {
			return
		}
		for b := buf[:n]; len(b) >= size; b = b[size:] {
			e := entry{name: o.Uint32(b), index: uint32(i)}
			if is64 {
				e.info, e.section, e.value, e.size = b[4], o.Uint16(b[6:]), o.Uint64(b[8:]), o.Uint64(b[16:])
			} else {
				e.value, e.size, e.info, e.section = uint64(o.Uint32(b[4:])), uint64(o.Uint32(b[8:])), b[12], o.Uint16(b[14:])
			}
			if !do(e) {
				return
			}
			i++
		}
	}
}

// offsets finds where in the string table a name stands, followed by its end or
// by a version, or, as a prefix, by anything: also as the end of a longer name,
// as linkers share them.
func (t *symtab) offsets(name string, prefix bool) map[uint32]bool {
	const chunk = 32 << 10
	found := make(map[uint32]bool)
	buf := make([]byte, chunk+len(name))
	size := min(t.names.Size(), 1<<32) // st_name has 32 bits
	for at := int64(0); at < size; at += chunk {
		n, _ := t.names.ReadAt(buf, at)
		if n == 0 {
			break
		}
		for i := 0; ; i++ {
			k := bytes.Index(buf[i:n], []byte(name))
			if k < 0 {
				break
			}
			i += k
			if end := i + len(name); at+int64(i) < size && (prefix || end < n && (buf[end] == 0 || buf[end] == '@')) {
				found[uint32(at+int64(i))] = true
			}
		}
	}
	return found
}

// symtab finds .symtab, nil where the file has none that is whole.
func (f *File) symtab() *symtab {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_SYMTAB || int(s.Link) >= len(f.Sections) {
			continue
		}
		symbols, names := f.plain(s), f.plain(f.Sections[s.Link])
		count := uint64(symbols.Size()) / uint64(f.header.symbolSize())
		if count > 1 && names.Size() > 0 && s.Entsize == uint64(f.header.symbolSize()) {
			return &symtab{layout: f.header.layout, symbols: symbols, count: count, names: names}
		}
	}
	return nil
}
