package coretest_test

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

var abis = map[string]coretest.ABI{
	"x86_64": coretest.X86_64, "i386": coretest.I386, "aarch64": coretest.AArch64, "arm": coretest.ARM, "riscv64": coretest.RISCV64,
	"ppc64le": coretest.PPC64LE, "s390x": coretest.S390X, "ppc32": coretest.PPC32, "x32": coretest.X32,
}

// TestSegments has binutils read the headers, and looks for the memory where
// binutils says it is.
func TestSegments(t *testing.T) {
	for name, abi := range abis {
		t.Run(name, func(t *testing.T) {
			core := coretest.Core{
				ABI:   abi,
				Notes: []coretest.NoteSegment{{Notes: []coretest.Note{{Name: "CORE", Desc: []byte{1}}}, Unpadded: true}, {Align: 8}},
				Loads: []coretest.Load{
					{Addr: 0x10000, Data: []byte("partly dumped"), MemSize: 0x3000, Flags: coretest.RX},
					{Addr: 0x20010, Data: []byte("packed"), Flags: coretest.RW, Align: 1},
					{Addr: 0x30123, Data: []byte("at an odd address"), Flags: coretest.RO},
					{Addr: 0x40000, MemSize: 0x5000},
				},
			}
			b := core.Bytes()
			class, order := "ELF64", "little"
			if abi.Class == elf.ELFCLASS32 {
				class = "ELF32"
			}
			if abi.Order == binary.BigEndian {
				order = "big"
			}
			out := readelf(t, b, "-h")
			for _, want := range []string{"Class: " + class, "complement, " + order + " endian", "Type: CORE (Core file)", "Number of program headers: 6", "Number of section headers: 0"} {
				wantSaid(t, out, want)
			}
			got := programHeaders(t, b)
			want := []programHeader{
				{"NOTE", "", 0, 21, 0, 4, ""}, {"NOTE", "", 0, 0, 0, 8, ""},
				{"LOAD", "RE", 0x10000, 13, 0x3000, 4096, "partly dumped"}, {"LOAD", "RW", 0x20010, 6, 6, 1, "packed"},
				{"LOAD", "R", 0x30123, 17, 17, 4096, "at an odd address"}, {"LOAD", "", 0x40000, 0, 0x5000, 4096, ""},
			}
			for i := range got {
				if got[i].kind == "NOTE" {
					got[i].data = ""
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("program headers\n%+v, want\n%+v", got, want)
			}
		})
	}
}

// TestSegmentCount has binutils count segments that the ELF header cannot,
// and section headers that it does not.
func TestSegmentCount(t *testing.T) {
	few, many := make([]coretest.Load, 2), make([]coretest.Load, 70000)
	for _, abi := range []coretest.ABI{coretest.X86_64, coretest.PPC32} {
		for _, c := range []struct {
			core coretest.Core
			want []string
		}{
			{coretest.Core{ABI: abi, Loads: many}, []string{"Number of program headers: 65535 (70000)", "Number of section headers: 1"}},
			{coretest.Core{ABI: abi, Loads: few, ExtendedCount: true}, []string{"Number of program headers: 65535 (2)", "Number of section headers: 1"}},
			{coretest.Core{ABI: abi, Loads: few, Sections: coretest.NullSection}, []string{"Number of program headers: 2", "Number of section headers: 1"}},
			{coretest.Core{ABI: abi, Loads: few, Sections: coretest.UncountedSections}, []string{"Number of program headers: 2", "Number of section headers: 0 (1)"}},
		} {
			out := readelf(t, c.core.Bytes(), "-h")
			for _, want := range c.want {
				wantSaid(t, out, want)
			}
		}
	}
}

// TestEdits has binutils see headers that lie.
func TestEdits(t *testing.T) {
	core := coretest.Core{
		ABI:         coretest.X86_64,
		Loads:       []coretest.Load{{Addr: 0x1000}, {Addr: 0x2000, Data: []byte{1}}},
		EditHeader:  func(h *elf.Header64) { h.Phentsize = 57 },
		EditSegment: func(i int, p *elf.Prog64) { p.Memsz = uint64(i) << 40 },
	}
	wantSaid(t, readelf(t, core.Bytes(), "-h"), "Size of program headers: 57 (bytes)")
	core.EditHeader = nil
	if got := programHeaders(t, core.Bytes()); got[0].memSize != 0 || got[1].memSize != 1<<40 {
		t.Errorf("edited sizes are %#x and %#x", got[0].memSize, got[1].memSize)
	}
}

// TestNotes has elfutils, which knows every architecture's core notes, read
// the builder's.
func TestNotes(t *testing.T) {
	for name, abi := range abis {
		t.Run(name, func(t *testing.T) {
			core := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{
				{Notes: []coretest.Note{
					abi.Prstatus(4711, 6, 0x11223344),
					abi.Prpsinfo(coretest.Prpsinfo{PID: 4242, PPID: 4200, UID: 1001, GID: 1002, Command: "victim", Args: "victim --now"}),
					abi.Siginfo(coretest.Siginfo{Signo: 11, Code: 2, Addr: 0xbadcaf}),
				}},
				{Notes: []coretest.Note{
					abi.Auxv(coretest.AuxEntry{Type: 7, Value: 0x7f000000}, coretest.AuxEntry{Type: 6, Value: 4096}),
					abi.File(4096, coretest.FileMapping{Start: 0x10000, End: 0x12000, Offset: 3, Path: "/lib/libc.so.6"}),
				}},
			}}
			prpsinfo := 136
			if abi.Class == elf.ELFCLASS32 {
				prpsinfo = 128
			}
			if abi.ShortIDs {
				prpsinfo = 124
			}
			out := words(coretest.Output(t, coretest.Tool(t, "eu-readelf", "elfutils"), "-n", write(t, core.Bytes())))
			for _, want := range []string{
				fmt.Sprintf("CORE %d PRSTATUS info.si_signo: 6, info.si_code: 0, info.si_errno: 0, cursig: 6", abi.PrstatusSize),
				" pid: 4711,",
				fmt.Sprintf("CORE %d PRPSINFO", prpsinfo),
				"uid: 1001, gid: 1002, pid: 4242, ppid: 4200",
				"fname: victim, psargs: victim --now",
				"CORE 128 SIGINFO si_signo: 11, si_errno: 0, si_code: 2 fault address: 0xbadcaf",
				"BASE: 0x7f000000 PAGESZ: 4096 NULL",
				"1 files: 00010000-00012000 00003000 8192 /lib/libc.so.6",
			} {
				wantSaid(t, out, want)
			}
			if !strings.Contains(out, "11223344") && !strings.Contains(out, strconv.Itoa(0x11223344)) {
				t.Errorf("register 0 is not in:\n%s", out)
			}
		})
	}
}

