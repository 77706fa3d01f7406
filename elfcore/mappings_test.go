package elfcore_test

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

const ntFile elf.NType = 0x46494c45

func TestMappings(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			c := readNotes(t, abi, abi.File(0x1000,
				coretest.FileMapping{Start: 0x70000, End: 0x72000, Offset: 0xfffff, Path: "/lib/libc.so.6"},
				coretest.FileMapping{Start: 0x10000, End: 0x11000, Path: "/bin/with blank (deleted)"},
				coretest.FileMapping{Start: 0x11000, End: 0x13000, Offset: 1, Path: ""},
			))
			wantWarnings(t, c)
			want := []elfcore.Mapping{
				{Range: elfcore.Range{Start: 0x10000, End: 0x11000}, Path: "/bin/with blank (deleted)"},
				{Range: elfcore.Range{Start: 0x11000, End: 0x13000}, FileOffset: 0x1000},
				{Range: elfcore.Range{Start: 0x70000, End: 0x72000}, FileOffset: 0xfffff000, Path: "/lib/libc.so.6"},
			}
			if !c.HasMappings || !slices.Equal(c.Mappings, want) {
				t.Errorf("has them: %v, mappings\n%+v, want\n%+v", c.HasMappings, c.Mappings, want)
			}
			for _, a := range []struct {
				addr  elfcore.Addr
				index int
			}{{0, -1}, {0xffff, -1}, {0x10000, 0}, {0x10fff, 0}, {0x11000, 1}, {0x12fff, 1}, {0x13000, -1}, {0x71fff, 2}, {0x72000, -1}, {^elfcore.Addr(0), -1}} {
				m, ok := c.Mapping(a.addr)
				if ok != (a.index >= 0) || ok && m != &c.Mappings[a.index] {
					t.Errorf("%s lies in %+v, want mapping %d", a.addr, m, a.index)
				}
			}
		})
	}
}

// Of a damaged NT_FILE what can be trusted is kept.
func TestDamagedMappings(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			words := func(path string, values ...uint64) coretest.Note {
				return coretest.Note{Name: "CORE", Type: ntFile, Desc: append(abi.Words(values...), path...)}
			}
			one := []elfcore.Mapping{{Range: elfcore.Range{Start: 0x1000, End: 0x2000}, FileOffset: 5, Path: "/a"}}
			for _, c := range []struct {
				name    string
				note    coretest.Note
				want    []elfcore.Mapping
				warning string
			}{
				{"whole", words("/a\x00", 1, 1, 0x1000, 0x2000, 5), one, ""},
				{"more paths than counted", words("/a\x00/b\x00", 1, 1, 0x1000, 0x2000, 5), one, ""},
				{"no mappings", words("", 0, 4096), nil, ""},
				{"empty", words(""), nil, "only 0 bytes"},
				{"no page size", words("xyz", 1), nil, "bytes long"},
				{"absurd count", words("/a\x00", ^uint64(0), 1, 0x1000, 0x2000, 5), one, "has room for 1"},
				{"count that overflows", words("/a\x00", 1<<61, 1, 0x1000, 0x2000, 5), one, "has room for 1"},
				{"count with a path too short to count", words("/a", 2, 1, 0x1000, 0x2000, 5), nil, "has room for 1"},
				{"path without end", words("/a\x00/b", 2, 1, 0x1000, 0x2000, 5, 0x3000, 0x4000, 5), one, "inside the path of its mapping 2 of 2"},
				{"empty range", words("/a\x00/b\x00", 2, 1, 0x1000, 0x2000, 5, 0x3000, 0x3000, 5), one, `"/b" to the empty range 3000-3000`},
				{"range backwards", words("/b\x00/a\x00", 2, 1, 0x3000, 0x2000, 5, 0x1000, 0x2000, 5), one, `"/b" to the empty range`},
				{"overlap", words("/b\x00/a\x00", 2, 1, 0x1fff, 0x3000, 5, 0x1000, 0x2000, 5), one, `"/a" and "/b"`},
			} {
				if !isWide(abi) && c.name == "count that overflows" {
					continue // 1<<61 is 0 in 32 bits
				}
				t.Run(c.name, func(t *testing.T) {
					got := readNotes(t, abi, c.note)
					if !got.HasMappings || !slices.Equal(got.Mappings, c.want) {
						t.Errorf("mappings\n%+v, want\n%+v", got.Mappings, c.want)
					}
					if c.warning == "" {
						wantWarnings(t, got)
						return
					}
					size := int64(len(c.note.Desc)+3) &^ 3
					about := func(w elfcore.Warning) bool { return w.Offset == got.Size-size && strings.Contains(w.Text, c.warning) }
					if !slices.ContainsFunc(got.Warnings, about) {
						t.Errorf("no warning about the note with %q: %v", c.warning, got.Warnings)
					}
				})
			}
		})
	}
}

func TestSecondMappingsNote(t *testing.T) {
	abi := coretest.X86_64
	c := readNotes(t, abi, abi.File(1, coretest.FileMapping{Start: 1, End: 2, Path: "/first"}), abi.File(1, coretest.FileMapping{Start: 3, End: 4, Path: "/second"}))
	if len(c.Mappings) != 1 || c.Mappings[0].Path != "/first" {
		t.Errorf("mappings %+v", c.Mappings)
	}
	wantWarnings(t, c, elfcore.Warning{Offset: c.Size - 5*8 - 8, Text: "second NT_FILE"})
}
