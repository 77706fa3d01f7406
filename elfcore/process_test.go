package elfcore_test

import (
	"debug/elf"
	"maps"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// struct elf_prpsinfo has 136 bytes on 64-bit systems, and 124 or 128 on
// 32-bit ones by the size of a uid.
func TestProcess(t *testing.T) {
	sizes := map[int]bool{}
	for name, abi := range abis {
		t.Run(name, func(t *testing.T) {
			note := abi.Prpsinfo(coretest.Prpsinfo{PID: 4242, PPID: -7, UID: 0x1111, GID: 0x2222, Command: "victim", Args: "victim --now  "})
			sizes[len(note.Desc)] = true
			c := readNotes(t, abi, note, abi.Prpsinfo(coretest.Prpsinfo{PID: 1}))
			wantWarnings(t, c)
			if want := (elfcore.Process{PID: 4242, PPID: -7, Name: "victim", Args: "victim --now"}); c.Process == nil || *c.Process != want {
				t.Fatalf("the process is %+v, want %+v", c.Process, want)
			}
			for _, size := range []int{0, 24, len(note.Desc) - 8} {
				note.Desc = note.Desc[:size]
				c := readNotes(t, abi, note)
				if c.Process != nil {
					t.Errorf("%d bytes made a process %+v", size, c.Process)
				}
				wantWarnings(t, c, elfcore.Warning{Offset: c.Size - int64(size), Text: "NT_PRPSINFO"})
			}
		})
	}
	if want := []int{124, 128, 136}; !slices.Equal(slices.Sorted(maps.Keys(sizes)), want) {
		t.Errorf("sizes %v were tried, want %v", sizes, want)
	}
}

func TestCommand(t *testing.T) {
	abi := coretest.X86_64
	for _, c := range []struct{ name, args, wantName, want string }{
		{"short", "short but with arguments", "short", "short but with arguments"},
		{"no arguments", "", "no arguments", "no arguments"},
		{"sixteen letters!", strings.Repeat("x", 80), "sixteen letters!", strings.Repeat("x", 80)},
		{"\xff\xfe", "caf\xe9", "\uFFFD", "caf\uFFFD"},
	} {
		p := readNotes(t, abi, abi.Prpsinfo(coretest.Prpsinfo{Command: c.name, Args: c.args})).Process
		if p.Name != c.wantName || p.Command() != c.want {
			t.Errorf("%q is %q and its command %q", c.name, p.Name, p.Command())
		}
	}
}

func TestAuxv(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			note := abi.Auxv(
				coretest.AuxEntry{Type: elfcore.AuxPageSz, Value: 0x10000},
				coretest.AuxEntry{Type: elfcore.AuxBase, Value: 0xf0001000},
				coretest.AuxEntry{Type: elfcore.AuxPageSz, Value: 1},
			)
			want := map[uint64]uint64{6: 0x10000, 7: 0xf0001000}
			c := readNotes(t, abi, note)
			wantWarnings(t, c)
			if !maps.Equal(c.Auxv, want) || c.PageSize() != 0x10000 {
				t.Errorf("auxiliary vector %v, page size %d", c.Auxv, c.PageSize())
			}
			word := len(abi.Words(0))
			note.Desc = note.Desc[:len(note.Desc)-3*word] // neither AT_NULL nor the last value
			if c := readNotes(t, abi, note); !maps.Equal(c.Auxv, want) {
				t.Errorf("of a cut one %v", c.Auxv)
			}
			note.Desc = append(abi.Words(0, 0), note.Desc...)
			if c := readNotes(t, abi, note); len(c.Auxv) != 0 {
				t.Errorf("behind its end %v", c.Auxv)
			}
			for _, odd := range []uint64{0, 1, 0x800, 0x1001, 0x3000, 0x200000} {
				if got := readNotes(t, abi, abi.Auxv(coretest.AuxEntry{Type: 6, Value: odd})).PageSize(); got != 4096 {
					t.Errorf("a page size of %#x is taken for %#x", odd, got)
				}
			}
		})
	}
}

