package elfcore_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// Memory that is not there is told by why, and what is in front of it is read.
func TestReadMemory(t *testing.T) {
	abi := coretest.X86_64
	core := withNotes(abi, abi.File(4096, coretest.FileMapping{Start: 0x6000, End: 0x7000, Path: "/lib/not-dumped"}))
	core.Loads = []coretest.Load{
		{Addr: 0x1000, Data: []byte("abcd"), Align: 1},
		{Addr: 0x1004, Data: []byte("efgh"), MemSize: 8, Align: 1},
		{Addr: 0x3000, MemSize: 0x1000},
		{Addr: ^uint64(15), Data: []byte("at the top!")},
		{Addr: 0x100c, Data: []byte("ijkl"), Align: 1},
	}
	b := core.Bytes()
	last := progs(t, b, elf.PT_LOAD)[4]
	b = b[:last.Off+2]
	c := read(t, b)
	if c.MissingBytes != 2 || !c.Truncated() || c.NotesCut {
		t.Errorf("%d bytes missing, notes cut: %v", c.MissingBytes, c.NotesCut)
	}
	for _, r := range []struct {
		addr  elfcore.Addr
		size  int
		want  string
		fault *elfcore.Fault
	}{
		{0x1000, 0, "", nil},
		{0x1000, 4, "abcd", nil},
		{0x1001, 6, "bcdefg", nil},
		{0x1007, 1, "h", nil},
		{0x1000, 9, "abcdefgh", &elfcore.Fault{Addr: 0x1008, Why: elfcore.NotDumped}},
		{0x1009, 4, "", &elfcore.Fault{Addr: 0x1009, Why: elfcore.NotDumped}},
		{0x100c, 2, "ij", nil},
		{0x100c, 5, "ij", &elfcore.Fault{Addr: 0x100e, Why: elfcore.Truncated, Offset: int64(last.Off) + 2}},
		{0x100f, 1, "", &elfcore.Fault{Addr: 0x100f, Why: elfcore.Truncated, Offset: int64(last.Off) + 3}},
		{0x1010, 1, "", &elfcore.Fault{Addr: 0x1010}},
		{0xfff, 2, "", &elfcore.Fault{Addr: 0xfff}},
		{0, 1, "", &elfcore.Fault{}},
		{0x3fff, 2, "", &elfcore.Fault{Addr: 0x3fff, Why: elfcore.NotDumped}},
		{0x5fff, 2, "", &elfcore.Fault{Addr: 0x5fff}},
		{0x6fff, 2, "", &elfcore.Fault{Addr: 0x6fff, Why: elfcore.NotDumped}}, // by NT_FILE alone
		{^elfcore.Addr(15), 11, "at the top!", nil},
		{^elfcore.Addr(15), 20, "at the top!", &elfcore.Fault{Addr: ^elfcore.Addr(4)}},
		{^elfcore.Addr(0), 1, "", &elfcore.Fault{Addr: ^elfcore.Addr(0)}},
	} {
		p := bytes.Repeat([]byte{'#'}, r.size)
		n, err := c.ReadMemory(p, r.addr)
		if string(p[:n]) != r.want || !bytes.Equal(p[n:], bytes.Repeat([]byte{'#'}, r.size-n)) {
			t.Errorf("%d bytes at %s: %d bytes of %q", r.size, r.addr, n, p)
		}
		if r.fault != nil {
			wantFault(t, err, *r.fault)
		} else if err != nil {
			t.Errorf("%d bytes at %s: %v", r.size, r.addr, err)
		}
		at := r.addr + elfcore.Addr(n)
		offset, ok := c.Locate(r.addr)
		if ok != (r.want != "" || r.fault == nil && r.size == 0) || ok && n > 0 && b[offset] != r.want[0] {
			t.Errorf("%s is located at %#x (%v)", r.addr, offset, ok)
		}
		if _, ok := c.Locate(at); r.fault != nil && ok {
			t.Errorf("%s is located, though it is not there", at)
		}
	}
}

// A read that would go over the top of the address space ends there.
func TestReadMemoryOverTheTop(t *testing.T) {
	core := coretest.Core{ABI: coretest.X86_64, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{{Addr: ^uint64(7), Data: []byte("7 bytes")}}}
	c := read(t, core.Bytes())
	p := make([]byte, 16)
	n, err := c.ReadMemory(p, ^elfcore.Addr(7))
	if string(p[:n]) != "7 bytes" {
		t.Errorf("read %q", p[:n])
	}
	wantFault(t, err, elfcore.Fault{Addr: ^elfcore.Addr(0)})
	s, err := c.CString(^elfcore.Addr(7), 100)
	if s != "7 bytes" {
		t.Errorf("the string is %q", s)
	}
	wantFault(t, err, elfcore.Fault{Addr: ^elfcore.Addr(0)})
}

