package diagnose

import (
	"fmt"
	"path"
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
	for i := range c.Mappings {
		o := &c.Mappings[i]
		if o.Path == m.Path && o.Start <= m.Start && o.FileOffset == 0 {
			start = o.Start
		}
	}
	return path.Base(strings.TrimSuffix(m.Path, " (deleted)")), uint64(a - start), true
}

// at gives an address with its place.
func (r *Report) at(a elfcore.Addr) string {
	if file, offset, ok := Place(r.Core, a); ok {
		return fmt.Sprintf("%s (%s+%#x)", a, file, offset)
	}
	return a.String()
}