// vdso makes a vDSO with these notes.
func vdso(abi coretest.ABI, notes ...coretest.NoteSegment) []byte {
	image := coretest.Core{ABI: abi, Notes: notes, EditHeader: func(h *elf.Header64) { h.Type = uint16(elf.ET_DYN) }}
	return image.Bytes()
}

// The vDSO says which kernel it came with: LINUX_VERSION_CODE.
func TestKernelVersion(t *testing.T) {
	for name, abi := range forms {
		t.Run(name, func(t *testing.T) {
			const base = 0x7000
			version := func(code uint32) coretest.Note {
				b := make([]byte, 4)
				abi.Order.PutUint32(b, code)
				return coretest.Note{Name: "Linux", Type: 0, Desc: b}
			}
			buildID := coretest.Note{Name: "GNU", Type: 3, Desc: []byte("twenty bytes of hash")}
			good := vdso(abi, coretest.NoteSegment{Notes: []coretest.Note{buildID}}, coretest.NoteSegment{Notes: []coretest.Note{{Name: "Linux", Type: 0x100, Desc: []byte{1, 2, 3}}, version(6<<16 | 12<<8 | 255)}})
			damaged := func(at int, b byte) []byte {
				out := slices.Clone(good)
				out[at] = b
				return out
			}
			far := slices.Clone(good)
			phoff := offsetOf(abi, unsafe.Offsetof(elf.Header32{}.Phoff), unsafe.Offsetof(elf.Header64{}.Phoff))
			copy(far[phoff:], abi.Words(0x7fffffff))
			for _, c := range []struct {
				name  string
				auxv  []coretest.AuxEntry
				image []byte
				want  string
			}{
				{"there", []coretest.AuxEntry{{Type: 33, Value: base}}, good, "6.12.255"},
				{"not told", nil, good, ""},
				{"elsewhere", []coretest.AuxEntry{{Type: 33, Value: 0x100000}}, good, ""},
				{"at the top", []coretest.AuxEntry{{Type: 33, Value: ^uint64(0)}}, good, ""},
				{"no ELF", []coretest.AuxEntry{{Type: 33, Value: base}}, damaged(0, 'x'), ""},
				{"other class", []coretest.AuxEntry{{Type: 33, Value: base}}, damaged(elf.EI_CLASS, 3-byte(abi.Class)), ""},
				{"program headers far away", []coretest.AuxEntry{{Type: 33, Value: base}}, far, ""},
				{"no notes", []coretest.AuxEntry{{Type: 33, Value: base}}, vdso(abi), ""},
				{"notes of others", []coretest.AuxEntry{{Type: 33, Value: base}}, vdso(abi, coretest.NoteSegment{Notes: []coretest.Note{buildID}}), ""},
				{"absurd note", []coretest.AuxEntry{{Type: 33, Value: base}}, vdso(abi, coretest.NoteSegment{Notes: []coretest.Note{{Name: "X", ClaimDesc: 0xffffffff}, version(1)}}), ""},
				{"program headers cut", []coretest.AuxEntry{{Type: 33, Value: base}}, good[:80], ""},
			} {
				core := withNotes(abi, abi.Auxv(c.auxv...))
				core.Loads = []coretest.Load{{Addr: base, Data: c.image, MemSize: 0x2000}}
				if got := read(t, core.Bytes()).Kernel; got != c.want {
					t.Errorf("%s: kernel %q, want %q", c.name, got, c.want)
				}
			}
			// Cut anywhere it is known or not, and never another.
			for n := range good {
				core := withNotes(abi, abi.Auxv(coretest.AuxEntry{Type: 33, Value: base}))
				core.Loads = []coretest.Load{{Addr: base, Data: good[:n]}}
				if got := read(t, core.Bytes()).Kernel; got != "" {
					t.Errorf("of %d bytes of a vDSO: kernel %q", n, got)
				}
			}
		})
	}
}

