package nptl_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

const pageSize = 0x1000

// high is added to addresses of libraries and stacks, so that those of 64-bit
// processes do not fit in 32 bits.
func (f *fake) high() uint64 {
	if f.word == 4 {
		return 0
	}
	return 0x7f0000000000
}

func (f *fake) program() uint64    { return 0x08048000 }
func (f *fake) libpthread() uint64 { return f.high() + 0xf7b00000 }
func (f *fake) loader() uint64     { return f.high() + 0xf7fc0000 }
func (f *fake) stackEnd() uint64   { return f.high() + 0xfffe0000 }

func (f *fake) static() bool { return f.home == staticForward || f.home == staticBackward }

// mapFiles lays out the memory that is there before any thread.
func (f *fake) mapFiles() {
	f.mapFile(f.program(), "/usr/bin/program")
	if !f.static() {
		if f.home != inLoader {
			f.mapFile(f.libpthread(), "/usr/lib/libpthread.so.0")
		}
		f.mapFile(f.high()+0xf7c00000, "/usr/lib/libc.so.6")
		f.mapFile(f.loader(), "/usr/lib/ld.so")
	}
	f.mapped = append(f.mapped,
		mapping{load: coretest.Load{Addr: f.high() + 0xf7e00000, Data: make([]byte, 2*pageSize), Flags: coretest.RW}},
		mapping{load: coretest.Load{Addr: f.stackEnd() - 4*pageSize, Data: make([]byte, 4*pageSize), Flags: coretest.RW}},
	)
}

// mapFile maps text, relro, data and .bss of an ELF file, a page each.
func (f *fake) mapFile(at uint64, path string) {
	text := make([]byte, pageSize)
	copy(text, "\x7fELF")
	f.mapped = append(f.mapped,
		mapping{coretest.Load{Addr: at, Data: text, Flags: coretest.RX}, path, 0},
		mapping{coretest.Load{Addr: at + pageSize, Data: make([]byte, pageSize), Flags: coretest.RO}, path, pageSize},
		mapping{coretest.Load{Addr: at + 2*pageSize, Data: make([]byte, pageSize), Flags: coretest.RW}, path, 2 * pageSize},
		mapping{load: coretest.Load{Addr: at + 3*pageSize, Data: make([]byte, pageSize), Flags: coretest.RW}},
	)
}

// heads are the addresses of the lists' heads and of the size of the cache.
type heads struct{ used, user, cache, cacheSize uint64 }

// heads follow the sources of each kind of glibc. x86-64 aligns variables of a
// static program to 16 bytes.
func (f *fake) heads() heads {
	w := f.word
	data, bss := uint64(2*pageSize), uint64(3*pageSize)
	switch f.home {
	case inLibpthread:
		p := f.libpthread()
		return heads{used: p + data + 0x1d0, cache: p + data + 0x1d0 + 2*w, user: p + bss + 0x240, cacheSize: p + bss + 0x268}
	case cacheFirst:
		p := f.libpthread()
		return heads{cache: p + data + 0x8, used: p + data + 0x8 + 2*w, user: p + bss + 0x240, cacheSize: p + bss + 0x238}
	case staticForward:
		p := f.program() + bss + 0x100
		return heads{used: p, user: p + 2*w, cache: p + 4*w, cacheSize: p + 6*w}
	case staticBackward:
		p := f.program() + bss + 0x100
		return heads{cacheSize: p, cache: p + 2*w, user: p + 4*w, used: p + 6*w}
	}
	p := f.loader() + data + 0xa8
	return heads{used: p, user: p + 2*w, cache: p + 4*w, cacheSize: p + 6*w}
}

// node is the address of a thread's member list.
func (f *fake) node(t *fakeThread) uint64 { return t.pthread + f.list }

// core encodes the process. Tests damage the memory of what it gives by Poke.
func (f *fake) core() *coretest.Core {
	c := &coretest.Core{ABI: f.abi, Notes: []coretest.NoteSegment{{Notes: f.notes()}}}
	for _, m := range f.mapped {
		m.load.Data = slices.Clone(m.load.Data)
		c.Loads = append(c.Loads, m.load)
	}
	slices.SortFunc(c.Loads, func(a, b coretest.Load) int { return compare(a.Addr, b.Addr) })
	h := f.heads()
	f.link(c, h.used, f.used)
	f.link(c, h.user, f.user)
	f.link(c, h.cache, f.cache)
	for _, t := range f.threads {
		if t.pthread != 0 {
			f.descriptor(c, t)
		}
	}
	var cached uint64
	for _, t := range f.cache {
		cached += t.size
	}
	c.Poke(h.cacheSize, cached)
	return c
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	return int(min(a-b, 1))
}

// link writes the pointers of one list: next and prev of head and members.
func (f *fake) link(c *coretest.Core, head uint64, members []*fakeThread) {
	ring := []uint64{head}
	for _, t := range members {
		ring = append(ring, f.node(t))
	}
	for i, n := range ring {
		c.Poke(n, ring[(i+1)%len(ring)])
		c.Poke(n+f.word, ring[(i+len(ring)-1)%len(ring)])
	}
}

