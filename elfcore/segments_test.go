package elfcore_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

func TestSegments(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			b := (&coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{
				{Addr: 0x9000, Data: []byte("the higher one is first in the file"), Flags: coretest.RW},
				{Addr: 0x1000, Data: []byte("dumped in part"), MemSize: 0x2000, Flags: coretest.RX},
				{Addr: 0x4123, Data: []byte("odd"), Flags: coretest.RO, Align: 1},
				{Addr: 0x6000, MemSize: 0x1000},
			}}).Bytes()
			c := read(t, b)
			wantWarnings(t, c)
			var want []elfcore.Segment
			for i, p := range progs(t, b, elf.PT_LOAD) {
				want = append(want, elfcore.Segment{
					Range:  elfcore.Range{Start: elfcore.Addr(p.Vaddr), End: elfcore.Addr(p.Vaddr + p.Memsz)},
					Offset: int64(p.Off), FileSize: p.Filesz, Flags: p.Flags, Index: 1 + i, // behind PT_NOTE
				})
			}
			want = []elfcore.Segment{want[1], want[2], want[3], want[0]}
			if !slices.Equal(c.Segments, want) {
				t.Errorf("segments\n%v, want\n%v", c.Segments, want)
			}
			for i, protection := range []string{"r-x", "r--", "---", "rw-"} {
				s, got := &c.Segments[i], []byte("---")
				for j, on := range []bool{s.Readable(), s.Writable(), s.Executable()} {
					if on {
						got[j] = "rwx"[j]
					}
				}
				if string(got) != protection {
					t.Errorf("segment %s is %s, want %s", s.Range, got, protection)
				}
			}
			if c.Truncated() || c.NotesCut {
				t.Errorf("missing %d bytes, notes cut: %v", c.MissingBytes, c.NotesCut)
			}
		})
	}
}

// manyLoads are adjacent segments of one byte each, the low byte of their
// index.
func manyLoads(n int) []coretest.Load {
	loads := make([]coretest.Load, n)
	for i := range loads {
		loads[i] = coretest.Load{Addr: 0x10000 + uint64(i), Data: []byte{byte(i)}, Align: 1}
	}
	return loads
}

func wantManyLoads(t *testing.T, c *elfcore.Core, n int) {
	t.Helper()
	if len(c.Segments) != n {
		t.Fatalf("%d segments, want %d", len(c.Segments), n)
	}
	got := make([]byte, n)
	if m, err := c.ReadMemory(got, 0x10000); m != n || err != nil {
		t.Fatalf("%d bytes read (%v)", m, err)
	}
	for i, b := range got {
		if b != byte(i) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}

// From 65535 program headers on their number stands in section header 0.
func TestExtendedSegmentCount(t *testing.T) {
	const many = 70000
	for name, abi := range map[string]coretest.ABI{"64 little": coretest.X86_64, "32 big": coretest.PPC32} {
		t.Run(name, func(t *testing.T) {
			header, _, section := elfSizes(abi)
			core := withNotes(abi, abi.Prstatus(4711, 0))
			core.Loads = manyLoads(many)
			b := core.Bytes()
			c := read(t, b)
			wantManyLoads(t, c, many)
			wantWarnings(t, c)

			// Where that is missing, the notes, which stand right behind the
			// program headers, tell.
			missing := elfcore.Warning{
				Offset: offsetOf(abi, unsafe.Offsetof(elf.Header32{}.Phnum), unsafe.Offsetof(elf.Header64{}.Phnum)),
				Text:   fmt.Sprintf("at offset %#x, is missing", len(b)-section),
			}
			cut := b[:len(b)-section]
			empty := append(slices.Clone(cut), make([]byte, section)...)
			for _, damaged := range [][]byte{b[:len(b)-1], empty} {
				c = read(t, damaged)
				wantManyLoads(t, c, many)
				wantWarnings(t, c, missing)
				if c.Arch.Known() && !slices.Equal(tids(c), []int{4711}) {
					t.Errorf("threads %v", tids(c))
				}
			}

			// Without notes there are at least as many as the ELF header has
			// room for, here one of PT_NULL.
			abi.Order.PutUint32(cut[header:], uint32(elf.PT_NULL))
			c = read(t, cut)
			wantManyLoads(t, c, 65534)
			wantWarnings(t, c, missing, elfcore.Warning{Text: "no notes"})
		})
	}
}

// Few segments may be counted there as well, and then the notes behind them
// must not be taken for more.
func TestExtendedCountOfFew(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			core := withNotes(abi, abi.Prstatus(4711, 0))
			core.Loads, core.ExtendedCount = manyLoads(5), true
			b := core.Bytes()
			wantManyLoads(t, read(t, b), 5)
			wantManyLoads(t, read(t, b[:len(b)-1]), 5)
		})
	}
}

