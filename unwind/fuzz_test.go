package unwind

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
)

// FuzzCFI reads hostile call-frame information: as a section that is gone
// through, by its search table, and one row of every function; then it takes
// the same bytes for an expression.
func FuzzCFI(f *testing.F) {
	f.Add([]byte{}, false, true)
	// A CIE "zR" and an FDE of 16 bytes of code.
	f.Add([]byte{
		0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
		0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0x10, 0, 0, 0x10, 0, 0, 0, 0, 0x41, 0x0e, 0x10, 0x0a, 0x0b, 0, 0,
		0, 0, 0, 0,
	}, false, true)
	f.Add([]byte{1, 0x1b, 3, 0x3b, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0x10, 0, 0, 0x20, 0, 0, 0}, true, true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x10, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0, 8, 0, 1, 0x78, 0x10}, false, false)
	f.Add([]byte{opLit0, opSkip, 0xfc, 0xff}, true, false)
	f.Fuzz(func(t *testing.T, b []byte, big, eh bool) {
		var order binary.ByteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		s := &section{image: sectionImage{b, 0x1000}, order: order, word: 8, start: 0x1000, size: uint64(len(b)), eh: eh, cies: make(map[uint64]*cie)}
		x := makeIndex(s)
		if len(x.functions) > len(b) {
			t.Errorf("%d functions in %d bytes", len(x.functions), len(b))
		}
		for _, fn := range x.functions {
			for _, pc := range []uint64{fn.begin, fn.end - 1} {
				r, err := s.rowAt(fn.fde, pc)
				if r != nil && err != nil {
					t.Errorf("a row and the error %v", err)
				}
			}
		}
		s.header = 0x1000
		if table, _ := openSearchTable(s); table != nil {
			if at, ok := table.find(0x1000); ok {
				if r, err := s.rowAt(at, 0x1000); r != nil && err != nil {
					t.Errorf("a row and the error %v", err)
				}
			}
		}
		e := &evaluator{order: order, word: 4, register: func(n uint64) (uint64, bool) { return n, n < 16 },
			memory: func(at uint64, size int) (uint64, error) { return at + uint64(size), nil }}
		if v, err := e.run(b, 0x1000); err != nil && v != 0 {
			t.Errorf("the value %#x and the error %v", v, err)
		}
	})
}

// Where the fake process of FuzzStack has its code and its stack. The code is
// nothing but calls, and call-frame information covers the first of them.
const (
	fakeCode  = 0x1000
	fakeStack = 0x10000
	fakeCall  = 5 // bytes of a call
)

// FuzzStack walks stacks of hostile bytes with hostile registers: by rows of
// call-frame information, by frame pointers, and by search.
func FuzzStack(f *testing.F) {
	word := binary.LittleEndian.AppendUint64
	f.Add(make([]byte, 64), uint64(fakeStack), uint64(fakeStack+16), uint64(fakeCode+fakeCall))
	f.Add(word(word(word(nil, fakeStack+16), fakeCode+fakeCall), fakeStack), uint64(fakeStack), uint64(fakeStack), uint64(fakeCode))
	f.Add(word(word(word(nil, fakeCode+fakeCall), fakeCode+4*fakeCall), fakeCode+9*fakeCall), uint64(fakeStack), uint64(0), uint64(0))
	f.Add([]byte{1}, ^uint64(7), ^uint64(15), uint64(fakeCode+1))
	f.Fuzz(func(t *testing.T, stack []byte, sp, fp, pc uint64) {
		stack = stack[:min(len(stack), 1<<14)]
		u := fakeProcess(t, stack, sp, fp, pc)
		n, last := 0, elfcore.Addr(0)
		stop, _ := u.Walk(0, func(f Frame, _ Registers) bool {
			if f.CFA != 0 && f.CFA <= last {
				t.Errorf("frame %d: the CFA goes from %s to %s", n, last, f.CFA)
			}
			n, last = n+1, f.CFA
			return true
		})
		if stop == "" || n == 0 || n > 2+len(stack)/8 {
			t.Errorf("%d frames in %d bytes: %q", n, len(stack), stop)
		}
	})
}

// fakeProcess makes an unwinder for one thread of x86-64.
func fakeProcess(t *testing.T, stack []byte, sp, fp, pc uint64) *Unwinder {
	t.Helper()
	regs := make([]uint64, 27)
	regs[4], regs[16], regs[19] = fp, pc, sp // rbp, rip, rsp of struct user_regs_struct
	c := coretest.Core{
		ABI:   coretest.X86_64,
		Notes: []coretest.NoteSegment{{Notes: []coretest.Note{coretest.X86_64.Prstatus(1, 11, regs...)}}},
		Loads: []coretest.Load{
			{Addr: fakeCode, Data: bytes.Repeat([]byte{0xe8, 0, 0, 0, 0}, 64), Flags: coretest.RX},
			{Addr: fakeStack, Data: stack, Flags: coretest.RW},
		},
	}
	b := c.Bytes()
	core, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	set, err := module.Load(context.Background(), core, module.Config{NoHostFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	u := New(core, set)
	const rbp, rsp, rip = 6, 7, 16
	saved := []registerRule{{rbp, rule{kind: savedAt, offset: -16}}, {rip, rule{kind: savedAt, offset: -8}}}
	for i := range uint64(4 * fakeCall) {
		u.rows[fakeCode+i] = foundRow{row: &row{cfa: rule{kind: offsetBy, register: rbp, offset: 16}, rules: saved, returnColumn: rip}}
		u.rows[fakeCode+4*fakeCall+i] = foundRow{row: &row{cfa: rule{kind: offsetBy, register: rsp, offset: 16}, rules: saved, returnColumn: rip}}
	}
	return u
}
