package unwind

import (
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestRowsEqualReadelf compares every row of the call-frame information of this
// machine's C library, loader and C++ library with what readelf makes of it: the
// CFA and every register. It also finds every function through .eh_frame_hdr.
func TestRowsEqualReadelf(t *testing.T) {
	for _, name := range []string{"libc.so.6", "ld-linux-x86-64.so.2", "libstdc++.so.6", "libgcc_s.so.1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gcc := coretest.Tool(t, "g++", "g++")
			path := strings.TrimSpace(coretest.Output(t, gcc, "-print-file-name="+name))
			if c := compareRows(t, path); c.functions[".eh_frame"] == 0 {
				t.Errorf("%s has no function in .eh_frame", path)
			}
		})
	}
}

// TestForeignRowsEqualReadelf does the same for the libraries of other
// architectures, where the cases with them are at hand: equal files once.
func TestForeignRowsEqualReadelf(t *testing.T) {
	libs := filepath.Join("..", "..", "shared", "cases", "libs")
	if _, err := os.Stat(libs); err != nil {
		t.Skip("NOT RUN: there is no ../shared/cases beside the project")
	}
	files, err := filepath.Glob(filepath.Join(libs, "*", "*.zst"))
	if err != nil {
		t.Fatal(err)
	}
	rowsOf := make(map[elf.Machine]int)
	t.Run("all", func(t *testing.T) {
		var mu sync.Mutex
		seen := make(map[[sha256.Size]byte]bool)
		for _, file := range files {
			b := unpacked(t, file)
			if sum := sha256.Sum256(b); seen[sum] {
				continue
			} else {
				seen[sum] = true
			}
			t.Run(strings.TrimSuffix(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), ".zst"), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "lib.so")
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				c := compareRows(t, path)
				mu.Lock()
				rowsOf[c.machine] += c.rows
				mu.Unlock()
			})
		}
	})
	for _, m := range []elf.Machine{elf.EM_X86_64, elf.EM_386, elf.EM_AARCH64, elf.EM_PPC64, elf.EM_RISCV, elf.EM_S390} {
		if rowsOf[m] == 0 {
			t.Errorf("no row of %s was compared", m)
		}
	}
}

// TestProgramRowsEqualReadelf does it for programs of all architectures with
// debug information. Those of ARM have rows in .debug_frame only.
func TestProgramRowsEqualReadelf(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "cores", "*", "exe.zst"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no programs in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "exe")
			if err := os.WriteFile(path, unpacked(t, file), 0o600); err != nil {
				t.Fatal(err)
			}
			if c := compareRows(t, path); c.rows == 0 {
				t.Error("no row was compared")
			}
		})
	}
}

func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	return []byte(coretest.Output(t, coretest.Tool(t, "zstd", "zstd"), "-dqc", path))
}

var (
	sectionLine = regexp.MustCompile(`^Contents of the (\S+) section`)
	fdeLine     = regexp.MustCompile(`^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)`)
	cieLine     = regexp.MustCompile(`^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ CIE `)
	rowLine     = regexp.MustCompile(`^[0-9a-f]{8,16} `)
	// otherRegister is a rule that names a register: r20 (f1).
	otherRegister = regexp.MustCompile(`\b(r\d+) \(\w+\)`)
)

// compared says how much was held against readelf.
type compared struct {
	machine   elf.Machine
	rows      int
	functions map[string]int // by section
}

// printedRow is a row as readelf prints it.
type printedRow struct {
	columns []string
	line    string
}

// comparison goes through what readelf prints.
type comparison struct {
	compared
	t     *testing.T
	file  *elf.File
	names []string
	table *searchTable // of .eh_frame, where there is one

	section string
	from    *section
	fn      *fde
	// common are the rows of CIEs by their offset; of a function that has no
	// row of its own, that of its CIE holds.
	common  map[uint64]printedRow
	inCIE   bool
	entry   uint64 // offset of a CIE, or of the CIE of an FDE
	none    bool   // no row of the function has come yet
	columns []string
	// last is a row that a second one for its address may replace.
	last    printedRow
	lastLOC string
}