func TestForeignExtendedSegmentCount(t *testing.T) {
	b := foreign(t, "rizin-more-than-65535-segments.core")
	said := coretest.Output(t, coretest.Tool(t, "readelf", "binutils"), "-hW", writeCore(t, b))
	count := regexp.MustCompile(`program headers: +65535 \((\d+)\)`).FindStringSubmatch(said)
	if count == nil {
		t.Fatalf("readelf counts no program headers:\n%s", said)
	}
	want, err := strconv.Atoi(count[1])
	if err != nil {
		t.Fatal(err)
	}
	if c := read(t, b); len(c.Segments) != want { // all are PT_LOAD
		t.Errorf("%d segments, readelf counts %d", len(c.Segments), want)
	}
}

// Program headers may be longer than this tool knows them, and at any offset.
func TestLongProgramHeaders(t *testing.T) {
	for name, abi := range forms {
		for _, more := range []int{1, 8, 3000} {
			t.Run(fmt.Sprint(name, "+", more), func(t *testing.T) {
				core := withNotes(abi, abi.Prstatus(4711, 0))
				core.Loads = manyLoads(9)
				b := core.Bytes()
				at, size, _ := elfSizes(abi)
				core.EditHeader = func(h *elf.Header64) { h.Phoff, h.Phentsize = uint64(len(b)), uint16(size+more) }
				long := core.Bytes()
				for i := range 10 {
					long = append(long, b[at+i*size:][:size]...)
					long = append(long, bytes.Repeat([]byte{0xee}, more)...)
				}
				wantManyLoads(t, read(t, long), 9)
				c := read(t, long[:len(long)-1])
				wantManyLoads(t, c, 8)
				if c.MissingBytes != 1 || !c.NotesCut {
					t.Errorf("%d bytes missing, notes cut: %v", c.MissingBytes, c.NotesCut)
				}
			})
		}
	}
}

// What a segment claims is corrected to what can be.
func TestOddSegments(t *testing.T) {
	const data = "sixteen bytes!!!"
	for _, c := range []struct {
		name    string
		abi     coretest.ABI
		edit    func(p *elf.Prog64)
		want    elfcore.Range
		size    uint64 // FileSize
		warning string
	}{
		{"as it should be", coretest.X86_64, func(p *elf.Prog64) {}, elfcore.Range{Start: 0x1000, End: 0x1010}, 16, ""},
		{"file size above memory size", coretest.X86_64, func(p *elf.Prog64) { p.Memsz = 8 }, elfcore.Range{Start: 0x1000, End: 0x1008}, 8, "holds more bytes (16) than it is long (8)"},
		{"no memory size", coretest.X86_64, func(p *elf.Prog64) { p.Memsz = 0 }, elfcore.Range{Start: 0x1000, End: 0x1010}, 16, ""},
		{"over the top", coretest.X86_64, func(p *elf.Prog64) { p.Vaddr = ^uint64(7) }, elfcore.Range{Start: ^elfcore.Addr(7), End: ^elfcore.Addr(0)}, 7, "leaves the address space"},
		{"all memory", coretest.X86_64, func(p *elf.Prog64) { p.Vaddr, p.Memsz = 0, ^uint64(0) }, elfcore.Range{Start: 0, End: ^elfcore.Addr(0)}, 16, ""},
		{"up to the top, 32 bits", coretest.I386, func(p *elf.Prog64) { p.Vaddr = 0xfffffff0 }, elfcore.Range{Start: 0xfffffff0, End: 1 << 32}, 16, ""},
		{"over the top, 32 bits", coretest.I386, func(p *elf.Prog64) { p.Vaddr = 0xfffffff8 }, elfcore.Range{Start: 0xfffffff8, End: 1 << 32}, 8, "leaves the address space"},
		{"far away", coretest.X86_64, func(p *elf.Prog64) { p.Off = 1 << 63 }, elfcore.Range{Start: 0x1000, End: 0x1010}, 16, "offset 0x8000000000000000"},
		{"no end", coretest.X86_64, func(p *elf.Prog64) { p.Filesz, p.Memsz = ^uint64(0)>>1, ^uint64(0)>>1 }, elfcore.Range{Start: 0x1000, End: 1<<63 + 0xfff}, 1 << 62, "claims 0x7fffffffffffffff bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			core := coretest.Core{ABI: c.abi, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{{Addr: 0x1000, Data: []byte(data)}}}
			core.EditSegment = func(i int, p *elf.Prog64) {
				if i == 1 {
					c.edit(p)
				}
			}
			got := read(t, core.Bytes())
			if len(got.Segments) != 1 || got.Segments[0].Range != c.want || got.Segments[0].FileSize != c.size {
				t.Fatalf("segments %+v, want %v with %d bytes", got.Segments, c.want, c.size)
			}
			if c.warning == "" {
				wantWarnings(t, got)
				return
			}
			header, size, _ := elfSizes(c.abi) // of the ELF header and PT_NOTE
			wantWarnings(t, got, elfcore.Warning{Offset: int64(header + size), Text: c.warning})
		})
	}
}

