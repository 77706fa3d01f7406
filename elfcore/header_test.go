package elfcore_test

import (
	"debug/elf"
	"strings"
	"testing"
	"unsafe"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

func TestClassAndByteOrder(t *testing.T) {
	for name, abi := range abis {
		t.Run(name, func(t *testing.T) {
			core := &coretest.Core{ABI: abi, Loads: []coretest.Load{{Addr: 0x1000, Data: make([]byte, 16), Flags: coretest.RW}}}
			core.Poke(0x1000, 0x11223344_55667788)
			core.Poke32(0x1008, 0x99aabbcc)
			c := read(t, core.Bytes())
			if c.Class != abi.Class || c.ByteOrder.String() != abi.Order.String() || c.Arch.Name != name || c.Arch.Machine != abi.Machine {
				t.Errorf("read as %s, %s, %s of %s", c.Class, c.ByteOrder, c.Arch.Name, c.Arch.Machine)
			}
			word, size := uint64(0x55667788), 4
			if isWide(abi) {
				word, size = 0x11223344_55667788, 8
			}
			if got, err := c.Word(0x1000); got != word || err != nil || c.Arch.WordSize() != size {
				t.Errorf("a word of %d bytes: %#x (%v), want %#x of %d", c.Arch.WordSize(), got, err, word, size)
			}
			if got, err := c.Uint32(0x1008); got != 0x99aabbcc || err != nil {
				t.Errorf("an int: %#x (%v)", got, err)
			}
		})
	}
}

// Without these a core cannot be read; every error says where it stands.
func TestDamagedHeader(t *testing.T) {
	var narrow elf.Header32
	var wide elf.Header64
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			at := func(narrow, wide uintptr) int64 { return offsetOf(abi, narrow, wide) }
			for _, c := range []struct {
				name   string
				edit   func(*elf.Header64)
				offset int64
				what   string
			}{
				{"executable", func(h *elf.Header64) { h.Type = uint16(elf.ET_EXEC) }, 16, "ET_EXEC"},
				{"library", func(h *elf.Header64) { h.Type = uint16(elf.ET_DYN) }, 16, "--exe"},
				{"object file", func(h *elf.Header64) { h.Type = uint16(elf.ET_REL) }, 16, "object file"},
				{"no type", func(h *elf.Header64) { h.Type = 0 }, 16, "ET_NONE"},
				{"class", func(h *elf.Header64) { h.Ident[elf.EI_CLASS] = 3 }, 4, "class 3"},
				{"byte order", func(h *elf.Header64) { h.Ident[elf.EI_DATA] = 0 }, 5, "byte order 0"},
				{"no program headers", func(h *elf.Header64) { h.Phnum, h.Phentsize = 0, 0 }, at(unsafe.Offsetof(narrow.Phnum), unsafe.Offsetof(wide.Phnum)), "without program headers"},
				{"short program headers", func(h *elf.Header64) { h.Phentsize-- }, at(unsafe.Offsetof(narrow.Phentsize), unsafe.Offsetof(wide.Phentsize)), "program headers of"},
				{"program headers far away", func(h *elf.Header64) { h.Phoff = 0xfffffff0 }, at(unsafe.Offsetof(narrow.Phoff), unsafe.Offsetof(wide.Phoff)), "0xfffffff0, behind the end"},
			} {
				t.Run(c.name, func(t *testing.T) {
					core := withNotes(abi, abi.Prstatus(1, 0))
					core.EditHeader = c.edit
					refuse(t, core.Bytes(), c.offset, c.what)
				})
			}
		})
	}
}

