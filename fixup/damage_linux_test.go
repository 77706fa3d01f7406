package fixup

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/internal/coretest"
)

// image is a core of x86_64 whose memory a test changes. It reads by itself.
type image struct {
	t     *testing.T
	bytes []byte
	elf   *elf.File
	// strayBack tells that the test bent links back of a list that closes.
	strayBack bool
}

func readImage(t *testing.T, core string) *image {
	t.Helper()
	b, err := os.ReadFile(core)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return &image{t: t, bytes: b, elf: f}
}

func (m *image) clone(t *testing.T) *image {
	return &image{t: t, bytes: bytes.Clone(m.bytes), elf: m.elf}
}

// offset is where the byte at an address is in the core, and where its segment
// ends there.
func (m *image) offset(a uint64) (at, end uint64) {
	m.t.Helper()
	for _, p := range m.elf.Progs {
		if p.Type == elf.PT_LOAD && a >= p.Vaddr && a < p.Vaddr+p.Filesz {
			return p.Off + a - p.Vaddr, p.Off + p.Filesz
		}
	}
	m.t.Fatalf("the core holds nothing at %#x", a)
	return 0, 0
}

// at is the memory from an address to the end of its segment.
func (m *image) at(a uint64) []byte {
	m.t.Helper()
	at, end := m.offset(a)
	return m.bytes[at:end]
}

func (m *image) word(a uint64) uint64        { return binary.LittleEndian.Uint64(m.at(a)) }
func (m *image) poke(a uint64, value uint64) { binary.LittleEndian.PutUint64(m.at(a), value) }

// write gives the changed core a file.
func (m *image) write() string {
	m.t.Helper()
	core := filepath.Join(m.t.TempDir(), "core")
	if err := os.WriteFile(core, m.bytes, 0o600); err != nil {
		m.t.Fatal(err)
	}
	return core
}

// ring is a list of glibc's, by the descriptors on it.
type ring struct {
	head  uint64
	nodes []uint64
}

// ringOf follows the list of a thread: its head is the one that is no thread's.
func (m *image) ringOf(truth coretest.Truth, role string) ring {
	m.t.Helper()
	threads := make(map[uint64]bool)
	for _, x := range truth.Threads {
		threads[uint64(x.Pthread)+listOffset] = true
	}
	n := uint64(truth.Thread(m.t, role).Pthread) + listOffset
	for range threads {
		if !threads[n] {
			break
		}
		n = m.word(n)
	}
	r := ring{head: n}
	for n = m.word(r.head); n != r.head; n = m.word(n) {
		if !threads[n] || len(r.nodes) > len(threads) {
			m.t.Fatalf("the list of %s leads to %#x", role, n)
		}
		r.nodes = append(r.nodes, n)
	}
	return r
}

// mustBeRing checks that a list closes, that it has no other members than
// before, nor another order, and that its links back agree with those forward.
func (m *image) mustBeRing(before ring, back bool) {
	m.t.Helper()
	left := before.nodes
	for n := before.head; ; {
		next := m.word(n)
		if at := m.word(next + 8); back && at != n {
			m.t.Errorf("%#x is followed by %#x, which looks back at %#x", n, next, at)
		}
		if n = next; n == before.head {
			return
		}
		i := slices.Index(left, n)
		if i < 0 {
			m.t.Fatalf("%#x is not on the list behind its neighbour", n)
		}
		left = left[i+1:]
	}
}

// node is the descriptor of a role on the list, with its neighbours.
func (r ring) node(t *testing.T, truth coretest.Truth, role string) (before, at, after uint64) {
	t.Helper()
	at = uint64(truth.Thread(t, role).Pthread) + listOffset
	i := slices.Index(r.nodes, at)
	if i < 0 {
		t.Fatalf("%s is not on the list", role)
	}
	before, after = r.head, r.head
	if i > 0 {
		before = r.nodes[i-1]
	}
	if i+1 < len(r.nodes) {
		after = r.nodes[i+1]
	}
	return before, at, after
}

const unmapped = 0x8000