func TestEmptySegments(t *testing.T) {
	core := coretest.Core{ABI: coretest.X86_64, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{{Addr: 0x1000}, {Addr: ^uint64(0), MemSize: 1}}}
	if c := read(t, core.Bytes()); len(c.Segments) != 0 {
		t.Errorf("segments of no bytes: %v", c.Segments)
	}
}

// Where segments overlap, each address belongs to the one that starts later,
// or, if they start together, comes later.
func TestOverlappingSegments(t *testing.T) {
	c := read(t, (&coretest.Core{ABI: coretest.X86_64, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{
		{Addr: 0x1004, Data: []byte("bbbb")},
		{Addr: 0x1000, Data: []byte("aaaaaaaaaaaa")},
		{Addr: 0x1006, Data: []byte("cccc"), MemSize: 8},
		{Addr: 0x2000, MemSize: 0x1000},
		{Addr: 0x2000, Data: []byte("dddd")},
	}}).Bytes())
	if s, err := c.CString(0x1000, 10); s != "aaaabbcccc" || err != nil {
		t.Errorf("the first run reads %q (%v)", s, err)
	}
	if s, err := c.CString(0x2000, 4); s != "dddd" || err != nil {
		t.Errorf("the second run reads %q (%v)", s, err)
	}
	wantWarnings(t, c, elfcore.Warning{Text: "3 segments overlap"})
	for i := 1; i < len(c.Segments); i++ {
		if c.Segments[i-1].End > c.Segments[i].Start {
			t.Errorf("%s and %s still overlap", c.Segments[i-1].Range, c.Segments[i].Range)
		}
	}
}

