package elfcore

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// Mapping is one entry of NT_FILE: memory that was mapped from a file.
type Mapping struct {
	Range
	// FileOffset is where in the file Start was mapped from, in bytes.
	FileOffset uint64
	// Path is as the kernel recorded it, in the mount namespace of the
	// process; it can end in " (deleted)".
	Path string
}

// Mapping finds the entry of NT_FILE that an address lies in.
func (c *Core) Mapping(a Addr) (*Mapping, bool) {
	i := sort.Search(len(c.Mappings), func(i int) bool { return c.Mappings[i].End > a })
	if i == len(c.Mappings) || c.Mappings[i].Start > a {
		return nil, false
	}
	return &c.Mappings[i], true
}

// parseMappings reads NT_FILE (fs/binfmt_elf.c, fill_files_note): count and page
// size, count times start, end and offset in pages, then the paths, all of it
// in words of the process.
func (c *Core) parseMappings(desc []byte, offset int64) {
	c.HasMappings = true
	w := c.Arch.WordSize()
	if len(desc) < 2*w {
		c.warn(offset, "NT_FILE is only %d bytes long: the mapped files are not known", len(desc))
		return
	}
	count, unit := c.WordOf(desc), c.WordOf(desc[w:])
	body := desc[2*w:]
	if most := uint64(len(body) / (3*w + 1)); count > most {
		c.warn(offset, "NT_FILE claims %d mapped files but has room for %d", count, most)
		count = most
	}
	names := body[count*uint64(3*w):]
	c.Mappings = make([]Mapping, 0, count)
	for i := range count {
		e := body[i*uint64(3*w):]
		end := bytes.IndexByte(names, 0)
		if end < 0 {
			c.warn(offset, "NT_FILE ends inside the path of its mapping %d of %d", i+1, count)
			break
		}
		m := Mapping{
			Range:      Range{Addr(c.WordOf(e)), Addr(c.WordOf(e[w:]))},
			FileOffset: c.WordOf(e[2*w:]) * unit,
			Path:       string(names[:end]),
		}
		names = names[end+1:]
		if m.Len() == 0 {
			c.warn(offset, "NT_FILE maps %q to the empty range %s", m.Path, m.Range)
			continue
		}
		c.Mappings = append(c.Mappings, m)
	}
	slices.SortStableFunc(c.Mappings, func(a, b Mapping) int { return cmp.Compare(a.Start, b.Start) })
	// Overlaps would make the search by address ambiguous.
	kept := c.Mappings[:0]
	for _, m := range c.Mappings {
		if n := len(kept); n > 0 && kept[n-1].Overlaps(m.Range) {
			c.warn(offset, "NT_FILE maps %q and %q to overlapping memory: the second is ignored", kept[n-1].Path, m.Path)
			continue
		}
		kept = append(kept, m)
	}
	c.Mappings = kept
}
