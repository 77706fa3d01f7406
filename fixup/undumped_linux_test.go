package fixup

import (
	"encoding/binary"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/internal/coretest"
)

// dumpUntil makes the core hold zeroes for a segment that it holds nothing of,
// up to an address.
func (m *image) dumpUntil(a uint64) {
	m.t.Helper()
	const headers, entry, offset, fileSize = 64, 56, 8, 32 // e_phoff, e_phentsize, p_offset, p_filesz
	for i, p := range m.elf.Progs {
		if p.Filesz != 0 || a <= p.Vaddr || a > p.Vaddr+p.Memsz {
			continue
		}
		p.Off, p.Filesz = uint64(len(m.bytes)), a-p.Vaddr
		binary.LittleEndian.PutUint64(m.bytes[headers+i*entry+offset:], p.Off)
		binary.LittleEndian.PutUint64(m.bytes[headers+i*entry+fileSize:], p.Filesz)
		m.bytes = append(m.bytes, make([]byte, p.Filesz)...)
		return
	}
	m.t.Fatalf("no undumped segment holds %#x", a)
}

// TestHalfDescriptor is about a zombie of whose descriptor the core holds no
// more than the links, where no strategy that writes an id or a dtv can help.
// gdb may read zeroes for what is not there, or give up.
func TestHalfDescriptor(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"undumped-stack"}})
	m := readImage(t, c.Core)
	main := c.Truth.Thread(t, "main")
	zombie := uint64(c.Truth.Thread(t, "zombie-0").Pthread) + listOffset
	m.dumpUntil(zombie + 16)
	m.poke(zombie, uint64(c.Truth.Thread(t, "worker-2").Pthread)+listOffset)
	m.poke(zombie+8, m.word(uint64(main.Pthread)+listOffset)) // main is the last on the list
	c.Core = m.write()
	if got, want := gdbViewOf(t, c.Exe, c.Core).values[main.TID], main.TLS["tls_int"].Value; got == string(want) {
		t.Fatalf("gdb reads %s for main: the descriptor does not matter", got)
	}
	r := diagnosed(t, c.Core)
	for _, s := range []Strategy{Retire, RemapTLS, Expose} {
		refusal := mustRefuse(t, r, Options{Strategy: s, StaticTLS: staticTLS(t, r)}, "libthread_db refuses the whole process")
		if refusal.Instead != Unlink {
			t.Errorf("%s proposes %q instead", s, refusal.Instead)
		}
	}
	want{}.check(t, c, make(views), Options{Strategy: Unlink})
}

// TestCutCore cuts a core in front of the loader's data, where the heads of the
// lists are. What misleads cannot be told, and nothing is touched; a handle
// that is known all the same can be retired, but not taken off its list.
func TestCutCore(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombies-many"}})
	m := readImage(t, c.Core)
	heads, _ := m.offset(m.ringOf(c.Truth, "main").head)
	m.bytes = m.bytes[:heads&^0xfff]
	c.Core = m.write()
	r := diagnosed(t, c.Core)
	if r.Verdict != diagnose.Limited {
		t.Errorf("the verdict is %s", r.Verdict)
	}
	for _, s := range Strategies() {
		want{none: true}.check(t, c, make(views), Options{Strategy: s})
	}
	refusal := mustRefuse(t, r, Options{Strategy: Unlink, All: true}, "the list that leads to handle 0x")
	if refusal.Instead != Retire {
		t.Errorf("it proposes %q instead", refusal.Instead)
	}
	plan, err := Make(r, Options{Strategy: Retire, All: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(plan.Patches), len(c.Truth.Zombies); got != want {
		t.Errorf("%d of %d zombies are retired", got, want)
	}
}
