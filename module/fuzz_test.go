package module

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// FuzzFile: whatever a file holds, nothing panics, and what is read stays in
// proportion to the file.
func FuzzFile(f *testing.F) {
	library := buildLibrary(f, "-Wl,-z,noseparate-code", "-g0")
	f.Add(contents(f, library))
	f.Add(contents(f, buildLibrary(f, "-m32", "-Wl,-z,noseparate-code", "-Wl,--hash-style=sysv", "-s", "-g0")))
	f.Add(contents(f, buildLibrary(f, "-Wl,-z,noseparate-code", "-Wl,--compress-debug-sections=zlib")))
	f.Add([]byte(elf.ELFMAG))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := newFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if file != nil {
				t.Error("an error, and a file")
			}
			return
		}
		file.cut()
		file.debugOnly()
		file.debugLink()
		file.textRelocations()
		read := 0
		for _, s := range file.Sections {
			data, err := file.Section(s.Name)
			if err == nil {
				read = max(read, len(data))
			}
		}
		if read > maxUnpacking*(len(b)+1) {
			t.Errorf("a section of %d bytes in a file of %d", read, len(b))
		}
		file.dwarf()
		set := &Set{core: newProcess(emptyCore(t, file.header)), finder: newFinder(Config{NoHostFiles: true})}
		m := &Module{set: set, File: file, BiasKnown: true}
		m.setPrograms(file.Programs, FromFile)
		set.Modules = []*Module{m}
		set.makeIndex()
		m.prove(file)
		names := 0
		for _, s := range m.TLSSymbols() {
			names += len(s.Name)
			s.Demangled()
		}
		if names > len(b)+int(nameBudget) {
			t.Errorf("%d bytes of names in a file of %d", names, len(b))
		}
		m.Lookup("library_function")
		for _, p := range file.Programs {
			m.Symbolize(elfcore.Addr(p.Vaddr))
			set.ReadMemory(make([]byte, 64), elfcore.Addr(p.Vaddr))
		}
		m.bannerVersion()
		m.threadDB()
	})
}

// emptyCore is a core of the file's machine without memory.
func emptyCore(t testing.TB, h *header) *elfcore.Core {
	t.Helper()
	abi := coretest.ABI{Class: h.class, Order: h.order, Machine: elf.Machine(h.Machine)}
	c := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: []coretest.Note{abi.Auxv()}}}}
	b := c.Bytes()
	core, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// Where the memory of the core of FuzzLoad lies.
const (
	fuzzImage = 0x400000
	fuzzData  = 0x500000
)

