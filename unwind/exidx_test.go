package unwind

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

var (
	exidxLine = regexp.MustCompile(`^0x([0-9a-f]+)(?: <.*>)?: (.*)$`)
	ehabiLine = regexp.MustCompile(`^  ((?:0x[0-9a-f]{2} )+)\s*(.*?)\s*$`)
)

// TestExceptionTablesEqualReadelf compares the unwinding instructions of every
// function of a program of ARM, and of the C library where the cases are at hand,
// with those that readelf shows.
func TestExceptionTablesEqualReadelf(t *testing.T) {
	t.Run("program", func(t *testing.T) {
		compareTables(t, filepath.Join("testdata", "cores", "armhf", "exe.zst"), 200)
	})
	for name, functions := range map[string]int{"libc.so.6": 700, "libgcc_s.so.1": 30} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("..", "..", "shared", "cases", "libs", "armhf-2.36", name+".zst")
			if _, err := os.Stat(path); err != nil {
				t.Skip("NOT RUN: there is no ../shared/cases beside the project")
			}
			compareTables(t, path, functions)
		})
	}
}

func compareTables(t *testing.T, packed string, atLeast int) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, unpacked(t, packed), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	x := exidx{section: &section{image: fileImage{f}, order: f.ByteOrder, word: 4}}
	for _, p := range f.Progs {
		if p.Type == ptARMExidx {
			x.start, x.entries = p.Vaddr, p.Memsz/8
		}
	}
	functions, routines := 0, 0
	var at uint64
	var code []byte
	var cannot, known bool
	finish := func() {
		if !known {
			return
		}
		functions++
		got := x.find(at)
		if cannot {
			if got != nil {
				t.Errorf("%#x: % x, readelf says that it cannot be unwound", at, got)
			}
			return
		}
		if !bytes.Equal(got, code) {
			t.Errorf("%#x: % x, readelf has % x", at, got, code)
		}
	}
	for line := range strings.Lines(coretest.Output(t, coretest.Tool(t, "readelf", "binutils"), "-u", path)) {
		line = strings.TrimRight(line, "\n")
		if m := exidxLine.FindStringSubmatch(line); m != nil {
			finish()
			at, code, known = number(t, m[1]), nil, true
			cannot = strings.HasPrefix(m[2], "0x1 ")
		} else if strings.HasPrefix(line, "  Personality routine:") {
			known = false
			routines++
		} else if m := ehabiLine.FindStringSubmatch(line); m != nil {
			b, err := hex.DecodeString(strings.ReplaceAll(strings.ReplaceAll(m[1], "0x", ""), " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			code = append(code, b...)
		}
	}
	finish()
	if functions < atLeast {
		t.Errorf("readelf shows %d functions", functions)
	}
	t.Logf("%d functions; of %d more, readelf shows only the personality routine", functions, routines)
}

// fileImage is a file as it is mapped.
type fileImage struct{ f *elf.File }

func (i fileImage) read(p []byte, at uint64) bool {
	for _, s := range i.f.Progs {
		if s.Type == elf.PT_LOAD && at >= s.Vaddr && at-s.Vaddr < s.Filesz {
			n, _ := s.ReadAt(p, int64(at-s.Vaddr))
			return n == len(p)
		}
	}
	return false
}

// FuzzTables takes hostile bytes for a table of the ARM exception ABI, and for
// the first instructions of a function.
func FuzzTables(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0x7f, 0xb0, 0xaf, 0x02, 0x80}, uint64(0x1000), uint64(1))
	f.Add([]byte{0, 0, 0, 0x7f, 4, 0, 0, 0, 0xb0, 0x82, 1, 0x81, 1, 2, 3, 4}, uint64(0x1000), uint64(1)<<60)
	f.Add([]byte{0x79, 0x71, 0x06, 0xf4, 0x22, 0xf0, 0x26, 0xec, 0x2d, 0xe9, 0xf0, 0x4f}, uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, pc, entries uint64) {
		x := exidx{section: &section{image: sectionImage{b, 0x1000}, order: binary.LittleEndian, word: 4}, start: 0x1000, entries: entries}
		if code := x.find(pc); len(code) > len(b) {
			t.Errorf("%d instructions in %d bytes", len(code), len(b))
		}
		for _, read := range []func([]byte, binary.ByteOrder) *prologue{riscvPrologue, thumbPrologue} {
			if p := read(b, binary.LittleEndian); p == nil || p.size < 0 {
				t.Errorf("a frame of %+v", p)
			}
		}
	})
}