// What a small file claims costs nothing.
func TestClaimsCostNothing(t *testing.T) {
	const bound = 1 << 20
	abi := coretest.X86_64
	var section elf.Section64
	section.Info = 1_000_000
	sectionHeader, err := binary.Append(nil, abi.Order, section)
	if err != nil {
		t.Fatal(err)
	}
	for name, core := range map[string]*coretest.Core{
		"a million segments": {ABI: abi, Notes: []coretest.NoteSegment{{Notes: []coretest.Note{{Name: "X", Desc: sectionHeader}}}},
			EditHeader: func(h *elf.Header64) { h.Phnum, h.Shoff = 0xffff, 64+56+16 }}, // behind the headers, in the note
		"65535 segments":            {ABI: abi, Loads: manyLoads(3), EditHeader: func(h *elf.Header64) { h.Phnum = 0xffff }},
		"the longest headers":       {ABI: abi, Loads: manyLoads(3), EditHeader: func(h *elf.Header64) { h.Phnum, h.Phentsize = 0xfffe, 0xffff }},
		"a note of 4 GiB":           withNotes(abi, coretest.Note{Name: "CORE", Type: elf.NT_PRSTATUS, ClaimDesc: 0xffffffff}),
		"a name of 4 GiB":           withNotes(abi, coretest.Note{Name: "CORE", Type: elf.NT_PRSTATUS, ClaimName: 0xffffffff}),
		"notes without end":         {ABI: abi, Notes: []coretest.NoteSegment{{Notes: []coretest.Note{abi.Prstatus(1, 0)}}}, EditSegment: func(_ int, p *elf.Prog64) { p.Filesz = ^uint64(0) }},
		"2^60 mapped files":         withNotes(abi, coretest.Note{Name: "CORE", Type: 0x46494c45, Desc: abi.Words(1<<60, 4096, 1, 2, 3)}),
		"a segment of all memory":   {ABI: abi, Loads: manyLoads(1), EditSegment: func(_ int, p *elf.Prog64) { p.Vaddr, p.Memsz, p.Filesz = 0, ^uint64(0), ^uint64(0) }},
		"65534 segments of no file": {ABI: abi, Loads: manyLoads(1), EditHeader: func(h *elf.Header64) { h.Phnum = 0xfffe }},
	} {
		t.Run(name, func(t *testing.T) {
			b := core.Bytes()
			if got := allocated(func() { elfcore.New(bytes.NewReader(b), int64(len(b))) }); got > bound {
				t.Errorf("%d bytes allocated for a file of %d", got, len(b))
			}
			if name == "a million segments" && !strings.Contains(fmt.Sprint(read(t, b).Warnings), "of 1000000 are missing") {
				t.Errorf("the claim was not read: %v", read(t, b).Warnings)
			}
		})
	}
}

// What there is costs a small multiple of itself, whatever it says.
func TestRepetitionsCostLittle(t *testing.T) {
	const most = 16 // bytes allocated for each of the file
	abi := coretest.I386
	wide := coretest.X86_64
	over := &coretest.Core{ABI: wide, Notes: []coretest.NoteSegment{{Notes: slices.Repeat([]coretest.Note{wide.Prstatus(1, 0)}, 3000)}}}
	first := over.Notes[0]
	over.Notes = append(over.Notes, make([]coretest.NoteSegment, 2000)...)
	var notes elf.Prog64
	over.EditSegment = func(i int, p *elf.Prog64) {
		if i == 0 {
			notes = *p
		}
		*p = notes // all are the first
	}
	for name, core := range map[string]*coretest.Core{
		"odd segments":                     {ABI: wide, Loads: manyLoads(10000), EditSegment: func(_ int, p *elf.Prog64) { p.Filesz = 2 }},
		"note segments one over the other": over,
		"threads":                          {ABI: wide, Notes: []coretest.NoteSegment{first}},
		"empty notes":                      {ABI: abi, Notes: []coretest.NoteSegment{{Notes: slices.Repeat([]coretest.Note{{Name: "CORE", Type: 0x200}}, 30000)}}},
		"empty notes of a thread":          {ABI: abi, Notes: []coretest.NoteSegment{{Notes: append([]coretest.Note{abi.Prstatus(1, 0)}, slices.Repeat([]coretest.Note{{Name: "CORE", Type: 0x200}}, 30000)...)}}},
		"short threads":                    {ABI: abi, Notes: []coretest.NoteSegment{{Notes: slices.Repeat([]coretest.Note{{Name: "CORE", Type: 1, Desc: []byte{1}}}, 30000)}}},
		"empty paths":                      withNotes(abi, abi.File(4096, slices.Repeat([]coretest.FileMapping{{Start: 1, End: 2}}, 30000)...)),
	} {
		t.Run(name, func(t *testing.T) {
			b := core.Bytes()
			var c *elfcore.Core
			var err error
			got := allocated(func() { c, err = elfcore.New(bytes.NewReader(b), int64(len(b))) })
			if err != nil {
				t.Fatal(err)
			}
			if got > uint64(most*len(b)) {
				t.Errorf("%d bytes allocated for a file of %d", got, len(b))
			}
			if len(c.Warnings) > 65 {
				t.Errorf("%d warnings", len(c.Warnings))
			}
		})
	}
}
