package unwind

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestRowsEqualReadelf compares every row of the .eh_frame of this machine's C
// library, loader and C++ library with what readelf makes of it: the CFA and
// every register. It also finds every function through .eh_frame_hdr.
func TestRowsEqualReadelf(t *testing.T) {
	for _, name := range []string{"libc.so.6", "ld-linux-x86-64.so.2", "libstdc++.so.6", "libgcc_s.so.1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gcc := coretest.Tool(t, "g++", "g++")
			path := strings.TrimSpace(coretest.Output(t, gcc, "-print-file-name="+name))
			compareRows(t, path, true)
		})
	}
}

// TestForeignRowsEqualReadelf does the same for the C libraries of other
// architectures, where the cases with them are at hand.
func TestForeignRowsEqualReadelf(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "shared", "cases", "libs", "*", "libc.so.6.zst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "lib.so")
			coretest.Output(t, coretest.Tool(t, "zstd", "zstd"), "-qd", file, "-o", path)
			compareRows(t, path, false)
		})
	}
}

var (
	fdeLine = regexp.MustCompile(`^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)`)
	rowLine = regexp.MustCompile(`^[0-9a-f]{8,16} `)
	// otherRegister is a rule that names a register: r20 (f1).
	otherRegister = regexp.MustCompile(`\b(r\d+) \(\w+\)`)
)

func compareRows(t *testing.T, path string, mustHave bool) {
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	eh, hdr := f.Section(".eh_frame"), f.Section(".eh_frame_hdr")
	if eh == nil || hdr == nil {
		if mustHave {
			t.Fatalf("%s has no .eh_frame or no .eh_frame_hdr", path)
		}
		return // as on ARM, and where there is nothing but a terminator
	}
	data, err := eh.Data()
	if err != nil {
		t.Fatal(err)
	}
	s := &section{image: sectionImage{data, eh.Addr}, order: f.ByteOrder, word: wordOf(f), start: eh.Addr, size: uint64(len(data)), eh: true, cies: make(map[uint64]*cie)}
	table := fileTable(t, f)
	cmd := exec.Command(coretest.Tool(t, "readelf", "binutils"), "-wFN", path)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBUGINFOD_URLS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, maxRegister)
	for n := range names {
		names[n] = registerName(f.Machine, uint64(n))
	}
	name := func(n uint64) string { return names[n] }
	var fn *fde
	var columns []string
	rows, functions := 0, 0
	var last *row
	var lastLOC, lastLine string
	finish := func() {
		if last != nil {
			rows++
			compareRow(t, name, lastLOC, columns, strings.Fields(otherRegister.ReplaceAllString(lastLine, "$1")), last)
		}
		last = nil
	}
	inEH := false
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		switch m := fdeLine.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "Contents of the"):
			finish()
			inEH = strings.Contains(line, ".eh_frame ")
		case !inEH:
		case m != nil:
			finish()
			at := eh.Addr + number(t, m[1])
			if fn, err = s.fde(at); err != nil {
				t.Fatal(err)
			}
			functions++
			begin, end := number(t, m[2]), number(t, m[3])
			if fn.begin != begin || fn.end != end {
				t.Errorf("FDE at %#x: %#x..%#x, readelf has %#x..%#x", at, fn.begin, fn.end, begin, end)
			}
			for _, pc := range []uint64{begin, end - 1} {
				if got, ok := table.find(pc); table != nil && begin < end && (!ok || got != at) {
					t.Errorf("the search table has %#x for %#x, not %#x", got, pc, at)
				}
			}
		case strings.Contains(line, " CIE "), strings.HasSuffix(line, " ZERO terminator"):
			finish()
			fn = nil
		case strings.HasPrefix(strings.TrimSpace(line), "LOC"):
			finish()
			columns = strings.Fields(line)
		case fn != nil && rowLine.MatchString(line):
			loc := strings.Fields(line)[0]
			// Of two rows for one address, the second is what holds there.
			if loc != lastLOC {
				finish()
			}
			if last, err = fn.row(number(t, loc), 0); err != nil {
				t.Fatalf("row %s: %v", loc, err)
			}
			lastLOC, lastLine = loc, line
		}
	}
	finish()
	if rows == 0 || functions == 0 {
		t.Fatalf("readelf shows %d rows of %d functions", rows, functions)
	}
	t.Logf("%d rows of %d functions", rows, functions)
}