// descriptor writes struct pthread.
func (f *fake) descriptor(c *coretest.Core, t *fakeThread) {
	w, n := f.word, f.node(t)
	if f.selfPointers {
		c.Poke(t.pthread, t.pthread)
		c.Poke(t.pthread+2*w, t.pthread)
	}
	c.Poke32(n+f.tid(), uint32(t.tid))
	if f.pid != 0 {
		c.Poke32(n+f.pid, uint32(t.pid))
	}
	robust := n + f.robustHead
	c.Poke(robust, robust)
	futexOffset := int64(-32) // offsetof of mutex.__data.__lock from __list
	if w == 4 {
		futexOffset = -20
	}
	c.Poke(robust+w, uint64(futexOffset))
	c.Poke32(n+f.cancelHandling, t.cancel)
	c.Poke(n+f.specific, n+f.firstBlock)
	if t.user && f.stackMode != 0 {
		c.Poke32(n+f.stackMode, modeUser)
	} else if t.user {
		f.pokeByte(c, n+f.userStack, 1)
	}
	switch {
	case f.joinState && t.detached && t.joinState == stateJoinable:
		c.Poke32(n+f.joinID(), stateDetached)
	case f.joinState:
		c.Poke32(n+f.joinID(), t.joinState)
	case t.detached:
		c.Poke(n+f.joinID(), t.pthread)
	}
	c.Poke(n+f.startRoutine, t.start)
	c.Poke(n+f.stackBlock, t.block)
	c.Poke(n+f.stackBlock+w, t.size)
	if !t.user {
		c.Poke(n+f.stackBlock+2*w, guardSize)
	}
}

// pokeByte stores a byte of a word that is 0 so far.
func (f *fake) pokeByte(c *coretest.Core, a uint64, b byte) {
	word := make([]byte, 4)
	word[a%4] = b
	c.Poke32(a&^3, f.abi.Order.Uint32(word))
}

// notes are as the kernel writes them: the crashed thread, then what is known of
// the process, then the other threads.
func (f *fake) notes() []coretest.Note {
	var notes []coretest.Note
	for _, t := range f.threads {
		if t.lwp == 0 {
			continue
		}
		notes = append(notes, f.registers(t)...)
	}
	var process []coretest.Note
	if !f.noProcess {
		process = append(process, f.abi.Prpsinfo(coretest.Prpsinfo{PID: int32(f.id + f.outside), PPID: int32(f.parent + f.outside), Command: "program"}))
	}
	process = append(process, f.abi.Siginfo(coretest.Siginfo{Signo: 6}))
	if !f.noAuxv {
		base := f.loader()
		if f.static() {
			base = 0
		}
		process = append(process, f.abi.Auxv(coretest.AuxEntry{Type: 6, Value: pageSize}, coretest.AuxEntry{Type: 7, Value: base}, coretest.AuxEntry{Type: 9, Value: f.program() + 0x100}))
	}
	if !f.noFile {
		var files []coretest.FileMapping
		for _, m := range f.mapped {
			if m.path != "" {
				files = append(files, coretest.FileMapping{Start: m.load.Addr, End: m.load.Addr + pageSize, Offset: m.offset / pageSize, Path: m.path})
			}
		}
		process = append(process, f.abi.File(pageSize, files...))
	}
	return slices.Insert(notes, min(1, len(notes)), process...)
}

// registers are the notes of one thread.
func (f *fake) registers(t *fakeThread) []coretest.Note {
	regs := make([]uint64, max(f.pc, f.sp, f.tp)+1)
	regs[f.pc], regs[f.sp] = f.program()+0x123, t.sp
	if f.name == "i386" {
		regs[10] = 0x33 // gs: entry 6 of the GDT, requested privilege 3
	}
	if f.tp >= 0 && !f.noPointers {
		regs[f.tp] = t.tp
	}
	notes := []coretest.Note{f.abi.Prstatus(int32(t.lwp+f.outside), 6, regs...)}
	if f.noPointers {
		return notes
	}
	switch f.tpNote {
	case ntARMTLS:
		notes = append(notes, coretest.Note{Name: "LINUX", Type: ntARMTLS, Desc: f.abi.Words(t.tp)})
	case nt386TLS:
		desc := binary.LittleEndian.AppendUint32(nil, 6)
		desc = binary.LittleEndian.AppendUint32(desc, uint32(t.tp))
		notes = append(notes, coretest.Note{Name: "LINUX", Type: nt386TLS, Desc: append(desc, make([]byte, 8)...)})
	}
	return notes
}

// open has elfcore read a core.
func open(t testing.TB, c *coretest.Core) *elfcore.Core { return openBytes(t, c.Bytes()) }

func newReader(b []byte) io.ReaderAt { return bytes.NewReader(b) }

func openBytes(t testing.TB, b []byte) *elfcore.Core {
	t.Helper()
	core, err := elfcore.New(newReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// read has both elfcore and nptl read a core.
func read(t testing.TB, c *coretest.Core) *nptl.Process {
	t.Helper()
	return nptl.Read(open(t, c), nil)
}
