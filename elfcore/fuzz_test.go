package elfcore_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// seeds are the first 8 KiB of cores of every kind, whole and damaged.
func seeds() [][]byte {
	var out [][]byte
	add := func(c *coretest.Core) {
		b := c.Bytes()
		out = append(out, b[:min(len(b), 8192)])
	}
	for _, abi := range abis {
		const base = 0x7000
		core := withNotes(abi, abi.Prstatus(1, 6, 1, 2, 3), abi.Prpsinfo(coretest.Prpsinfo{PID: 1, Command: "a", Args: "a b"}), abi.Siginfo(coretest.Siginfo{Signo: 11, Code: 1, Addr: 5}),
			abi.Auxv(coretest.AuxEntry{Type: 33, Value: base}, coretest.AuxEntry{Type: 6, Value: 4096}), abi.File(4096, coretest.FileMapping{Start: 0x1000, End: 0x2000, Path: "/lib"}),
			coretest.Note{Name: "LINUX", Type: 0x401, Desc: make([]byte, 16)}, coretest.Note{Name: "LINUX", Type: 0x200, Desc: make([]byte, 48)}, abi.Prstatus(2, 0))
		core.Loads = []coretest.Load{
			{Addr: 0x1000, Data: []byte("memory"), MemSize: 0x1000, Flags: coretest.RW, Align: 1},
			{Addr: base, Data: vdso(abi, coretest.NoteSegment{Notes: []coretest.Note{{Name: "Linux", Desc: []byte{1, 2, 3, 4}}}}), Align: 1},
		}
		add(core)
		core.ExtendedCount = true
		core.Notes[0].Align = 8
		core.Notes = append(core.Notes, core.Notes[0])
		add(core)
		core.EditSegment = func(i int, p *elf.Prog64) { p.Off, p.Filesz, p.Memsz = p.Off<<uint(8*i), ^uint64(0), ^uint64(i) }
		add(core)
	}
	return out
}

func FuzzNew(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { hostile(t, b) })
}

// What numbers a core has are replaced by such as break sums and bounds.
func TestHostileNumbers(t *testing.T) {
	all := seeds()
	rapid.Check(t, func(t *rapid.T) {
		b := slices.Clone(rapid.SampledFrom(all).Draw(t, "core"))
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			at := 4 * rapid.IntRange(4, min(len(b)/4-2, 300)).Draw(t, "at")
			v := rapid.SampledFrom([]uint64{0, 1, 0x7f, 0xff, 1 << 12, 1<<16 - 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 62, 1<<63 - 1, 1 << 63, ^uint64(0), uint64(len(b))}).Draw(t, "value")
			switch rapid.IntRange(0, 3).Draw(t, "size") {
			case 0:
				b[at] = byte(v)
			case 1:
				binary.LittleEndian.PutUint16(b[at:], uint16(v))
			case 2:
				binary.LittleEndian.PutUint32(b[at:], uint32(v))
			case 3:
				binary.LittleEndian.PutUint64(b[at:], v)
			}
		}
		hostile(t, b)
	})
}

// hostile reads anything as a core. That must not panic, and must not use more
// memory than a small multiple of what there is to read.
func hostile(t rapid.TB, b []byte) {
	const fixed, most = 1 << 20, 64
	var c *elfcore.Core
	var err error
	if n := allocated(func() { c, err = elfcore.New(bytes.NewReader(b), int64(len(b))) }); n > uint64(fixed+most*len(b)) {
		t.Errorf("%d bytes allocated for %d", n, len(b))
	}
	if err == nil {
		consistent(t, c, b)
		return
	}
	var bad *elfcore.FormatError
	if c != nil || !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > int64(len(b)) {
		t.Errorf("core %v, error %v", c != nil, err)
	}
}

// consistent holds what a core says against its bytes.
func consistent(t rapid.TB, c *elfcore.Core, b []byte) {
	if len(c.Warnings) > 65 || c.MissingBytes < 0 {
		t.Errorf("%d warnings, %d bytes missing", len(c.Warnings), c.MissingBytes)
	}
	var before elfcore.Addr
	for i := range c.Segments {
		s := &c.Segments[i]
		if s.Start < before || s.End <= s.Start || s.FileSize > s.Len() {
			t.Fatalf("segment %+v behind %s", s, before)
		}
		before = s.End
		for _, a := range []elfcore.Addr{s.Start, s.Start + elfcore.Addr(s.Len()/2), s.End - 1, s.End} {
			p := make([]byte, 16)
			n, err := c.ReadMemory(p, a)
			var fault *elfcore.Fault
			if n < len(p) && !errors.As(err, &fault) {
				t.Fatalf("%d bytes at %s (%v)", n, a, err)
			}
			offset, ok := c.Locate(a)
			if ok != (n > 0) || ok && p[0] != b[offset] {
				t.Fatalf("%s is located at %#x (%v), where %d bytes were read", a, offset, ok, n)
			}
		}
	}
	before = 0
	for _, m := range c.Mappings {
		if m.Start < before || m.Len() == 0 {
			t.Fatalf("mapping %+v behind %s", m, before)
		}
		before = m.End
	}
	for i := range c.Threads {
		th := &c.Threads[i]
		pc, ok := th.PC()
		offset, there := th.RegisterOffset(c.Arch.PC)
		if !ok || !there || offset > int64(len(b))-4 || c.Arch.WordSize() == 8 && uint64(pc) != c.WordOf(b[offset:]) {
			t.Fatalf("thread %d has pc %s at %#x", th.TID, pc, offset)
		}
		th.SP()
		th.ThreadPointer()
		if c.Thread(th.TID) == nil {
			t.Fatalf("thread %d is not found", th.TID)
		}
	}
	if died := c.CrashThread(); died != nil && c.Signal == nil {
		t.Errorf("thread %d died of nothing", died.TID)
	}
}