func wordOf(f *elf.File) int {
	if f.Class == elf.ELFCLASS32 {
		return 4
	}
	return 8
}

// fileTable opens .eh_frame_hdr.
func fileTable(t *testing.T, f *elf.File) *searchTable {
	t.Helper()
	hdr := f.Section(".eh_frame_hdr")
	data, err := hdr.Data()
	if err != nil {
		t.Fatal(err)
	}
	s := &section{image: sectionImage{data, hdr.Addr}, order: f.ByteOrder, word: wordOf(f), header: hdr.Addr, cies: make(map[uint64]*cie)}
	table, frame := openSearchTable(s)
	if table == nil || frame != f.Section(".eh_frame").Addr {
		t.Fatalf("the header leads to %#x, .eh_frame is at %#x", frame, f.Section(".eh_frame").Addr)
	}
	return table
}

func number(t *testing.T, hex string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// compareRow holds a row against a line of readelf's: LOC, CFA, registers.
func compareRow(t *testing.T, name func(uint64) string, loc string, columns, values []string, r *row) {
	t.Helper()
	if len(columns) != len(values) {
		t.Fatalf("%s: readelf has columns %q and values %q", loc, columns, values)
	}
	if got := cfaText(r.cfa, name); got != values[1] {
		t.Errorf("%s: the CFA is %s, readelf has %s", loc, got, values[1])
	}
	seen := make(map[string]bool)
	for i := 2; i < len(columns); i++ {
		column := columns[i]
		number := uint64(maxRegister)
		for n := range uint64(maxRegister) {
			if name(n) == column || column == "ra" && n == r.returnColumn {
				number = n
				break
			}
		}
		if number == maxRegister {
			continue // registers that the walk does not follow
		}
		seen[name(number)] = true
		if got := ruleText(r.rule(number)); got != values[i] {
			t.Errorf("%s: %s is %s, readelf has %s", loc, column, got, values[i])
		}
	}
	for _, x := range r.rules {
		if !seen[name(x.register)] {
			t.Errorf("%s: %s is %s, readelf does not have it", loc, name(x.register), ruleText(x.rule))
		}
	}
}

func cfaText(r rule, name func(uint64) string) string {
	if r.kind == valueExpr {
		return "exp"
	}
	return fmt.Sprintf("%s%+d", name(r.register), r.offset)
}

// ruleText gives a rule as readelf does (display_debug_frames in
// binutils/dwarf.c).
func ruleText(r rule) string {
	switch r.kind {
	case sameValue:
		return "s"
	case savedAt:
		return fmt.Sprintf("c%+d", r.offset)
	case offsetBy:
		return fmt.Sprintf("v%+d", r.offset)
	case inOther:
		return fmt.Sprintf("r%d", r.register)
	case savedExpr:
		return "exp"
	case valueExpr:
		return "vexp"
	}
	return "u"
}

// registerName gives readelf's name for a DWARF number.
func registerName(m elf.Machine, n uint64) string {
	names := map[elf.Machine]string{
		elf.EM_X86_64: "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip",
		elf.EM_386:    "eax ecx edx ebx esp ebp esi edi eip eflags",
		elf.EM_RISCV:  "zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6",
	}
	if list := strings.Fields(names[m]); n < uint64(len(list)) {
		return list[n]
	}
	switch {
	case m == elf.EM_AARCH64 && n < 31:
		return fmt.Sprintf("x%d", n)
	case m == elf.EM_AARCH64 && n == 31:
		return "sp"
	case m == elf.EM_AARCH64 && n == 46:
		return "vg"
	case m == elf.EM_AARCH64 && n >= 64 && n < 96:
		return fmt.Sprintf("v%d", n-64)
	case m == elf.EM_RISCV && n >= 32 && n < 64:
		return strings.Fields("ft0 ft1 ft2 ft3 ft4 ft5 ft6 ft7 fs0 fs1 fa0 fa1 fa2 fa3 fa4 fa5 fa6 fa7 fs2 fs3 fs4 fs5 fs6 fs7 fs8 fs9 fs10 fs11 ft8 ft9 ft10 ft11")[n-32]
	case m == elf.EM_S390 && n >= 16 && n < 32:
		n -= 16 // f0 f2 f4 f6 f1 f3 f5 f7 f8 …
		return fmt.Sprintf("f%d", n&8|n<<1&6|n>>2&1)
	}
	return fmt.Sprintf("r%d", n)
}