// compareRows compares all rows of a file, of .eh_frame and of .debug_frame.
func compareRows(t *testing.T, path string) compared {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := &comparison{compared: compared{machine: f.Machine, functions: make(map[string]int)}, t: t, file: f, names: make([]string, maxRegister)}
	for n := range c.names {
		c.names[n] = registerName(f.Machine, uint64(n))
	}
	if f.Section(".eh_frame_hdr") != nil {
		c.table = fileTable(t, f)
	}
	out := coretest.Output(t, coretest.Tool(t, "readelf", "binutils"), "-wFN", path)
	for line := range strings.Lines(out) {
		c.line(strings.TrimRight(line, "\n"))
	}
	c.endFunction()
	// What readelf does not show must be nothing.
	for _, name := range []string{".eh_frame", ".debug_frame"} {
		if s := fileFrames(t, f, name); s != nil && len(makeIndex(s).functions) > c.functions[name] {
			t.Errorf("%d functions in %s, readelf shows %d", len(makeIndex(s).functions), name, c.functions[name])
		}
	}
	t.Logf("%d rows; functions: %v", c.rows, c.functions)
	return c.compared
}

// fileFrames opens a section of call-frame information, nil where there is none.
func fileFrames(t *testing.T, f *elf.File, name string) *section {
	t.Helper()
	h := f.Section(name)
	if h == nil || h.Type == elf.SHT_NOBITS {
		return nil
	}
	data, err := h.Data()
	if err != nil {
		t.Fatal(err)
	}
	return &section{image: sectionImage{data, h.Addr}, order: f.ByteOrder, word: wordOf(f), start: h.Addr, size: uint64(len(data)), eh: name == ".eh_frame", cies: make(map[uint64]*cie)}
}

func (c *comparison) line(line string) {
	if m := sectionLine.FindStringSubmatch(line); m != nil {
		c.endFunction()
		c.section, c.from, c.common = m[1], fileFrames(c.t, c.file, m[1]), make(map[uint64]printedRow)
		return
	}
	if m := fdeLine.FindStringSubmatch(line); m != nil {
		c.endFunction()
		c.beginFunction(m[1:])
		return
	}
	if m := cieLine.FindStringSubmatch(line); m != nil {
		c.endFunction()
		c.inCIE, c.entry = true, number(c.t, m[1])
		return
	}
	switch {
	case strings.HasSuffix(line, " ZERO terminator"):
		c.endFunction()
	case strings.HasPrefix(strings.TrimSpace(line), "LOC"):
		c.columns = strings.Fields(line)
	case rowLine.MatchString(line) && c.inCIE:
		c.common[c.entry] = printedRow{c.columns, line}
	case rowLine.MatchString(line) && c.fn != nil:
		// Of two rows for one address, the second is what holds there.
		if loc := strings.Fields(line)[0]; loc != c.lastLOC {
			c.endRow()
			c.lastLOC = loc
		}
		c.last, c.none = printedRow{c.columns, line}, false
	}
}

func (c *comparison) beginFunction(m []string) {
	c.functions[c.section]++
	at := c.from.start + number(c.t, m[0])
	var err error
	if c.fn, err = c.from.fde(at); err != nil {
		c.t.Fatal(err)
	}
	c.entry, c.none = number(c.t, m[1]), true
	begin, end := number(c.t, m[2]), number(c.t, m[3])
	if c.fn.begin != begin || c.fn.end != end {
		c.t.Errorf("FDE at %#x: %#x..%#x, readelf has %#x..%#x", at, c.fn.begin, c.fn.end, begin, end)
	}
	if c.table == nil || c.section != ".eh_frame" || begin == end {
		return
	}
	for _, pc := range []uint64{begin, end - 1} {
		if got, ok := c.table.find(pc); !ok || got != at {
			c.t.Errorf("the search table has %#x for %#x, not %#x", got, pc, at)
		}
	}
}

// endFunction ends an FDE or a CIE.
func (c *comparison) endFunction() {
	if row, ok := c.common[c.entry]; ok && c.fn != nil && c.none && c.fn.begin < c.fn.end {
		c.last, c.lastLOC = row, fmt.Sprintf("%x", c.fn.begin)
	}
	c.endRow()
	c.fn, c.inCIE, c.lastLOC = nil, false, ""
}

// endRow compares the last row.
func (c *comparison) endRow() {
	if c.last.line == "" {
		return
	}
	c.rows++
	r, err := c.fn.row(number(c.t, c.lastLOC), 0)
	if err != nil {
		c.t.Fatalf("row %s: %v", c.lastLOC, err)
	}
	name := func(n uint64) string { return c.names[n] }
	compareRow(c.t, name, c.lastLOC, c.last.columns, strings.Fields(otherRegister.ReplaceAllString(c.last.line, "$1")), r)
	c.last = printedRow{}
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
