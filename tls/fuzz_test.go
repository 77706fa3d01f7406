package tls_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/tls"
)

// victim is a core whose records of thread-local storage are to be damaged.
type victim struct {
	bytes []byte
	exe   string
	truth coretest.Truth
	// words are the file offsets of every word of the loader's records, link
	// maps, slots and dtvs, and of the thread control blocks; size is theirs.
	words []int64
	size  int
}

func newVictim(t testing.TB, name string) *victim {
	t.Helper()
	path, truth := coretest.Unpack(t, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{bytes: b, exe: coretest.UnpackExe(t, name), truth: truth}
	d := v.read(t, b)
	v.size = d.core.Arch.WordSize()
	add := func(a elfcore.Addr, n int) {
		for i := range n {
			if offset, ok := d.core.Locate(a + elfcore.Addr(i*v.size)); ok {
				v.words = append(v.words, offset)
			}
		}
	}
	for _, m := range d.set.Modules {
		if m.LinkMap != 0 {
			add(m.LinkMap, 0x500/v.size)
		}
		if m.IsLoader {
			for _, rg := range m.Ranges {
				for _, s := range d.core.Segments {
					if s.Overlaps(rg) && s.Writable() {
						add(s.Start, int(s.Len())/v.size)
					}
				}
			}
		}
	}
	for _, t := range d.resolver.Threads() {
		add(t.Pointer, 4)
		if dtv, err := d.core.Word(t.Pointer + elfcore.Addr(v.size)); err == nil {
			add(elfcore.Addr(dtv)-elfcore.Addr(2*v.size), 16)
		}
	}
	slices.Sort(v.words)
	v.words = slices.Compact(v.words)
	if len(v.words) < 1000 {
		t.Fatalf("only %d words to damage", len(v.words))
	}
	return v
}

// read reads a core from memory, with no file but the program.
func (v *victim) read(t testing.TB, b []byte) *dead {
	c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	set, err := module.Load(t.Context(), c, module.Config{NoHostFiles: true, Exe: v.exe})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	p := nptl.Read(c, nil)
	r := tls.New(c, p, set)
	return &dead{core: c, process: p, set: set, resolver: r, vars: r.Variables()}
}

// FuzzRecords damages words of the loader's records: no damage may make it
// panic, hang or believe in more than there is.
func FuzzRecords(f *testing.F) {
	victims := []*victim{newVictim(f, "x86_64-glibc2.36-zombie-user"), newVictim(f, "i386-glibc2.36-zombie-user")}
	edit := func(word uint16, op byte, value uint64) []byte {
		return append(binary.LittleEndian.AppendUint16(nil, word), append([]byte{op}, binary.LittleEndian.AppendUint64(nil, value)...)...)
	}
	f.Add(byte(0), []byte(nil))
	f.Add(byte(1), []byte(nil))
	for i := range 64 {
		f.Add(byte(i), edit(uint16(i*97), 0, 0))
		f.Add(byte(i), edit(uint16(i*89), 0, 1<<63-1))
		f.Add(byte(i), edit(uint16(i*83), 1, uint64(i*71)))
		f.Add(byte(i), slices.Concat(edit(uint16(i*79), 2, 1), edit(uint16(i*73), 1, uint64(i)), edit(uint16(i*7), 0, 62)))
	}
	f.Fuzz(func(t *testing.T, which byte, edits []byte) {
		v := victims[int(which)%len(victims)]
		b := bytes.Clone(v.bytes)
		for ; len(edits) >= 11; edits = edits[11:] {
			at := v.words[int(binary.LittleEndian.Uint16(edits))%len(v.words)]
			value := binary.LittleEndian.Uint64(edits[3:])
			switch edits[2] % 3 {
			case 1: // a word from elsewhere, such as a pointer
				from := v.words[value%uint64(len(v.words))]
				copy(b[at:at+int64(v.size)], v.bytes[from:])
				continue
			case 2: // a little more or less
				value += binary.LittleEndian.Uint64(append(bytes.Clone(b[at:at+int64(v.size)]), 0, 0, 0, 0))
			}
			copy(b[at:at+int64(v.size)], binary.LittleEndian.AppendUint64(nil, value))
		}
		d := v.read(t, b)
		if n := len(d.resolver.Modules()); n > 64 {
			t.Errorf("%d modules, of some ten", n)
		}
		for _, x := range d.resolver.Threads() {
			for _, m := range d.resolver.Modules() {
				if block := d.resolver.Block(x, m); (block.Status == tls.OK) != (block.Why == "") {
					t.Errorf("%s is %s because of %q", m, block.Status, block.Why)
				}
			}
			for i := range d.vars {
				if got := d.resolver.Value(x, &d.vars[i]); (got.Status == tls.OK) != (got.Bytes != nil) {
					t.Errorf("%s: %s, with %d bytes", d.vars[i].Name, got.Status, len(got.Bytes))
				}
			}
		}
		if bytes.Equal(b, v.bytes) {
			d.checkAll(t, v.truth)
		}
	})
}
