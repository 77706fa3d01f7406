package nptl_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// FuzzRead edits cores of small processes, mostly where it hurts: the words of
// heads and descriptors, set to addresses of others. Whatever comes of it, what
// is said must hang together.
func FuzzRead(f *testing.F) {
	var cores []fuzzCore
	for _, p := range []*fake{
		busy(version(x8664, 36), inLoader), busy(version(i386, 31), inLibpthread), busy(version(aarch64, 43), staticBackward),
		busy(version(s390x, 24), cacheFirst), busy(version(armhf, 36), staticForward), busy(version(ppc64le, 43), inLoader),
	} {
		cores = append(cores, newFuzzCore(f, p))
	}
	f.Add(uint8(0), []byte{})
	for i := range cores {
		f.Add(uint8(i), []byte{0, 0, 0, 0, 0})  // a head points at a head
		f.Add(uint8(i), []byte{20, 0, 9, 0, 0}) // a node points at a node
		f.Add(uint8(i), []byte{0, 2, 0, 0, 2, 0, 3, 0, 0, 2})
		f.Add(uint8(i), []byte{200, 1, 0, 255, 3, 3, 2, 0, 17, 1})
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		if len(edits) > 500 {
			return
		}
		b := cores[int(which)%len(cores)].edit(edits)
		c, err := elfcore.New(newReader(b), int64(len(b)))
		if err != nil {
			return
		}
		wantSound(t, c, nptl.Read(c, nil))
	})
}

// fuzzCore is a core with the places and the values that matter in it.
type fuzzCore struct {
	bytes   []byte
	order   binary.ByteOrder
	word    int
	targets []int64  // offsets of words that are worth changing
	values  []uint64 // addresses that are worth pointing at
}

func newFuzzCore(f *testing.F, p *fake) fuzzCore {
	x := fuzzCore{bytes: p.core().Bytes(), order: p.abi.Order, word: int(p.word)}
	c := openBytes(f, x.bytes)
	target := func(a uint64) {
		if at, ok := c.Locate(elfcore.Addr(a)); ok {
			x.targets = append(x.targets, at)
		}
	}
	h := p.heads()
	for _, a := range []uint64{h.used, h.user, h.cache} {
		target(a)
		target(a + p.word)
		x.values = append(x.values, a, a+p.word)
	}
	target(h.cacheSize)
	for _, t := range p.threads {
		n := p.node(t)
		for _, offset := range []uint64{
			0, p.word, p.tid(), p.robustHead, p.cancelHandling, p.specific, p.joinID(), p.startRoutine, p.stackBlock, p.stackBlock + p.word,
		} {
			target(n + offset)
		}
		x.values = append(x.values, n, t.pthread, t.sp)
	}
	for i := range c.Threads {
		if _, at, ok := c.Threads[i].ThreadPointer(); ok && at >= 0 {
			x.targets = append(x.targets, at)
		}
		x.targets = append(x.targets, c.Threads[i].NoteOffset)
	}
	x.values = append(x.values, 0, ^uint64(0), nowhere, p.program())
	return x
}

// edit applies edits of five bytes: a place, a value, and how to take them.
func (x *fuzzCore) edit(edits []byte) []byte {
	b := slices.Clone(x.bytes)
	for ; len(edits) >= 5; edits = edits[5:] {
		place, value, how := binary.LittleEndian.Uint16(edits), binary.LittleEndian.Uint16(edits[2:]), edits[4]
		at := x.targets[int(place)%len(x.targets)]
		if how&1 != 0 {
			at = int64(place) * int64(len(b)-8) >> 16
		}
		word := x.values[int(value)%len(x.values)]
		if how&2 != 0 {
			word = uint64(int64(int16(value)))
		}
		if x.word == 4 {
			x.order.PutUint32(b[at:], uint32(word))
		} else {
			x.order.PutUint64(b[at:], word)
		}
	}
	return b
}

// wantSound checks what must hold of any answer.
func wantSound(t *testing.T, c *elfcore.Core, p *nptl.Process) {
	t.Helper()
	if len(p.Threads) != len(c.Threads) {
		t.Fatalf("%d threads, the core has %d", len(p.Threads), len(c.Threads))
	}
	seen := make(map[elfcore.Addr]bool)
	position := 0
	for i, h := range p.Handles {
		if seen[h.Pthread] {
			t.Errorf("handle %s twice", h.Pthread)
		}
		seen[h.Pthread] = true
		if h.Position >= 0 && h.Position != position {
			t.Errorf("handle %s has position %d, should be %d", h.Pthread, h.Position, position)
		}
		if h.Position >= 0 {
			position++
		}
		if (h.Owner >= 0) != (h.State == nptl.Live) {
			t.Errorf("handle %s is %s and has owner %d", h.Pthread, h.State, h.Owner)
		}
		if h.Owner >= 0 && (p.Threads[h.Owner].Handle != i || p.Threads[h.Owner].Pthread != h.Pthread) {
			t.Errorf("the owner of handle %s knows nothing of it: %+v", h.Pthread, p.Threads[h.Owner])
		}
	}
	for i, x := range p.Threads {
		if x.Handle >= 0 && p.Handles[x.Handle].Owner != i {
			t.Errorf("thread %d has handle %d, which is another's", i, x.Handle)
		}
	}
	for _, l := range p.Lists {
		if (l.End == nptl.Closed) != (l.At == 0) {
			t.Errorf("%s ends %s at %s", l.Kind, l.End, l.At)
		}
	}
}
