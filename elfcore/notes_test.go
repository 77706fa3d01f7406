package elfcore_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

func TestNoNotes(t *testing.T) {
	c := read(t, (&coretest.Core{ABI: coretest.X86_64, Loads: manyLoads(1)}).Bytes())
	wantWarnings(t, c, elfcore.Warning{Text: "no notes"})
	if len(c.Threads) != 0 || c.NotesCut || c.Process != nil || c.Signal != nil || c.HasMappings || len(c.Auxv) != 0 || c.Producer != elfcore.UnknownProducer {
		t.Errorf("something came of nothing: %+v", c)
	}
}

func TestSeveralNoteSegments(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			core := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{
				{Notes: []coretest.Note{abi.Prstatus(3, 0), abi.Prstatus(1, 0)}},
				{},
				{Notes: []coretest.Note{abi.Prpsinfo(coretest.Prpsinfo{PID: 1})}, Align: 8},
				{Notes: []coretest.Note{abi.Prstatus(2, 0)}, Unpadded: true},
			}}
			c := read(t, core.Bytes())
			wantWarnings(t, c)
			if c.Process == nil || c.Process.PID != 1 {
				t.Errorf("the process is %+v", c.Process)
			}
			if c.Arch.Known() && !slices.Equal(tids(c), []int{3, 1, 2}) {
				t.Errorf("threads %v", tids(c))
			}
		})
	}
}

// Notes are padded to 4 bytes, whatever p_align says, except where p_align
// says 8 and they are padded to that.
func TestNotePadding(t *testing.T) {
	abi := coretest.X86_64
	// Sizes and names that leave every remainder of 4 and 8.
	var notes []coretest.Note
	for i := range 9 {
		notes = append(notes, coretest.Note{Name: "LINUX", Type: 0x7000, Desc: make([]byte, i)}, abi.Prstatus(int32(100+i), 0))
	}
	want := []int{100, 101, 102, 103, 104, 105, 106, 107, 108}
	for _, padding := range []uint64{4, 8} {
		for _, align := range []uint64{0, 1, 4, 8} {
			if padding == 8 && align != 8 {
				continue
			}
			core := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: notes, Align: padding}}}
			core.EditSegment = func(_ int, p *elf.Prog64) { p.Align = align }
			c := read(t, core.Bytes())
			wantWarnings(t, c)
			if !slices.Equal(tids(c), want) {
				t.Errorf("padded to %d with p_align %d: threads %v", padding, align, tids(c))
			}
		}
	}
}

func TestNoteNames(t *testing.T) {
	abi := coretest.X86_64
	desc := abi.Prstatus(7, 0).Desc
	for _, c := range []struct {
		name  string
		known bool
	}{
		{"CORE\x00", true}, {"CORE", true}, {"CORE\x00\x00\x00\x00", true}, {"LINUX\x00", true}, {"LINUX", true}, {"", true},
		{"GNU\x00", false}, {"SPU/3\x00", false}, {"core", false},
	} {
		// Here, since coretest ends every name with a NUL byte.
		core := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{{
			Data: slices.Concat(rawNote(binary.LittleEndian, c.name, elf.NT_PRSTATUS, desc), rawNote(binary.LittleEndian, "CORE", elf.NT_PRSTATUS, abi.Prstatus(8, 0).Desc)),
		}}}
		core.EditSegment = func(i int, p *elf.Prog64) { p.Type = uint32(elf.PT_NOTE) }
		want := []int{7, 8}
		if !c.known {
			want = want[1:]
		}
		got := read(t, core.Bytes())
		wantWarnings(t, got)
		if !slices.Equal(tids(got), want) {
			t.Errorf("named %q: threads %v", c.name, tids(got))
		}
	}
}