func TestOtherFiles(t *testing.T) {
	for _, c := range []struct{ start, what string }{
		{"", "empty"},
		{"M", "not an ELF file"},
		{"a text file\n", "61 20 74 65"},
		{"\x7fELG and more", "not an ELF file"},
		{"MDMP\x93\xa7\x00\x00", "minidump"},
		{"KDUMP   \x06", "kdump"},
		{"DISKDUMP", "diskdump"},
		{"PAGEDU64", "Windows"},
		{"\xcf\xfa\xed\xfe\x07", "Mach-O"},
		{"\xfe\xed\xfa\xcf\x01", "Mach-O"},
		{"PK\x03\x04core", "zip"},
		{"ProblemType: Crash\n", "apport"},
	} {
		refuse(t, []byte(c.start), 0, c.what)
		if c.start != "" {
			refuse(t, []byte(c.start+strings.Repeat("\x00", 4096)), 0, c.what)
		}
	}
}

func TestForeignMinidump(t *testing.T) {
	refuse(t, foreign(t, "breakpad-minidump.dmp"), 0, "minidump")
}

func TestOtherSystems(t *testing.T) {
	for _, c := range []struct{ note, what string }{
		{"NetBSD-CORE", "NetBSD"},
		{"NetBSD-CORE@1", "NetBSD"},
		{"OpenBSD", "OpenBSD"},
		{"OpenBSD@229157", "OpenBSD"},
		{"FreeBSD", "FreeBSD"},
		{"QNX", "QNX"},
		{"VMCOREINFO", "dump of a kernel"},
	} {
		b := withNotes(coretest.X86_64, coretest.X86_64.Prstatus(1, 0), coretest.Note{Name: c.note, Type: 1, Desc: []byte("descriptor")}).Bytes()
		refuse(t, b, int64(strings.Index(string(b), "descriptor")), c.what)
	}
}

// The header is 52 or 64 bytes long; what is cut inside it holds nothing, and
// what is cut behind it is a core in which everything is missing.
func TestHeaderCut(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			b := withNotes(abi, abi.Prstatus(1, 0)).Bytes()
			size, _, _ := elfSizes(abi)
			refuse(t, b[:0], 0, "empty")
			for n := 1; n < size; n++ {
				refuse(t, b[:n], int64(n), "ends inside its ELF header")
			}
			c := read(t, b[:size])
			if len(c.Segments) != 0 || len(c.Threads) != 0 || !c.Truncated() || !c.NotesCut {
				t.Errorf("a bare header: %d segments, %d threads, %d bytes missing, notes cut: %v", len(c.Segments), len(c.Threads), c.MissingBytes, c.NotesCut)
			}
			if want := (elfcore.Warning{Offset: int64(size), Text: "the file ends inside its program headers: 1 of 1 are missing"}); c.Warnings[0] != want {
				t.Errorf("the first warning is %q", c.Warnings[0])
			}
		})
	}
}

func TestUnknownArchitecture(t *testing.T) {
	abi := coretest.PPC32
	abi.Machine = elf.EM_VAX
	core := withNotes(abi, abi.Prstatus(77, 6), abi.Prpsinfo(coretest.Prpsinfo{PID: 77, Command: "there"}), abi.Siginfo(coretest.Siginfo{Signo: 11, Code: 1, Addr: 1}))
	core.Loads = []coretest.Load{{Addr: 0x1000, Data: []byte("memory")}}
	c := read(t, core.Bytes())
	if c.Arch.Known() || len(c.Threads) != 0 || c.Signal != nil || c.CrashThread() != nil {
		t.Errorf("known: %v, %d threads, signal %v", c.Arch.Known(), len(c.Threads), c.Signal)
	}
	if len(c.Warnings) != 1 || c.Warnings[0].Offset != int64(unsafe.Offsetof(elf.Header32{}.Machine)) || !strings.Contains(c.Warnings[0].Text, "EM_VAX/32") {
		t.Errorf("warnings: %v", c.Warnings)
	}
	if c.Process == nil || c.Process.PID != 77 || c.Process.Name != "there" {
		t.Errorf("the process is %+v", c.Process)
	}
	if s, err := c.CString(0x1000, 6); s != "memory" || err != nil {
		t.Errorf("memory is %q (%v)", s, err)
	}
	if c.PageSize() != 4096 {
		t.Errorf("page size %d", c.PageSize())
	}
}