// TestPoke has gdb read a list that was poked into memory.
func TestPoke(t *testing.T) {
	const base = 0x7f0000001000
	core := coretest.Core{ABI: coretest.X86_64, Loads: []coretest.Load{{Addr: base - 0x1000, Data: make([]byte, 16), Flags: coretest.RW}, {Addr: base, Data: make([]byte, 64), Flags: coretest.RW}}}
	core.Notes = []coretest.NoteSegment{{Notes: []coretest.Note{core.Prstatus(7, 6)}}}
	core.Poke(base+56, base)
	core.Poke32(base+8, 0xfffffffe)
	out := coretest.GDB(t, "-c", write(t, core.Bytes()), "-ex", "x/gx "+strconv.Itoa(base+56), "-ex", "x/2dw "+strconv.Itoa(base+8))
	wantSaid(t, words(out), "0x7f0000001038: 0x00007f0000001000 0x7f0000001008: -2 0")

	defer func() {
		if recover() == nil {
			t.Error("a word across the end of a segment was stored")
		}
	}()
	core.Poke(base+60, 1)
}

type programHeader struct {
	kind, flags                    string
	addr, fileSize, memSize, align uint64
	data                           string
}

var programHeaderLine = regexp.MustCompile(`(?m)^  (NOTE|LOAD) +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+) 0x(\w+) ([RWE ]*)(0x)?(\w+)$`)

// programHeaders are the program headers of a core as binutils sees them, and
// the data at their offsets.
func programHeaders(t *testing.T, core []byte) []programHeader {
	var found []programHeader
	for _, m := range programHeaderLine.FindAllStringSubmatch(coretest.Output(t, coretest.Tool(t, "readelf", "binutils"), "-lW", write(t, core)), -1) {
		number := func(i int) uint64 {
			v, err := strconv.ParseUint(m[i], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		p := programHeader{kind: m[1], flags: strings.ReplaceAll(m[6], " ", ""), addr: number(3), fileSize: number(4), memSize: number(5), align: number(8)}
		p.data = string(core[number(2):][:p.fileSize])
		found = append(found, p)
	}
	return found
}

func readelf(t *testing.T, core []byte, flag string) string {
	return words(coretest.Output(t, coretest.Tool(t, "readelf", "binutils"), flag, write(t, core)))
}

// words makes every run of white space one space.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

func wantSaid(t *testing.T, out, want string) {
	t.Helper()
	if !strings.Contains(out, want) {
		t.Errorf("%q is not in:\n%s", want, out)
	}
}

func write(t *testing.T, core []byte) string {
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, core, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
