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

// loadSynthetic loads the modules of a core that no program left.
func loadSynthetic(t *testing.T, c coretest.Core) *Set {
	t.Helper()
	b := c.Bytes()
	core, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(context.Background(), core, Config{NoHostFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func notes(abi coretest.ABI, auxv ...coretest.AuxEntry) []coretest.NoteSegment {
	return []coretest.NoteSegment{{Notes: []coretest.Note{abi.Auxv(auxv...)}}}
}

// Link maps are found in all byte orders and classes.
func TestSyntheticLinkMaps(t *testing.T) {
	for _, abi := range []coretest.ABI{coretest.X86_64, coretest.X32, coretest.I386, coretest.ARM, coretest.AArch64, coretest.S390X, coretest.PPC32, coretest.PPC64LE, coretest.RISCV64} {
		image, data := fuzzSeed(abi)
		s := loadSynthetic(t, coretest.Core{ABI: abi, Notes: notes(abi, coretest.AuxEntry{Type: elfcore.AuxPhdr, Value: fuzzImage + 64}), Loads: []coretest.Load{
			{Addr: fuzzImage, Data: image, Flags: coretest.RX}, {Addr: fuzzData, Data: data, Flags: coretest.RW},
		}})
		if len(s.Modules) != 2 || s.Modules[0] != s.Executable() || s.Modules[1].Bias != fuzzData || s.Modules[1].Name != "/memfd:data" || s.Modules[1].LinkMap != fuzzData+0x280 {
			t.Errorf("%s: %+v", abi.Machine, s.Modules)
		}
	}
}

// glibc before 2.35 has an empty map of the loader in the namespaces of dlmopen,
// which says by l_real whose proxy it is; it does not end the chain.
func TestProxyMap(t *testing.T) {
	abi := coretest.X86_64
	image, data := fuzzSeed(abi)
	c := coretest.Core{ABI: abi, Notes: notes(abi, coretest.AuxEntry{Type: elfcore.AuxPhdr, Value: fuzzImage + 64}, coretest.AuxEntry{Type: elfcore.AuxBase, Value: fuzzData}),
		Loads: []coretest.Load{{Addr: fuzzImage, Data: image, Flags: coretest.RX}, {Addr: fuzzData, Data: data, Flags: coretest.RW}}}
	poke := func(at uint64, words ...uint64) {
		for i, w := range words {
			c.Poke(fuzzData+at+uint64(i)*8, w)
		}
	}
	const rdebug, first, proxy, last, real, name = 0x500, 0x580, 0x600, 0x680, fuzzData + 0x280, fuzzData + 0x404
	c.Poke32(fuzzData+rdebug, 1)
	poke(rdebug+8, fuzzData+first, 0, 0, fuzzData)
	// l_addr, l_name, l_ld, l_next, l_prev, l_real, l_ns
	poke(first, 0x10000, name, 0x10100, fuzzData+proxy, 0, fuzzData+first, 1)
	poke(proxy, 0, name, 0, fuzzData+last, fuzzData+first, real, 1)
	poke(last, 0x20000, name, 0x20100, 0, fuzzData+proxy, fuzzData+last, 1)
	s := loadSynthetic(t, c)
	if len(s.Modules) != 5 || len(s.Warnings) != 0 {
		t.Fatalf("%d modules, warnings %v", len(s.Modules), s.Warnings)
	}
	for i, m := range s.Modules {
		if want := min(i/2, 1); m.Namespace != want || m.IsExecutable != (i == 0) || m.IsLoader != (i == 1 || i == 3) {
			t.Errorf("module %d: %+v", i, m)
		}
	}
	if m := s.Modules[3]; m.Original != s.Modules[1] || m.Bias != fuzzData || m.LinkMap != fuzzData+proxy {
		t.Errorf("the proxy is %+v", m)
	}
}

// Memory tagging leaves a tag in the top byte of pointers into the heap, where
// the link maps of dlopen are.
func TestTaggedLinkMap(t *testing.T) {
	abi := coretest.AArch64
	image, data := fuzzSeed(abi)
	const tag, maps = 0x0b << 56, 0x200
	c := coretest.Core{ABI: abi, Notes: notes(abi, coretest.AuxEntry{Type: elfcore.AuxPhdr, Value: fuzzImage + 64}),
		Loads: []coretest.Load{{Addr: fuzzImage, Data: image, Flags: coretest.RX}, {Addr: fuzzData, Data: data, Flags: coretest.RW}}}
	c.Poke(fuzzData+maps+3*8, tag|(fuzzData+maps+0x80))
	s := loadSynthetic(t, c)
	if len(s.Modules) != 2 || len(s.Warnings) > 0 || s.Modules[1].LinkMap != fuzzData+maps+0x80 {
		t.Errorf("modules %v, warnings %v", s.Modules, s.Warnings)
	}
}

// patchelf moves the program headers behind everything else, into a segment of
// their own.
func TestProgramHeadersElsewhere(t *testing.T) {
	abi := coretest.X86_64
	_, data := fuzzSeed(abi)
	const moved = 0x8000
	var b bytes.Buffer
	for _, p := range []elf.Prog64{
		{Type: uint32(elf.PT_PHDR), Flags: 4, Off: moved, Vaddr: moved, Filesz: 4 * 56, Memsz: 4 * 56},
		{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: 0x1000, Memsz: 0x1000},
		{Type: uint32(elf.PT_LOAD), Flags: 4, Off: moved, Vaddr: moved, Filesz: 4 * 56, Memsz: 4 * 56},
		{Type: uint32(elf.PT_DYNAMIC), Vaddr: fuzzData - fuzzImage, Filesz: 0x40, Memsz: 0x40},
	} {
		if err := binary.Write(&b, abi.Order, p); err != nil {
			t.Fatal(err)
		}
	}
	c := coretest.Core{ABI: abi, Notes: notes(abi, coretest.AuxEntry{Type: elfcore.AuxPhdr, Value: fuzzImage + moved},
		coretest.AuxEntry{Type: elfcore.AuxPhent, Value: 56}, coretest.AuxEntry{Type: elfcore.AuxPhnum, Value: 4}),
		Loads: []coretest.Load{{Addr: fuzzImage + moved, Data: b.Bytes(), Flags: coretest.RO}, {Addr: fuzzData, Data: data, Flags: coretest.RW}}}
	s := loadSynthetic(t, c)
	if m := s.Executable(); m == nil || m.Bias != 0 && m.Bias != fuzzImage || m.Dynamic != fuzzData || len(s.Modules) != 2 {
		t.Errorf("the program is %+v of %v", m, s.Modules)
	}
}