func TestUnknownNotes(t *testing.T) {
	abi := coretest.X86_64
	c := readNotes(t, abi,
		coretest.Note{Name: "CORE", Type: 0},
		coretest.Note{Name: "LINUX", Type: 0x202, Desc: make([]byte, 2696)}, // NT_X86_XSTATE
		abi.Prstatus(1, 0),
		coretest.Note{Name: "CORE", Type: 0x7fffffff, Desc: make([]byte, 70000)},
		coretest.Note{Name: "LINUX", Type: 0xffffffff >> 1},
		coretest.Note{Name: "GNU", Type: elf.NT_PRPSINFO, Desc: make([]byte, 136)},
		abi.Prstatus(2, 0),
	)
	wantWarnings(t, c)
	if !slices.Equal(tids(c), []int{1, 2}) || c.Process != nil {
		t.Errorf("threads %v, process %v", tids(c), c.Process)
	}
}

// A core that is cut inside its notes has the threads before the cut, and says
// that there may have been more.
func TestNotesCutAtEveryByte(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			core := withNotes(abi, abi.Prstatus(11, 6), abi.Prpsinfo(coretest.Prpsinfo{PID: 11}), abi.Siginfo(coretest.Siginfo{Signo: 6, Code: -6, Addr: 9}),
				abi.Auxv(coretest.AuxEntry{Type: 6, Value: 4096}), abi.File(4096, coretest.FileMapping{Start: 1, End: 2, Path: "/lib"}),
				abi.Prstatus(12, 0), abi.Prstatus(13, 0), coretest.Note{Name: "LINUX", Type: 0x200})
			b := core.Bytes()
			whole := read(t, b)
			wantWarnings(t, whole)
			notes := progs(t, b, elf.PT_NOTE)[0]
			for n := int(notes.Off); n < len(b); n++ {
				c := read(t, b[:n])
				if !c.NotesCut || c.MissingBytes != int64(len(b)-n) {
					t.Fatalf("cut at %#x: notes cut: %v, %d bytes missing of %d", n, c.NotesCut, c.MissingBytes, len(b)-n)
				}
				wantWarnings(t, c, elfcore.Warning{Offset: int64(n), Text: "ends inside its notes"})
				if len(c.Threads) > len(whole.Threads) {
					t.Fatalf("cut at %#x: threads %v", n, tids(c))
				}
				for i := range whole.Threads {
					want := &whole.Threads[i]
					kept := want.NoteOffset+int64(abi.PrstatusSize) <= int64(n)
					if kept != (i < len(c.Threads)) || kept && c.Threads[i].TID != want.TID {
						t.Fatalf("cut at %#x: threads %v of %v", n, tids(c), tids(whole))
					}
				}
			}
		})
	}
}

// A note that claims more than there is ends the reading of its segment, and
// nothing else.
func TestAbsurdNoteSizes(t *testing.T) {
	abi := coretest.X86_64
	for name, bad := range map[string]coretest.Note{
		"descriptor of 4 GiB":         {Name: "CORE", Type: elf.NT_PRSTATUS, Desc: []byte("x"), ClaimDesc: 0xffffffff},
		"descriptor past the segment": {Name: "CORE", Type: elf.NT_PRSTATUS, Desc: make([]byte, 336), ClaimDesc: 336 + 20 + 336 + 1},
		"name of 4 GiB":               {Name: "CORE", Type: elf.NT_PRSTATUS, ClaimName: 0xffffffff},
		"name past the segment":       {Name: "CORE", Type: elf.NT_PRSTATUS, ClaimName: 1000},
		"name of 4097 bytes":          {Name: string(make([]byte, 4096)), Type: elf.NT_PRSTATUS},
	} {
		t.Run(name, func(t *testing.T) {
			core := withNotes(abi, abi.Prstatus(1, 0), bad, abi.Prstatus(2, 0))
			core.Notes = append(core.Notes, coretest.NoteSegment{Notes: []coretest.Note{abi.Prstatus(3, 0)}})
			core.Loads = manyLoads(1)
			b := core.Bytes()
			c := read(t, b)
			wantWarnings(t, c, elfcore.Warning{Offset: int64(progs(t, b, elf.PT_NOTE)[0].Off) + 12 + 8 + 336, Text: "more than there is"})
			if !c.NotesCut || !slices.Equal(tids(c), []int{1, 3}) {
				t.Errorf("notes cut: %v, threads %v", c.NotesCut, tids(c))
			}
			wantManyLoads(t, c, 1)
		})
	}
}