// A segment may claim more of the core than numbers can tell.
func TestReadMemoryFarAway(t *testing.T) {
	core := coretest.Core{ABI: coretest.X86_64, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{{Data: []byte("a few bytes")}}}
	var start uint64
	core.EditSegment = func(_ int, p *elf.Prog64) { // the last one is PT_LOAD
		start = p.Off
		p.Filesz, p.Memsz = ^uint64(0), ^uint64(0)
	}
	b := core.Bytes()
	c := read(t, b)
	size := uint64(len(b)) - start
	if s, err := c.CString(0, 5); s != "a few" || err != nil {
		t.Errorf("read %q (%v)", s, err)
	}
	for _, a := range []elfcore.Addr{elfcore.Addr(size), 1 << 40, 1<<62 - 1} {
		_, err := c.ReadMemory(make([]byte, 1), a)
		wantFault(t, err, elfcore.Fault{Addr: a, Why: elfcore.Truncated, Offset: int64(start + uint64(a))})
	}
	for _, a := range []elfcore.Addr{1 << 62, 1 << 63, 1<<63 + 10, ^elfcore.Addr(1)} {
		if _, ok := c.Locate(a); ok {
			t.Errorf("%s is located", a)
		}
		_, err := c.ReadMemory(make([]byte, 1), a)
		wantFault(t, err, elfcore.Fault{Addr: a, Why: elfcore.NotDumped})
	}
}

func TestCString(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 20)
	core := coretest.Core{ABI: coretest.X86_64, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{
		{Addr: 0x1000, Data: append(slices.Clone(long), "\x00second\x00\x00un"...)},
		{Addr: 0x1000 + 200 + 11, Data: []byte("ended")},
	}}
	c := read(t, core.Bytes())
	end := elfcore.Addr(0x1000 + 200 + 16)
	for _, s := range []struct {
		addr  elfcore.Addr
		max   int
		want  string
		fault bool
	}{
		{0x1000, 4096, string(long), false},
		{0x1000, 200, string(long), false},
		{0x1000, 64, string(long[:64]), false},
		{0x1000, 65, string(long[:65]), false},
		{0x1000, 0, "", false},
		{0x1000 + 201, 100, "second", false},
		{0x1000 + 208, 100, "", false},
		{0x1000 + 209, 100, "unended", true},
		{0x1000 + 209, 7, "unended", false},
		{end, 10, "", true},
	} {
		got, err := c.CString(s.addr, s.max)
		if got != s.want {
			t.Errorf("at %s, at most %d: %q", s.addr, s.max, got)
		}
		if s.fault {
			wantFault(t, err, elfcore.Fault{Addr: end})
		} else if err != nil {
			t.Errorf("at %s: %v", s.addr, err)
		}
	}
}

func TestWordFaults(t *testing.T) {
	core := coretest.Core{ABI: coretest.X86_64, Notes: []coretest.NoteSegment{{}}, Loads: []coretest.Load{{Addr: 0x1000, Data: make([]byte, 7)}}}
	c := read(t, core.Bytes())
	_, err := c.Word(0x1000)
	wantFault(t, err, elfcore.Fault{Addr: 0x1007})
	_, err = c.Uint32(0x1004)
	wantFault(t, err, elfcore.Fault{Addr: 0x1007})
}

func TestFaultTexts(t *testing.T) {
	for _, c := range []struct {
		fault elfcore.Fault
		text  string
		why   string
	}{
		{elfcore.Fault{Addr: 0x1234}, "no memory was mapped at 0x1234", "unmapped"},
		{elfcore.Fault{Addr: 0x1234, Why: elfcore.NotDumped}, "memory at 0x1234 was mapped but is not in the core", "not dumped"},
		{elfcore.Fault{Addr: 0x1234, Why: elfcore.Truncated, Offset: 0x99}, "memory at 0x1234 is missing: the core ends before offset 0x99", "cut off"},
	} {
		if c.fault.Error() != c.text || c.fault.Why.String() != c.why {
			t.Errorf("%q, %q", c.fault.Error(), c.fault.Why)
		}
	}
}

func TestReadAt(t *testing.T) {
	b := withNotes(coretest.X86_64, coretest.X86_64.Prstatus(1, 0)).Bytes()
	c := read(t, b)
	if err := iotest.TestReader(io.NewSectionReader(c, 0, c.Size), b); err != nil {
		t.Error(err)
	}
	for _, at := range []int64{-1, c.Size, c.Size + 1, 1 << 62} {
		if n, err := c.ReadAt(make([]byte, 1), at); n != 0 || err != io.EOF {
			t.Errorf("at %d: %d bytes (%v)", at, n, err)
		}
	}
}

// dump is a random core with what the standard library says of its segments.
type dump struct {
	abi   coretest.ABI
	bytes []byte
	loads []elf.ProgHeader // without overlaps, by address
}

