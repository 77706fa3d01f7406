package elfcore_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// abis are all that coretest knows: both classes in both byte orders are among
// them.
var abis = map[string]coretest.ABI{
	"x86_64": coretest.X86_64, "i386": coretest.I386, "aarch64": coretest.AArch64, "armhf": coretest.ARM, "riscv64": coretest.RISCV64,
	"ppc64le": coretest.PPC64LE, "s390x": coretest.S390X, "x32": coretest.X32, "ppc": coretest.PPC32,
	"ppc64": coretest.PPC64, "s390": coretest.S390, "mips64": coretest.MIPS64, "mips": coretest.MIPS, "loongarch64": coretest.LoongArch64,
	"sparc64": coretest.SPARC64, "alpha": coretest.Alpha, "hppa": coretest.HPPA, "m68k": coretest.M68K,
}

// forms are the four combinations of class and byte order.
var forms = map[string]coretest.ABI{
	"64 little": coretest.X86_64, "64 big": coretest.S390X, "32 little": coretest.I386, "32 big": coretest.PPC32,
}

func isWide(a coretest.ABI) bool { return a.Class == elf.ELFCLASS64 }

// elfSizes are the sizes of the ELF header, a program header and a section
// header.
func elfSizes(a coretest.ABI) (header, segment, section int) {
	if isWide(a) {
		return binary.Size(elf.Header64{}), binary.Size(elf.Prog64{}), binary.Size(elf.Section64{})
	}
	return binary.Size(elf.Header32{}), binary.Size(elf.Prog32{}), binary.Size(elf.Section32{})
}

// offsetOf is where a field of the ELF header stands: unsafe.Offsetof of
// elf.Header32 and elf.Header64.
func offsetOf(a coretest.ABI, narrow, wide uintptr) int64 {
	if isWide(a) {
		return int64(wide)
	}
	return int64(narrow)
}

// read reads a core that must be readable.
func read(t testing.TB, b []byte) *elfcore.Core {
	t.Helper()
	c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// readNotes reads a core that consists of these notes.
func readNotes(t testing.TB, abi coretest.ABI, notes ...coretest.Note) *elfcore.Core {
	t.Helper()
	return read(t, withNotes(abi, notes...).Bytes())
}

func withNotes(abi coretest.ABI, notes ...coretest.Note) *coretest.Core {
	return &coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: notes}}}
}

// refuse wants a file to be no core, for a reason that stands at an offset.
func refuse(t testing.TB, b []byte, offset int64, what string) {
	t.Helper()
	c, err := elfcore.New(bytes.NewReader(b), int64(len(b)))
	if c != nil {
		t.Errorf("a core came with the error %v", err)
	}
	var bad *elfcore.FormatError
	if !errors.As(err, &bad) {
		t.Fatalf("the error is %v, not a *FormatError", err)
	}
	if bad.Offset != offset || !strings.Contains(bad.What, what) {
		t.Errorf("the error is %q, want one at %#x with %q", err, offset, what)
	}
}

// wantWarnings wants exactly these warnings, each at an offset and with a
// text, beside the one about an unknown architecture.
func wantWarnings(t testing.TB, c *elfcore.Core, want ...elfcore.Warning) {
	t.Helper()
	got := c.Warnings
	if !c.Arch.Known() {
		got = got[:len(got)-1]
	}
	ok := len(want) == len(got)
	for i := 0; ok && i < len(want); i++ {
		ok = got[i].Offset == want[i].Offset && strings.Contains(got[i].Text, want[i].Text)
	}
	if !ok {
		t.Errorf("warnings:\n%v\nwant:\n%v", got, want)
	}
}

// wantFault wants a *Fault, as an error may be wrapped.
func wantFault(t testing.TB, err error, want elfcore.Fault) {
	t.Helper()
	var f *elfcore.Fault
	if !errors.As(err, &f) {
		t.Errorf("the error is %v, want the fault %v", err, &want)
	} else if *f != want {
		t.Errorf("the fault is %+v, want %+v", *f, want)
	}
}

func tids(c *elfcore.Core) []int {
	out := []int{}
	for i := range c.Threads {
		out = append(out, c.Threads[i].TID)
	}
	return out
}

// progs has the standard library read the program headers.
func progs(t testing.TB, b []byte, kind elf.ProgType) []elf.ProgHeader {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var out []elf.ProgHeader
	for _, p := range f.Progs {
		if p.Type == kind {
			out = append(out, p.ProgHeader)
		}
	}
	return out
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// foreign unpacks a core that others made.
func foreign(t testing.TB, name string) []byte {
	t.Helper()
	return shared(t, "foreign", name+".zst")
}

// shared unpacks a file that does not belong to the project. It is an extra:
// where there is none the test is skipped.
func shared(t testing.TB, path ...string) []byte {
	t.Helper()
	packed := filepath.Join(append([]string{"..", "..", "shared"}, path...)...)
	if _, err := os.Stat(packed); errors.Is(err, os.ErrNotExist) {
		t.Skipf("NOT RUN: %s is not beside the project", filepath.Join(path...))
	}
	b, err := os.ReadFile(coretest.Unzstd(t, packed, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rawNote encodes a note as it is given: a name that may lack its NUL, padded
// to 4 bytes.
func rawNote(order binary.AppendByteOrder, name string, typ elf.NType, desc []byte) []byte {
	var b []byte
	for _, n := range []int{len(name), len(desc), int(typ)} {
		b = order.AppendUint32(b, uint32(n))
	}
	for _, part := range [][]byte{[]byte(name), desc} {
		b = append(b, part...)
		b = append(b, make([]byte, -len(b)&3)...)
	}
	return b
}

func writeCore(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