func TestNotesBehindTheEnd(t *testing.T) {
	for _, offset := range []uint64{1 << 20, 1 << 62, ^uint64(0)} {
		core := withNotes(coretest.X86_64, coretest.X86_64.Prstatus(1, 0))
		core.EditSegment = func(_ int, p *elf.Prog64) { p.Off = offset }
		c := read(t, core.Bytes())
		wantWarnings(t, c, elfcore.Warning{Offset: c.Size, Text: "behind the end of the file"})
		if !c.NotesCut || !c.Truncated() || len(c.Threads) != 0 {
			t.Errorf("at %#x: notes cut: %v, %d bytes missing, threads %v", offset, c.NotesCut, c.MissingBytes, tids(c))
		}
	}
}

// Note segments one over the other are no way to have more threads than
// bytes.
func TestOverlappingNoteSegments(t *testing.T) {
	abi := coretest.X86_64
	core := withNotes(abi, slices.Repeat([]coretest.Note{abi.Prstatus(1, 0)}, 100)...)
	core.Notes = append(core.Notes, make([]coretest.NoteSegment, 50)...)
	var first elf.Prog64
	core.EditSegment = func(i int, p *elf.Prog64) {
		if i == 0 {
			first = *p
		}
		*p = first
	}
	b := core.Bytes()
	c := read(t, b)
	if !c.NotesCut || len(c.Threads)*abi.PrstatusSize > len(b) || len(c.Threads) < 100 {
		t.Errorf("notes cut: %v, %d threads", c.NotesCut, len(c.Threads))
	}
	wantWarnings(t, c, elfcore.Warning{Offset: int64(first.Off), Text: "overlap"})
}

// The warnings about a core end where nobody would read on.
func TestManyWarnings(t *testing.T) {
	c := readNotes(t, coretest.X86_64, slices.Repeat([]coretest.Note{{Name: "CORE", Type: elf.NT_PRSTATUS, Desc: []byte("short")}}, 100)...)
	if n := len(c.Warnings); n != 65 || c.Warnings[63].Text != c.Warnings[0].Text || c.Warnings[64].Text == c.Warnings[0].Text {
		t.Errorf("%d warnings: %v", n, c.Warnings)
	}
}

func TestWarningText(t *testing.T) {
	for want, w := range map[string]elfcore.Warning{"odd": {Text: "odd"}, "at offset 0x1f: odd": {Offset: 31, Text: "odd"}} {
		if got := w.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Notes that are longer than any of their kind are read as far as they are
// known.
func TestLongNotes(t *testing.T) {
	abi := coretest.X86_64
	var notes []coretest.Note
	for _, n := range []coretest.Note{abi.Prstatus(1, 6), abi.Prpsinfo(coretest.Prpsinfo{PID: 1}), abi.Siginfo(coretest.Siginfo{Signo: 6})} {
		n.Desc = append(n.Desc, bytes.Repeat([]byte{0xee}, 5000)...)
		notes = append(notes, n)
	}
	c := readNotes(t, abi, notes...)
	if !slices.Equal(tids(c), []int{1}) || c.Process == nil || c.Process.PID != 1 || c.Signal == nil || c.Signal.Number != 6 {
		t.Errorf("threads %v, process %v, signal %v", tids(c), c.Process, c.Signal)
	}
	at := c.Threads[0].NoteOffset
	wantWarnings(t, c, elfcore.Warning{Offset: at, Text: "only the first 4096"}, elfcore.Warning{Offset: at, Text: "where x86_64 has 336"},
		elfcore.Warning{Offset: at + 336 + 5000 + 20, Text: "only the first 4096"}, elfcore.Warning{Offset: at + 336 + 136 + 2*(5000+20), Text: "only the first 4096"})
}