// Whoever wrote a core left the notes in an order of its own.
func TestProducer(t *testing.T) {
	abi := coretest.X86_64
	prstatus, prpsinfo, auxv := abi.Prstatus(1, 0), abi.Prpsinfo(coretest.Prpsinfo{PID: 1}), abi.Auxv()
	siginfo, file := abi.Siginfo(coretest.Siginfo{Signo: 6}), abi.File(4096)
	fpregs := coretest.Note{Name: "CORE", Type: elf.NT_FPREGSET, Desc: make([]byte, 512)}
	gnu := func(h *elf.Header64) { h.Ident[elf.EI_OSABI] = byte(elf.ELFOSABI_LINUX) }
	sections := func(h *elf.Header64) { h.Shnum = 9 }
	for _, c := range []struct {
		name  string
		want  elfcore.Producer
		edit  func(*elf.Header64)
		notes []coretest.Note
	}{
		{"fs/binfmt_elf.c", elfcore.Kernel, nil, []coretest.Note{prstatus, prpsinfo, siginfo, auxv, file, fpregs, prstatus, fpregs}},
		{"fs/binfmt_elf.c before 3.7", elfcore.Kernel, nil, []coretest.Note{prstatus, prpsinfo, auxv, fpregs}},
		{"gdb/linux-tdep.c", elfcore.GCore, sections, []coretest.Note{prpsinfo, prstatus, fpregs, siginfo, auxv, file}},
		{"without BFD's sections", elfcore.UnknownProducer, nil, []coretest.Note{prpsinfo, prstatus, fpregs}},
		{"createdump", elfcore.CreateDump, gnu, []coretest.Note{prpsinfo, auxv, file, prstatus, fpregs}},
		{"not createdump's OSABI", elfcore.UnknownProducer, nil, []coretest.Note{prpsinfo, auxv, file, prstatus, fpregs}},
		{"QEMU 7", elfcore.QEMUUser, nil, []coretest.Note{prstatus, prpsinfo, auxv, prstatus, prstatus}},
		{"QEMU 9", elfcore.QEMUUser, nil, []coretest.Note{auxv, prpsinfo, prstatus, prstatus}},
		{"one thread", elfcore.UnknownProducer, nil, []coretest.Note{prstatus}},
		{"no notes", elfcore.UnknownProducer, nil, nil},
	} {
		core := withNotes(abi, c.notes...)
		core.EditHeader = c.edit
		b := core.Bytes()
		if got := read(t, b).Producer; got != c.want {
			t.Errorf("%s: made by %s, want %s", c.name, got, c.want)
		}
	}
	// Of cut notes there may have been others.
	b := withNotes(abi, prstatus, prpsinfo, auxv, fpregs).Bytes()
	if got := read(t, b[:len(b)-1]).Producer; got != elfcore.Kernel {
		t.Errorf("a cut core of the kernel is said to be made by %s", got)
	}
}

func TestForeignProducers(t *testing.T) {
	for name, want := range map[string]elfcore.Producer{
		"chap-SpinningThreads-2.35.core":     elfcore.Kernel,
		"lldb-gcore-x86_64.core":             elfcore.GCore,
		"dotnet-createdump.core":             elfcore.CreateDump,
		"elfutils-backtrace.i386.fp.core":    elfcore.Kernel,
		"elfutils-backtrace.aarch64.core":    elfcore.Kernel,
		"lldb-thread-crash-x86_64.core":      elfcore.Kernel,
		"rizin-riscv64.core":                 elfcore.Kernel,
		"rizin-s390x-musl.core":              elfcore.Kernel,
		"elfutils-backtrace.ppc64le.fp.core": elfcore.Kernel,
	} {
		t.Run(name, func(t *testing.T) {
			if got := read(t, foreign(t, name)).Producer; got != want {
				t.Errorf("made by %s, want %s", got, want)
			}
		})
	}
}

func TestSharedProducers(t *testing.T) {
	for path, want := range map[string]elfcore.Producer{
		"amd64-2.36/gcore":                 elfcore.GCore,
		"amd64-2.36/truncated-notes":       elfcore.Kernel,
		"armhf-2.36/healthy-default":       elfcore.Kernel,
		"quser-arm64-2.36/zombie-user":     elfcore.QEMUUser,
		"quser-s390x-2.36/healthy-default": elfcore.QEMUUser,
	} {
		t.Run(path, func(t *testing.T) {
			if got := read(t, shared(t, "cases", path, "core.zst")).Producer; got != want {
				t.Errorf("made by %s, want %s", got, want)
			}
		})
	}
}