// FuzzLoad: whatever memory holds, Load ends without a panic.
func FuzzLoad(f *testing.F) {
	for _, abi := range []coretest.ABI{coretest.X86_64, coretest.ARM, coretest.S390X} {
		image, data := fuzzSeed(abi)
		f.Add(image, data, abi.Class == elf.ELFCLASS64, abi.Order == binary.BigEndian, uint64(0))
		f.Add(image, data, abi.Class == elf.ELFCLASS64, abi.Order == binary.BigEndian, uint64(fuzzData))
	}
	f.Fuzz(func(t *testing.T, image, data []byte, is64, big bool, base uint64) {
		abi := coretest.ARM
		if is64 {
			abi = coretest.X86_64
		}
		if is64 && big {
			abi = coretest.S390X
		}
		c := coretest.Core{ABI: abi,
			Notes: []coretest.NoteSegment{{Notes: []coretest.Note{
				abi.Auxv(coretest.AuxEntry{Type: elfcore.AuxPhdr, Value: fuzzImage + 64}, coretest.AuxEntry{Type: elfcore.AuxPhnum, Value: 3},
					coretest.AuxEntry{Type: elfcore.AuxPhent, Value: 56}, coretest.AuxEntry{Type: elfcore.AuxBase, Value: base},
					coretest.AuxEntry{Type: elfcore.AuxEntry, Value: fuzzImage}, coretest.AuxEntry{Type: elfcore.AuxSysinfo, Value: fuzzData}),
				abi.File(4096, coretest.FileMapping{Start: fuzzImage, End: fuzzImage + 0x1000, Path: "/memfd:image"},
					coretest.FileMapping{Start: fuzzData, End: fuzzData + 0x10000, Path: "/memfd:data (deleted)"}),
			}}},
			Loads: []coretest.Load{
				{Addr: fuzzImage, Data: image[:min(len(image), 0x1000)], MemSize: 0x1000, Flags: coretest.RX},
				{Addr: fuzzData, Data: data[:min(len(data), 0x10000)], MemSize: 0x10000, Flags: coretest.RW},
			},
		}
		b := c.Bytes()
		core, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		s, err := Load(context.Background(), core, Config{NoHostFiles: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, m := range s.Modules {
			m.TLSSymbols()
			m.Lookup("x")
			m.SymbolsFrom()
			for _, r := range m.Ranges {
				s.Symbolize(r.Start)
				s.ReadMemory(make([]byte, 16), r.End-8)
			}
		}
		if len(s.Modules) > len(data)/16+8 {
			t.Errorf("%d modules in %d bytes", len(s.Modules), len(data))
		}
	})
}

// fuzzSeed makes a program image, and data with an r_debug and two link maps.
func fuzzSeed(abi coretest.ABI) (image, data []byte) {
	const dynamic, rdebug, maps, name = 0x0, 0x100, 0x200, 0x400
	c := coretest.Core{ABI: abi, Loads: []coretest.Load{{Addr: fuzzData, Data: make([]byte, 0x800)}}}
	w := uint64(len(abi.Words(0)))
	poke := func(at uint64, words ...uint64) {
		for i, v := range words {
			c.Poke(fuzzData+at+uint64(i)*w, v)
		}
	}
	poke(dynamic, uint64(elf.DT_DEBUG), fuzzData+rdebug, uint64(elf.DT_NULL), 0)
	c.Poke32(fuzzData+rdebug, 1)
	poke(rdebug+w, fuzzData+maps, 0)
	poke(rdebug+4*w, fuzzData)
	first, second := uint64(fuzzData+maps), uint64(fuzzData+maps+0x80)
	poke(maps, 0, fuzzData+name, fuzzData+dynamic, second, 0, first, 0)
	poke(maps+0x80, fuzzData, fuzzData+name+4, fuzzData, 0, first, second, 0)
	copy(c.Loads[0].Data[name:], "\x00\x00\x00\x00/memfd:data\x00")
	data = c.Loads[0].Data

	ident := [16]byte{0x7f, 'E', 'L', 'F', byte(abi.Class), 1, 1}
	if abi.Order == binary.BigEndian {
		ident[5] = 2
	}
	var b bytes.Buffer
	if abi.Class == elf.ELFCLASS64 {
		binary.Write(&b, abi.Order, elf.Header64{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(abi.Machine), Phoff: 64, Phentsize: 56, Phnum: 3})
		for _, p := range []elf.Prog64{
			{Type: uint32(elf.PT_LOAD), Flags: 5, Vaddr: fuzzImage, Filesz: 0x1000, Memsz: 0x1000},
			{Type: uint32(elf.PT_DYNAMIC), Vaddr: fuzzData, Filesz: 0x40, Memsz: 0x40},
			{Type: uint32(elf.PT_TLS), Vaddr: fuzzData, Filesz: 0x40, Memsz: 0x40, Align: 8},
		} {
			binary.Write(&b, abi.Order, p)
		}
	} else {
		binary.Write(&b, abi.Order, elf.Header32{Ident: ident, Type: uint16(elf.ET_EXEC), Machine: uint16(abi.Machine), Phoff: 64, Phentsize: 32, Phnum: 2})
		b.Write(make([]byte, 64-b.Len()))
		for _, p := range []elf.Prog32{
			{Type: uint32(elf.PT_LOAD), Flags: 5, Vaddr: fuzzImage, Filesz: 0x1000, Memsz: 0x1000},
			{Type: uint32(elf.PT_DYNAMIC), Vaddr: fuzzData, Filesz: 0x40, Memsz: 0x40},
		} {
			binary.Write(&b, abi.Order, p)
		}
	}
	return append(b.Bytes(), make([]byte, 0x200)...), data
}
