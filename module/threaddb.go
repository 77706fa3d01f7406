package module

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// Field is what libc tells libthread_db about a member of one of its structures
// or about a variable (nptl_db/db_info.c, DESC): three numbers of 32 bits.
type Field struct {
	// Bits is the size of one element, Elements their number, 0 for an array
	// of any length, and Offset where the first is, in bytes.
	Bits, Elements, Offset uint32
}

// ThreadDB is what the process's own thread library tells libthread_db, by the
// symbols of its proven file.
type ThreadDB struct {
	// Module is libc, libpthread (before glibc 2.34), or a static program.
	Module *Module
	// Fields are its descriptors, by symbol without _thread_db_: pthread_tid,
	// link_map_l_tls_modid, ….
	Fields map[string]Field
	// Sizes are the symbols of a single number, such as sizeof_pthread, in
	// bytes.
	Sizes map[string]uint32

	set *Set
}

const threadDBPrefix = "_thread_db_"

// errNoThreadDB is for a process of which no file with descriptors was found.
var errNoThreadDB = errors.New("no proven file has the _thread_db_ symbols: libc (before glibc 2.34 libpthread with its .symtab) is missing, or it is no glibc")

// ThreadDB reads the descriptors from the first proven file that has them: they
// lie in memory that is hardly ever dumped. Of several libcs, in namespaces made
// by dlmopen, it is that of the program.
func (s *Set) ThreadDB() (*ThreadDB, error) {
	for _, m := range s.libcs() {
		db, err := m.threadDB()
		if err != nil {
			return nil, err
		}
		if len(db.Fields) > 0 {
			return db, nil
		}
	}
	return nil, errNoThreadDB
}

func (m *Module) threadDB() (*ThreadDB, error) {
	db := &ThreadDB{Module: m, Fields: make(map[string]Field), Sizes: make(map[string]uint32), set: m.set}
	order := m.File.header.order
	for _, s := range m.withPrefix(threadDBPrefix) {
		name := strings.TrimPrefix(s.Name, threadDBPrefix)
		if s.Size != 4 && s.Size != 12 {
			continue
		}
		b := make([]byte, s.Size)
		if n, err := m.File.ReadVirtual(b, s.Value); err != nil || n < len(b) {
			return nil, fmt.Errorf("%s: %s at %#x cannot be read: the file is damaged", m.File.Path, s.Name, s.Value)
		}
		if s.Size == 4 {
			db.Sizes[name] = order.Uint32(b)
			continue
		}
		db.Fields[name] = Field{order.Uint32(b), order.Uint32(b[4:]), order.Uint32(b[8:])}
	}
	return db, nil
}

// Field gives the descriptor _thread_db_NAME.
func (db *ThreadDB) Field(name string) (Field, bool) {
	f, ok := db.Fields[name]
	return f, ok
}

// Address gives where a variable of the thread library or of the loader was in
// the process.
func (db *ThreadDB) Address(name string) (elfcore.Addr, bool) {
	modules := append([]*Module{db.Module}, db.set.libcs()...)
	if l := db.set.Loader(); l != nil {
		modules = append(modules, l)
	}
	for i, m := range modules {
		if slices.Contains(modules[:i], m) {
			continue
		}
		for _, s := range m.Lookup(name) {
			if a, ok := s.Address(); ok {
				return a, true
			}
		}
	}
	return 0, false
}

// Version is the version of glibc, such as 2.36, and where it was read; empty
// where the file does not tell it.
func (db *ThreadDB) Version() (version, source string) {
	if v := db.Module.nptlVersion(); v != "" {
		return v, fmt.Sprintf("nptl_version in %s", db.Module.File.Path)
	}
	version, source, _ = db.set.GlibcVersion()
	return version, source
}
