package locks_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// FuzzAnalyze changes words of a real core where the rules look: registers, the
// stacks of threads that wait, their descriptors with robust list and cleanup
// chain, and the mutexes. An input is a series of changes of 12 bytes: where, by
// a number of a place and an offset, and the new word.
func FuzzAnalyze(f *testing.F) {
	path, _ := coretest.Unpack(f, "x86_64-glibc2.36-deadlock")
	pristine, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	core, err := elfcore.New(bytes.NewReader(pristine), int64(len(pristine)))
	if err != nil {
		f.Fatal(err)
	}
	places := fuzzPlaces(f, core)
	change := func(place, offset uint16, word uint64) []byte {
		b := binary.LittleEndian.AppendUint16(nil, place)
		b = binary.LittleEndian.AppendUint16(b, offset)
		return binary.LittleEndian.AppendUint64(b, word)
	}
	for place := range places {
		f.Add(change(uint16(place), 8, 0))
		f.Add(change(uint16(place), 16, uint64(core.Segments[0].Start)))
		f.Add(append(change(uint16(place), 0, ^uint64(0)), change(uint16(place), 24, 0x80000000_c0000000)...))
	}
	f.Fuzz(func(t *testing.T, changes []byte) {
		b := bytes.Clone(pristine)
		for ; len(changes) >= 12; changes = changes[12:] {
			at := places[int(binary.LittleEndian.Uint16(changes))%len(places)] + int64(binary.LittleEndian.Uint16(changes[2:])&^7)
			if at+8 <= int64(len(b)) {
				copy(b[at:], changes[4:12])
			}
		}
		c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		set, err := module.Load(context.Background(), c, module.Config{NoHostFiles: true})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		p := nptl.Read(c, nil)
		r := locks.Analyze(c, p, set)
		for _, v := range r.Verdicts {
			if v.Summary == "" || v.ID == "" {
				t.Errorf("%+v says nothing", v)
			}
		}
		held, err := locks.FindHeld(context.Background(), c, p, set, locks.HeldOptions{})
		if err != nil || held.Searched != held.Total {
			t.Errorf("%d of %d bytes searched: %v", held.Searched, held.Total, err)
		}
		for _, w := range r.Waits {
			if readings, err := locks.Explain(c, p, set, w.Object); (err == nil) != (len(readings) > 0) {
				t.Errorf("%d readings, %v", len(readings), err)
			}
		}
	})
}

// fuzzPlaces are file offsets of what the rules read.
func fuzzPlaces(f *testing.F, c *elfcore.Core) []int64 {
	p := nptl.Read(c, nil)
	set, err := module.Load(context.Background(), c, module.Config{NoHostFiles: true})
	if err != nil {
		f.Fatal(err)
	}
	defer set.Close()
	var out []int64
	add := func(a elfcore.Addr) {
		if offset, ok := c.Locate(a); ok {
			out = append(out, offset)
		}
	}
	for _, w := range locks.Analyze(c, p, set).Waits {
		t := &c.Threads[w.Thread]
		out = append(out, t.NoteOffset)
		sp, _ := t.SP()
		add(sp)
		add(p.Threads[w.Thread].Pthread + elfcore.Addr(p.Layout.Header))
		add(w.Object)
	}
	if len(out) != 3*4 {
		f.Fatalf("%d places in a core with 3 waits", len(out))
	}
	return out
}
