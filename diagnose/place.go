package diagnose

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// Place names an address by the file that was mapped there, as far as NT_FILE
// tells: the file's name, and the distance in bytes from where it begins in
// memory.
func Place(c *elfcore.Core, a elfcore.Addr) (file string, offset uint64, ok bool) {
	m, ok := c.Mapping(a)
	if !ok {
		return "", 0, false
	}
	start := m.Start
	// The mappings of a file are near each other, but not always neighbours:
	// others can lie in the hole between its text and its data.
	const near = 64
	at, _ := slices.BinarySearchFunc(c.Mappings, a, func(m elfcore.Mapping, a elfcore.Addr) int { return cmp.Compare(m.Start, a+1) })
	for i := at - 1; i >= max(at-near, 0); i-- {
		if o := &c.Mappings[i]; o.Path == m.Path && o.FileOffset == 0 {
			start = o.Start
			break
		}
	}
	return path.Base(strings.TrimSuffix(m.Path, " (deleted)")), uint64(a - start), true
}

// at gives an address of code by its symbol, else with its place.
func (r *Report) at(a elfcore.Addr) string {
	if r.name != nil {
		if name := r.name(a); name != "" {
			return name
		}
	}
	if file, offset, ok := Place(r.Core, a); ok {
		return fmt.Sprintf("%s (%s+%#x)", a, file, offset)
	}
	return a.String()
}
