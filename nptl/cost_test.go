package nptl_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// swamp is a core that is made to cost much: a loader's data full of heads, and
// a large memory full of descriptors, at x86-64's offsets in glibc 2.36.
type swamp struct {
	data, memory []byte
	threads      int
	// register gives the stack pointer, the thread pointer and the id of a
	// thread.
	register func(i int) (sp, tp uint64, tid int)
}

const (
	swampLoader = 0x7f0000000000
	swampData   = swampLoader + pageSize
	swampMemory = 0x7f1000000000
)

func newSwamp(data, memory int) *swamp {
	return &swamp{
		data: make([]byte, data), memory: make([]byte, memory),
		register: func(i int) (uint64, uint64, int) { return 0, 0, 5000 + i },
	}
}

func (s *swamp) put(a, value uint64) {
	b := s.data[min(a-swampData, uint64(len(s.data))):]
	if a >= swampMemory {
		b = s.memory[a-swampMemory:]
	}
	binary.LittleEndian.PutUint64(b, value)
}

// ring links n nodes of the memory, step bytes apart, to a head.
func (s *swamp) ring(head, first, step uint64, n int) {
	prev := head
	for i := range uint64(n) {
		node := first + i*step
		s.put(prev, node)
		s.put(node+8, prev)
		s.put(node+0x20, node+0x20) // robust_head.list
		s.put(node+0x28, ^uint64(31))
		prev = node
	}
	s.put(prev, head)
	s.put(head+8, prev)
}

func (s *swamp) core() []byte {
	abi := coretest.X86_64
	notes := []coretest.Note{abi.Prpsinfo(coretest.Prpsinfo{PID: 5000})}
	for i := range s.threads {
		sp, tp, tid := s.register(i)
		regs := make([]uint64, 22)
		regs[19], regs[21] = sp, tp
		notes = append(notes, abi.Prstatus(int32(tid), 0, regs...))
	}
	notes = append(notes,
		abi.Auxv(coretest.AuxEntry{Type: 7, Value: swampLoader}),
		abi.File(pageSize,
			coretest.FileMapping{Start: swampLoader, End: swampData, Path: "/lib/ld.so"},
			coretest.FileMapping{Start: swampData, End: swampData + uint64(len(s.data)), Offset: 1, Path: "/lib/ld.so"}))
	c := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: notes}}, Loads: []coretest.Load{
		{Addr: swampLoader, Data: make([]byte, pageSize), Flags: coretest.RX},
		{Addr: swampData, Data: s.data, Flags: coretest.RW},
		{Addr: swampMemory, Data: s.memory, Flags: coretest.RW},
	}}
	return c.Bytes()
}

// TestCost reads cores that would take hours, or more memory than there is, if
// any work grew with the product of two numbers that they can choose. The limit
// on time is that of go test.
func TestCost(t *testing.T) {
	const step, large, data = 0x400, 16 << 20, 2 << 20
	for name, make := range map[string]func() *swamp{
		"one list of all memory": func() *swamp {
			s := newSwamp(pageSize, 4*large)
			s.ring(swampData+0x100, swampMemory, step, 4*large/step-1)
			s.threads = 10000
			return s
		},
		"a list without end": func() *swamp {
			s := newSwamp(pageSize, large)
			n := uint64(large/step - 1)
			s.ring(swampData+0x100, swampMemory, step, int(n))
			s.put(swampMemory+(n-1)*step, swampMemory+n/2*step)
			return s
		},
		"descriptors over each other": func() *swamp {
			s := newSwamp(pageSize, large)
			s.ring(swampData+0x100, swampMemory, 0x30, large/0x30-100)
			return s
		},
		// Each head has a node of its own, which leads to one long list.
		"many heads": func() *swamp {
			s := newSwamp(data, large)
			s.ring(swampData, swampMemory, step, large/2/step)
			for i := range uint64(large/2/0x40 - 0x20) {
				head, node := swampData+0x100+i*0x10, swampMemory+large/2+i*0x40
				s.ring(head, node, step, 1)
				s.put(node, swampMemory)
			}
			return s
		},
		"all threads on one stack, with one id": func() *swamp {
			s := newSwamp(pageSize, large)
			n := large / step / 2
			s.ring(swampData+0x100, swampMemory, step, n)
			for i := range uint64(n) {
				node := swampMemory + i*step
				s.put(node+0x10, 7) // tid
				s.put(node+0x3d0, swampMemory)
				s.put(node+0x3d8, 8<<20)
			}
			s.threads = 50000
			s.register = func(i int) (uint64, uint64, int) { return swampMemory + 0x10000, swampMemory - 0x2c0, 7 }
			return s
		},
		"every word a pointer": func() *swamp {
			s := newSwamp(data, large)
			for at := uint64(0); at < data; at += 8 {
				s.put(swampData+at, swampMemory+at*8)
			}
			for at := uint64(0); at < large; at += 8 {
				s.put(swampMemory+at, swampData+at/8&^7)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := make().core()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c, err := elfcore.New(newReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			p := nptl.Read(c, nil)
			runtime.ReadMemStats(&after)
			if used, most := after.TotalAlloc-before.TotalAlloc, uint64(16*len(b)); used > most {
				t.Errorf("%d MiB were allocated for a core of %d MiB", used>>20, len(b)>>20)
			}
			if len(p.Lists) == 0 && name != "every word a pointer" {
				t.Error("no list was found: the test tests nothing")
			}
		})
	}
}
