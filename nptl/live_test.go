package nptl_test

import (
	"cmp"
	"debug/elf"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// files are the symbols of ELF files, as nm shows them, with the addresses at
// which they were mapped.
type files struct {
	t       *testing.T
	files   []*elf.File
	base    []uint64
	version string
}

// add takes a file's symbols. Its descriptors for libthread_db are constants, so
// that they are read from the file.
func (s *files) add(path string, base uint64) {
	s.t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() })
	s.files, s.base = append(s.files, f), append(s.base, base)
}

func (s *files) find(name string) (f *elf.File, value, base uint64) {
	for i, f := range s.files {
		static, _ := f.Symbols()
		dynamic, _ := f.DynamicSymbols()
		for _, x := range append(static, dynamic...) {
			if x.Name == name && x.Section != elf.SHN_UNDEF {
				return f, x.Value, s.base[i]
			}
		}
	}
	return nil, 0, 0
}

func (s *files) Address(name string) (elfcore.Addr, bool) {
	f, value, base := s.find(name)
	return elfcore.Addr(value + base), f != nil
}

func (s *files) Field(name string) (nptl.Field, bool) {
	f, value, _ := s.find("_thread_db_" + name)
	if f == nil {
		return nptl.Field{}, false
	}
	for _, p := range f.Progs {
		if b := make([]byte, 12); p.Type == elf.PT_LOAD && p.Vaddr <= value && value+12 <= p.Vaddr+p.Filesz {
			if _, err := p.ReadAt(b, int64(value-p.Vaddr)); err != nil {
				s.t.Fatal(err)
			}
			return nptl.Field{Bits: f.ByteOrder.Uint32(b), Elements: f.ByteOrder.Uint32(b[4:]), Offset: f.ByteOrder.Uint32(b[8:])}, true
		}
	}
	s.t.Fatalf("%s has no data at %#x for %s", s.files[0].FileHeader.Type, value, name)
	return nptl.Field{}, false
}

func (s *files) Version() (version, source string) { return s.version, "gnu_get_libc_version()" }

// TestLibcAgrees holds lists and layout against the symbols of the very libc
// that the process ran with: those of the program itself where it is static,
// else of libc and the loader.
func TestLibcAgrees(t *testing.T) {
	for _, flags := range [][]string{nil, {"-m32"}, {"-static"}, {"-static", "-m32"}} {
		t.Run(cmp.Or(strings.Join(flags, " "), "dynamic"), func(t *testing.T) {
			t.Parallel()
			crashed := coretest.Crash(t, coretest.Compile(t, "threads.c", flags...), coretest.Run{Args: []string{"zombies-many"}})
			c, err := elfcore.Open(crashed.Core)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()

			s := &files{t: t, version: strings.TrimPrefix(crashed.Truth.Libc, "glibc ")}
			if len(flags) > 0 && flags[0] == "-static" {
				s.add(crashed.Exe, 0)
			}
			for _, m := range c.Mappings {
				if m.FileOffset == 0 && (strings.Contains(m.Path, "/libc.so.6") || strings.Contains(m.Path, "/ld-")) {
					s.add(m.Path, uint64(m.Start))
				}
			}
			_, layout := s.Field("pthread_tid")
			_, static := s.Address("_dl_stack_user")
			_, dynamic := s.Field("rtld_global__dl_stack_user")
			if !layout || !static && !dynamic {
				t.Fatal("the libc has no descriptors for libthread_db: the test tests nothing")
			}
			p := nptl.Read(c, s)
			for _, d := range p.Disagreements {
				t.Error(d)
			}
			if p.Layout.Source != "symbols" || p.Libc.Source != "gnu_get_libc_version()" || nptl.VersionString(p.Libc.Version) != s.version {
				t.Errorf("layout by %q, glibc %+v, should be %s", p.Layout.Source, p.Libc, s.version)
			}
			wantTruth(t, c, p, crashed.Truth)
		})
	}
}
