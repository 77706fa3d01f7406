package nptl_test

import (
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// goNote is the note that cmd/link puts into a program, with a build id.
func goNote(abi coretest.ABI, name string) []byte {
	note := make([]byte, 12)
	for i, v := range []uint32{4, 8, 4} { // n_namesz, n_descsz, n_type
		abi.Order.PutUint32(note[4*i:], v)
	}
	return append(append(note, name...), "build-id"...)
}

// programWith is a core of a program without a loader that has one note. Program
// headers follow the ELF header, the note follows them.
func programWith(abi coretest.ABI, bias uint64, note []byte) *coretest.Core {
	const base, headers, noteAt = 0x400000, 0x40, 0x200
	page := make([]byte, pageSize)
	copy(page, "\x7fELF")
	wide := len(abi.Words(0)) == 8
	header := func(i int, typ uint32, vaddr uint64) {
		b := page[headers+i*56:]
		if !wide {
			b = page[headers+i*32:]
		}
		abi.Order.PutUint32(b, typ)
		copy(b[2*len(abi.Words(0)):], abi.Words(vaddr))
	}
	header(0, 6, base-bias+headers) // PT_PHDR
	header(1, 1, base-bias)         // PT_LOAD
	header(2, 4, base-bias+noteAt)  // PT_NOTE
	copy(page[noteAt:], note)
	size := uint64(32)
	if wide {
		size = 56
	}
	return &coretest.Core{
		ABI: abi,
		Notes: []coretest.NoteSegment{{Notes: []coretest.Note{
			abi.Prstatus(1, 6),
			abi.Auxv(coretest.AuxEntry{Type: elfcore.AuxPhdr, Value: base + headers}, coretest.AuxEntry{Type: elfcore.AuxPhent, Value: size},
				coretest.AuxEntry{Type: elfcore.AuxPhnum, Value: 3}, coretest.AuxEntry{Type: elfcore.AuxEntry, Value: base + 0x800}),
		}}},
		Loads: []coretest.Load{{Addr: base, Data: page, Flags: coretest.RX}},
	}
}

// Go's linker leaves its mark in the first page of a program, which every core of
// the kernel's has.
func TestGoBuildID(t *testing.T) {
	for _, abi := range []coretest.ABI{coretest.X86_64, coretest.I386, coretest.S390X, coretest.AArch64} {
		for _, bias := range []uint64{0, 0x300000} {
			if got := read(t, programWith(abi, bias, goNote(abi, "Go\x00\x00"))).Libc; got.Kind != nptl.NoLibc || !strings.Contains(got.Source, "a Go program") {
				t.Errorf("%s: a Go program is said to have %+v", abi.Machine, got)
			}
			if got := read(t, programWith(abi, bias, goNote(abi, "GNU\x00"))).Libc; got.Kind != nptl.UnknownLibc {
				t.Errorf("%s: a program with a build id of GNU is said to have %+v", abi.Machine, got)
			}
		}
	}
}

// Program headers that cannot be are not believed.
func TestGoBuildIDOfNonsense(t *testing.T) {
	abi := coretest.X86_64
	for _, damage := range []coretest.AuxEntry{
		{Type: elfcore.AuxPhent, Value: 1}, {Type: elfcore.AuxPhent, Value: 1 << 40}, {Type: elfcore.AuxPhnum, Value: 0}, {Type: elfcore.AuxPhdr, Value: 0},
		{Type: elfcore.AuxPhdr, Value: 1<<64 - 8}, {Type: elfcore.AuxBase, Value: 0x7f0000000000},
	} {
		c := programWith(abi, 0, goNote(abi, "Go\x00\x00"))
		entries := []coretest.AuxEntry{damage}
		for _, e := range []coretest.AuxEntry{{Type: elfcore.AuxPhdr, Value: 0x400040}, {Type: elfcore.AuxPhent, Value: 56}, {Type: elfcore.AuxPhnum, Value: 3}} {
			if e.Type != damage.Type {
				entries = append(entries, e)
			}
		}
		c.Notes[0].Notes[1] = abi.Auxv(entries...)
		if got := read(t, c).Libc; got.Kind != nptl.UnknownLibc {
			t.Errorf("with %+v it is said to have %+v", damage, got)
		}
	}
}

// Android's threads are not glibc's: nothing is claimed of them.
func TestBionic(t *testing.T) {
	abi := coretest.AArch64
	for path, bionic := range map[string]bool{
		"/system/bin/linker64": true, "/apex/com.android.runtime/bin/linker64": true, "/system/bin/linker": true,
		"/usr/lib/linker": false, "/bin/linker64-notes": false,
	} {
		p := read(t, &coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: []coretest.Note{
			abi.Prstatus(1, 6), abi.File(pageSize, coretest.FileMapping{Start: 0x7000000000, End: 0x7000001000, Path: path}),
		}}}})
		if p.Libc.Kind != nptl.UnknownLibc || strings.Contains(p.Libc.Source, "bionic") != bionic || len(p.Handles) != 0 {
			t.Errorf("%s: libc %+v and %d handles", path, p.Libc, len(p.Handles))
		}
	}
}

// gcore's garbage in place of thread pointers is not passed on.
func TestImplausiblePointers(t *testing.T) {
	abi := coretest.X86_64
	for tp, want := range map[uint64]nptl.PointerSource{
		0x30: nptl.FromNowhere, 0: nptl.FromNowhere, 0x2f2f2f2f2f2f2f2f: nptl.FromNowhere, 1<<64 - 1: nptl.FromNowhere,
		0x10000: nptl.FromNote, 0x10800: nptl.FromNote,
	} {
		regs := make([]uint64, 22)
		regs[21] = tp
		p := read(t, &coretest.Core{
			ABI:   abi,
			Notes: []coretest.NoteSegment{{Notes: []coretest.Note{abi.Prstatus(1, 6, regs...)}}},
			Loads: []coretest.Load{{Addr: 0x10000, Data: make([]byte, pageSize), Flags: coretest.RW}},
		})
		if got := p.Threads[0]; got.PointerSource != want || got.PointerProved || want == nptl.FromNowhere && got.Pointer != 0 {
			t.Errorf("%#x: the thread pointer is %+v", tp, got)
		}
	}
}
