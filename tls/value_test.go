package tls_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// TestFormat shows numbers by their size, as signed and as unsigned where these
// differ, and texts.
func TestFormat(t *testing.T) {
	core, _ := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	d := open(t, core, module.Config{NoHostFiles: true})
	le := binary.LittleEndian
	for _, c := range []struct {
		bytes []byte
		want  string
	}{
		{[]byte{0}, "0"},
		{[]byte{255}, "255"},
		{[]byte{'x'}, "120 'x'"},
		{[]byte{'\''}, `39 '\''`},
		{le.AppendUint16(nil, 7), "7"},
		{le.AppendUint16(nil, 0xfffb), "-5 (0xfffb)"},
		{le.AppendUint32(nil, 4000), "4000"},
		{le.AppendUint32(nil, 1<<31), "-2147483648 (0x80000000)"},
		{le.AppendUint32(nil, 70000), "70000 (0x11170)"},
		{le.AppendUint64(nil, 1<<40), "1099511627776 (0x10000000000)"},
		{le.AppendUint64(nil, ^uint64(0)), "-1 (0xffffffffffffffff)"},
		{[]byte{1, 2, 3}, "010203"},
		{append([]byte("nine chars"), 0, 0), `"nine chars"`},
		{append([]byte("caf\u00e9 au lait"), 0), `"café au lait"`},
		{[]byte("no end at all"), `"no end at all"…`},
		{append([]byte("a\x01b and more"), 0), "61016220616e64206d6f726500"},
		{make([]byte, 40), "0000000000000000000000000000000000000000000000000000000000000000… (40 bytes)"},
		{nil, ""},
	} {
		if got := d.resolver.Format(c.bytes); got != c.want {
			t.Errorf("% x is shown as %s, not %s", c.bytes, got, c.want)
		}
	}
}

// TestPointers shows what pointers point at: a symbol, a text.
func TestPointers(t *testing.T) {
	for _, name := range []string{"x86_64-glibc2.36-zombie-user", "i386-glibc2.36-zombie-user"} {
		t.Run(name, func(t *testing.T) {
			core, truth := coretest.Unpack(t, name)
			d := open(t, core, module.Config{NoHostFiles: true, Exe: coretest.UnpackExe(t, name)})
			d.checkAll(t, truth)
			v := d.variable(t, "tls_str")
			for _, w := range truth.Threads {
				got := d.resolver.Format(d.resolver.Value(d.thread(t, w), v).Bytes)
				want := regexp.MustCompile(fmt.Sprintf(`^%#x <witnesses(\+\d+)?> %q$`, w.TLS["tls_str"].Ptr, w.Role))
				if !want.MatchString(got) {
					t.Errorf("tls_str of %s is shown as %s, and does not match %s", w.Role, got, want)
				}
			}
		})
	}
}

// TestNotInCore has blocks that the core does not hold: their addresses are
// known all the same, and missing bytes are no zeroes.
func TestNotInCore(t *testing.T) {
	path, truth := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	exe := coretest.UnpackExe(t, "x86_64-glibc2.36-zombie-user")
	whole := open(t, path, module.Config{NoHostFiles: true, Exe: exe})
	worker := truth.Thread(t, "worker-1")
	address := elfcore.Addr(worker.TLS["tls_int"].Addr)
	// The core without the segment that worker-1's block is in: a reader that
	// says so in the program header.
	segment, ok := whole.core.Segment(address)
	if !ok {
		t.Fatal("the block is in no segment")
	}
	b := make([]byte, whole.core.Size)
	if _, err := whole.core.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	// p_filesz, 32 bytes into the program header of the segment, becomes 0.
	phoff := binary.LittleEndian.Uint64(b[32:])
	copy(b[phoff+56*uint64(segment.Index)+32:], make([]byte, 8))
	c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	// Its thread pointer is still in the notes.
	d := inspect(t, c, module.Config{NoHostFiles: true, Exe: exe})
	for _, x := range d.resolver.Threads() {
		if x.LWP < 0 || c.Threads[x.LWP].TID != worker.TID {
			continue
		}
		got := d.resolver.Value(x, d.variable(t, "tls_int"))
		if got.Bytes != nil || got.Status != tls.NotInCore || got.Address != address {
			t.Errorf("tls_int, which was at %s and is not in the core: %s at %s, % x (%s)", address, got.Status, got.Address, got.Bytes, got.Why)
		}
		return
	}
	t.Errorf("thread %d is missing", worker.TID)
}