// TestBrokenLists damages the lists of a real core in every way that
// libthread_db cannot bear, and has gdb judge the repair: all threads are there
// again, with the right variables.
func TestBrokenLists(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombies-many"}})
	sound := readImage(t, c.Core)
	user, used := sound.ringOf(c.Truth, "main"), sound.ringOf(c.Truth, "worker-0")
	on := func(r ring, role string) (uint64, uint64, uint64) { return r.node(t, c.Truth, role) }
	zeroDescriptor := func(m *image, n uint64) { clear(m.at(n - listOffset)[:0x900]) }

	for _, x := range []struct {
		name   string
		cause  string
		damage func(m *image)
	}{
		{"next is zero", "zero", func(m *image) { _, n, _ := on(user, "zombie-21"); m.poke(n, 0) }},
		{"next of a living thread is zero", "zero", func(m *image) { _, n, _ := on(user, "worker-5"); m.poke(n, 0) }},
		{"next of the last is zero", "zero", func(m *image) { _, n, _ := on(user, "main"); m.poke(n, 0) }},
		{"next is zero on stack_used", "zero", func(m *image) { _, n, _ := on(used, "zombie-20"); m.poke(n, 0) }},
		{"next is unmapped", "unmapped", func(m *image) { _, n, _ := on(user, "zombie-21"); m.poke(n, unmapped) }},
		{"next is unmapped on stack_used", "unmapped", func(m *image) { _, n, _ := on(used, "worker-4"); m.poke(n, unmapped) }},
		{"next of the head is unmapped", "unmapped", func(m *image) { m.poke(user.head, unmapped) }},
		{"next is the node itself", "cycle", func(m *image) { _, n, _ := on(user, "zombie-21"); m.poke(n, n) }},
		{"next is a node before", "cycle", func(m *image) { _, n, _ := on(user, "worker-3"); m.poke(n, user.nodes[2]) }},
		{"next is a node before on stack_used", "cycle", func(m *image) { _, n, _ := on(used, "worker-2"); m.poke(n, used.nodes[0]) }},
		{"a zombie's descriptor reads as zeroes", "zeroes", func(m *image) { _, n, _ := on(user, "zombie-21"); zeroDescriptor(m, n) }},
		{"the newest zombie's descriptor reads as zeroes", "zeroes", func(m *image) { _, n, _ := on(user, "zombie-39"); zeroDescriptor(m, n) }},
		{"a zombie's descriptor reads as zeroes on stack_used", "zeroes", func(m *image) { _, n, _ := on(used, "zombie-20"); zeroDescriptor(m, n) }},
		{"next is zero twice, with a living thread between", "zero", func(m *image) {
			for _, role := range []string{"zombie-31", "zombie-17"} {
				_, n, after := on(user, role)
				m.poke(n, 0)
				m.poke(after+8, 0)
			}
		}},
		{"what only back links reach is damaged too", "zero", func(m *image) {
			_, n, _ := on(user, "zombie-31")
			m.poke(n, 0)
			_, n, _ = on(user, "zombie-17")
			m.poke(n, unmapped)
		}},
		{"both lists", "zero", func(m *image) {
			_, n, _ := on(user, "zombie-21")
			m.poke(n, 0)
			_, n, _ = on(used, "zombie-20")
			m.poke(n, unmapped)
		}},
		// A zombie's stack was unmapped, and the next stack of glibc's put its
		// descriptor at the same address.
		{"a node is on both lists", "cycle", func(m *image) {
			before, n, after := on(user, "zombie-21")
			_, newest, _ := on(used, "zombie-38")
			m.poke(before, newest)
			m.poke(after+8, newest)
			zeroDescriptor(m, n)
		}},
		{"a living thread's node is on both lists", "cycle", func(m *image) {
			before, n, after := on(user, "zombie-21")
			_, middle, _ := on(used, "worker-4")
			m.poke(before, middle)
			m.poke(after+8, middle)
			zeroDescriptor(m, n)
		}},
		{"a list runs into the other one, which is broken too", "zero", func(m *image) {
			_, n, _ := on(used, "zombie-20")
			_, middle, _ := on(user, "worker-5")
			m.poke(n, middle)
			_, n, _ = on(user, "zombie-9")
			m.poke(n, 0)
		}},
		{"a living thread's node is on both lists and looks back at the wrong one", "cycle", func(m *image) {
			before, n, after := on(user, "zombie-21")
			_, middle, _ := on(used, "worker-4")
			m.poke(before, middle)
			m.poke(middle+8, before)
			m.strayBack = true
			m.poke(after+8, middle)
			zeroDescriptor(m, n)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			m := sound.clone(t)
			x.damage(m)
			core := m.write()
			if x.cause != "cycle" { // gdb would never come back
				for id, value := range gdbViewOf(t, c.Exe, core).values {
					if !strings.HasPrefix(value, "error: ") {
						t.Errorf("gdb reads %q for thread %d: the damage does not matter", value, id)
					}
				}
			}
			broken := diagnosed(t, core).Find(diagnose.ListBroken)
			if len(broken) == 0 || broken[0].Cause != x.cause {
				t.Errorf("findings %+v, want the cause %s", broken, x.cause)
			}
			for _, s := range []Strategy{Retire, Unlink} {
				fixed, _ := repair(t, core, Options{Strategy: s})
				if fixed == "" {
					t.Fatalf("%s finds nothing to repair", s)
				}
				g := gdbViewOf(t, c.Exe, fixed)
				g.mustBeRight(t, c.Truth, nil)
				after := readImage(t, fixed)
				after.mustBeRing(user, true)
				// libthread_db reads no links back: in a list that closes
				// they stay as they were.
				after.mustBeRing(used, !m.strayBack)
				if p := g.phantoms(c.Truth); len(p) > 0 {
					t.Errorf("after %s gdb shows threads %v that the core does not have", s, p)
				}
			}
		})
	}
}
