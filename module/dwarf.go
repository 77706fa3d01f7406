package module

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"strings"
	"sync"
)

// DWARF reads the debugging information of the module, from its file or its
// separate debug file. All of its sections are read into memory.
func (m *Module) DWARF() (*dwarf.Data, error) {
	d, _, err := m.DWARFUnits()
	return d, err
}

// DWARFUnits is DWARF that also tells where the units are: the offset of the
// first entry of each in .debug_info. They have not been read, so that a caller
// who needs few of a large program's can leave the others alone.
func (m *Module) DWARFUnits() (*dwarf.Data, []dwarf.Offset, error) {
	for _, f := range []*File{m.File, m.DebugFile()} {
		if f != nil && f.hasDebug() {
			return f.dwarf()
		}
	}
	return nil, nil, fmt.Errorf("%s: there is no debugging information: neither in its file nor in a separate debug file with its build-id", m)
}

func (f *File) dwarf() (d *dwarf.Data, units []dwarf.Offset, err error) {
	// The package is not meant for hostile input.
	defer func() {
		if r := recover(); r != nil {
			d, units, err = nil, nil, fmt.Errorf("%s: its debugging information is damaged: %v", f.Path, r)
		}
	}()
	if err := f.checkDebugSize(); err != nil {
		return nil, nil, err
	}
	read, err := f.sections("abbrev", "info", "line", "ranges", "str", "addr", "line_str", "rnglists", "str_offsets")
	if err != nil {
		return nil, nil, err
	}
	d, err = dwarf.New(read["abbrev"], nil, nil, read["info"], read["line"], nil, read["ranges"], read["str"])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	for _, name := range []string{"addr", "line_str", "rnglists", "str_offsets"} {
		if err := d.AddSection(".debug_"+name, read[name]); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	for i, s := range f.Sections {
		if s.Name != ".debug_types" {
			continue
		}
		types, err := f.section(i)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: section %s: %w", f.Path, s.Name, err)
		}
		if err := d.AddTypes(fmt.Sprintf("types-%d", i), types); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return d, unitEntries(read["info"], f.header.order), nil
}

// sections reads those of the sections .debug_NAME that the file has, side by
// side: they are large, and packed.
func (f *File) sections(names ...string) (map[string][]byte, error) {
	data, errs := make([][]byte, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if f.has(".debug_" + name) {
			all.Go(func() { data[i], errs[i] = f.Section(".debug_" + name) })
		}
	}
	all.Wait()
	out := make(map[string][]byte)
	for i, name := range names {
		if errs[i] != nil {
			return nil, errs[i]
		}
		out[name] = data[i]
	}
	return out, nil
}

// checkDebugSize says if the sections of debugging information are too much
// together, as those that share their bytes can be.
func (f *File) checkDebugSize() error {
	var all uint64
	for _, s := range f.Sections {
		size := s.Size
		switch {
		case s.Type == elf.SHT_NOBITS || !strings.HasPrefix(s.Name, ".debug_") && !strings.HasPrefix(s.Name, packedPrefix):
			continue
		case packed(s):
			p, err := f.packing(s)
			if err != nil {
				continue // said when it is read
			}
			size = p.size
		}
		if all += min(size, f.maxUnpacked()+1); all > f.maxUnpacked() {
			return fmt.Errorf("%s: its debugging information claims to have more than %d bytes, and the file has %d", f.Path, f.maxUnpacked(), f.Size)
		}
	}
	return nil
}
