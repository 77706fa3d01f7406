package module

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// maxLibDirFiles bounds the files of one --lib-dir that are looked at.
const maxLibDirFiles = 100_000

// libDir is a folder of --lib-dir. Its files are opened once, when the first
// of them is wanted by its build-id.
type libDir struct {
	path string

	once sync.Once
	byID map[string][]string
	err  error
}

// byBuildID gives the files of the folder that have a build-id, in the order of
// their names.
func (d *libDir) byBuildID(id BuildID) []string {
	if id == nil {
		return nil
	}
	d.once.Do(d.scan)
	found := d.byID[string(id)]
	if dir, name, ok := buildIDPath(id); ok {
		for _, n := range []string{name, name + ".debug"} {
			path := filepath.Join(d.path, dir, n)
			if _, err := os.Stat(path); err == nil {
				found = append(found[:len(found):len(found)], path)
			}
		}
	}
	return found
}

func (d *libDir) scan() {
	d.byID = make(map[string][]string)
	entries, err := os.ReadDir(d.path)
	if err != nil {
		d.err = fmt.Errorf("%w: no file can be found by --lib-dir there", err)
		return
	}
	if len(entries) > maxLibDirFiles {
		d.err = fmt.Errorf("%s has %d files: only the first %d are searched for build-ids; give a smaller folder", d.path, len(entries), maxLibDirFiles)
		entries = entries[:maxLibDirFiles]
	}
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		f, err := openFile(path)
		if err != nil {
			continue // most files of a folder are not ELF
		}
		if f.BuildID != nil {
			d.byID[string(f.BuildID)] = append(d.byID[string(f.BuildID)], path)
		}
		f.close()
	}
}