func drawDump(t *rapid.T) dump {
	abi := rapid.SampledFrom([]coretest.ABI{coretest.X86_64, coretest.S390X, coretest.I386, coretest.PPC32}).Draw(t, "abi")
	core := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: []coretest.Note{abi.Prstatus(1, 0), abi.Prstatus(2, 0)}}}}
	addr := uint64(0x1000)
	for i := range rapid.IntRange(1, 8).Draw(t, "segments") {
		addr += rapid.SampledFrom([]uint64{0, 0, 1, 64}).Draw(t, "gap")
		data := rapid.SampledFrom([]int{0, 1, 7, 64, 5000}).Draw(t, "dumped")
		more := rapid.SampledFrom([]int{0, 0, 1, 100}).Draw(t, "left out")
		l := coretest.Load{Addr: addr, Data: make([]byte, data), MemSize: uint64(data + more), Align: 1}
		for j := range l.Data {
			l.Data[j] = byte(i*37 + j*11 + 1)
		}
		addr += uint64(data + more)
		core.Loads = append(core.Loads, l)
	}
	b := core.Bytes()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	d := dump{abi: abi, bytes: b}
	for _, p := range f.Progs[1:] {
		d.loads = append(d.loads, p.ProgHeader)
	}
	return d
}

// at says what there is of a byte of memory in the first size bytes of the
// core.
func (d dump) at(a elfcore.Addr, size int) (b byte, fault *elfcore.Fault) {
	for _, p := range d.loads {
		in := uint64(a) - p.Vaddr
		switch {
		case uint64(a) < p.Vaddr || in >= p.Memsz:
			continue
		case in >= p.Filesz:
			return 0, &elfcore.Fault{Addr: a, Why: elfcore.NotDumped}
		case p.Off+in >= uint64(size):
			return 0, &elfcore.Fault{Addr: a, Why: elfcore.Truncated, Offset: int64(p.Off + in)}
		}
		return d.bytes[p.Off+in], nil
	}
	return 0, &elfcore.Fault{Addr: a}
}

// Reads of a core that is cut anywhere behind its headers give every byte that
// is there, and tell of the first that is not why.
func TestReadMemoryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDump(t)
		first := int(d.loads[0].Off)
		size := rapid.IntRange(first, len(d.bytes)).Draw(t, "size")
		c, err := elfcore.New(bytes.NewReader(d.bytes[:size]), int64(size))
		if err != nil {
			t.Fatal(err)
		}
		end := d.loads[len(d.loads)-1]
		for range 20 {
			a := elfcore.Addr(rapid.Uint64Range(0xff0, end.Vaddr+end.Memsz+8).Draw(t, "address"))
			p := make([]byte, rapid.IntRange(1, 6000).Draw(t, "length"))
			n, err := c.ReadMemory(p, a)
			for i, got := range p[:n] {
				if want, fault := d.at(a+elfcore.Addr(i), size); fault != nil || got != want {
					t.Fatalf("%s is %#x, want %#x (%v)", a+elfcore.Addr(i), got, want, fault)
				}
			}
			if n == len(p) {
				if err != nil {
					t.Fatalf("all was read, and yet: %v", err)
				}
				continue
			}
			_, want := d.at(a+elfcore.Addr(n), size)
			if got, ok := err.(*elfcore.Fault); !ok || want == nil || *got != *want {
				t.Fatalf("%d of %d bytes at %s: the error is %v, want %v", n, len(p), a, err, want)
			}
		}
	})
}

// However short a core is cut, what it gives is what the whole one gives.
func TestCutAtEveryByte(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			core := withNotes(abi, abi.Prstatus(1, 6), abi.Prpsinfo(coretest.Prpsinfo{PID: 1}), abi.Prstatus(2, 0))
			core.ExtendedCount = true
			for i := range 5 {
				core.Loads = append(core.Loads, coretest.Load{Addr: 0x1000 + uint64(i)*0x1000, Data: []byte(fmt.Sprintf("memory of segment %d", i)), Align: 1})
			}
			var offsets []int
			core.EditSegment = func(_ int, p *elf.Prog64) { offsets = append(offsets, int(p.Off)) }
			b := core.Bytes()
			whole := read(t, b)
			for size := range b {
				c, err := elfcore.New(bytes.NewReader(b[:size]), int64(size))
				if (err != nil) != (c == nil) {
					t.Fatalf("cut at %d: a core and an error: %v", size, err)
				}
				if err != nil {
					continue
				}
				if !slices.Equal(tids(c), tids(whole)[:len(c.Threads)]) {
					t.Fatalf("cut at %d: threads %v", size, tids(c))
				}
				for i := range whole.Segments {
					a := whole.Segments[i].Start
					got, err := c.CString(a, 100)
					want, _ := whole.CString(a, 100)
					there := min(max(size-offsets[1+i], 0), len(want)) // behind PT_NOTE
					if len(c.Segments) < len(whole.Segments) {
						there = 0 // the headers are cut
					}
					if got != want[:there] || err == nil {
						t.Fatalf("cut at %d: %q at %s (%v)", size, got, a, err)
					}
				}
			}
		})
	}
}
