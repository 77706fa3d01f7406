package elfcore_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// peerNames are what elfutils and gdb call registers, where that is not the name
// in the kernel's headers.
var peerNames = map[string]map[string]string{
	"aarch64": {"cpsr": "pstate"},
	"riscv64": {"fp": "s0"},
	"ppc64le": ppcNames, "ppc64": ppcNames, "ppc": ppcNames,
	"s390": s390Names, "s390x": s390Names,
	"sparc64": {"pc": "tpc", "npc": "tnpc", "state": "tstate"},
	"m68k":    {"a7": "usp", "sp": "usp", "fp": "a6", "ps": "sr"},
	"mips":    numberedNames("zero at v0 v1 a0 a1 a2 a3 t0 t1 t2 t3 t4 t5 t6 t7 s0 s1 s2 s3 s4 s5 s6 s7 t8 t9 k0 k1 gp sp s8 ra", mipsNames),
	"mips64":  numberedNames("zero at v0 v1 a0 a1 a2 a3 a4 a5 a6 a7 t0 t1 t2 t3 s0 s1 s2 s3 s4 s5 s6 s7 t8 t9 k0 k1 gp sp s8 ra", mipsNames),
	"alpha":   numberedNames("v0 t0 t1 t2 t3 t4 t5 t6 t7 s0 s1 s2 s3 s4 s5 s6 a0 a1 a2 a3 a4 a5 t8 t9 t10 t11 ra t12 at gp sp", nil),
}

var (
	ppcNames  = map[string]string{"lr": "link", "cr": "ccr", "orig_gpr3": "orig_r3", "pc": "nip"}
	s390Names = map[string]string{"acr0": "a0", "acr1": "a1", "acr2": "a2", "acr3": "a3", "acr15": "a15"}
	mipsNames = map[string]string{"sr": "status", "bad": "badvaddr", "pc": "epc"}
)

// numberedNames are the names of r0, r1 and so on in a calling standard, and
// others beside them.
func numberedNames(names string, others map[string]string) map[string]string {
	out := maps.Clone(others)
	if out == nil {
		out = map[string]string{}
	}
	for i, n := range strings.Fields(names) {
		out[n] = fmt.Sprint("r", i)
	}
	return out
}

// mustAgree compares a register of a peer, or as many low bits as it shows, with
// the table's, and tells whether the table has it.
func mustAgree(t *testing.T, th *elfcore.Thread, arch, name string, value, mask uint64) bool {
	t.Helper()
	if name == "zero" {
		return false // others know that it is 0, whatever the core says
	}
	if other, ok := peerNames[arch][name]; ok {
		name = other
	}
	got, ok := th.Register(name)
	if ok && got&mask != value {
		t.Errorf("%s of thread %d is %#x, and %#x by others", name, th.TID, got, value)
	}
	return ok
}

var segmentRegister = regexp.MustCompile(`^[cdefgs]s$`)

var elfutilsRegister = regexp.MustCompile(`\b([a-z][a-z_0-9]*): +(0x[0-9a-f]+|-?\d+)`)

// TestElfutilsAgrees has eu-readelf decode NT_PRSTATUS of all architectures that
// it knows, with another value in each register.
func TestElfutilsAgrees(t *testing.T) {
	readelf := coretest.Tool(t, "eu-readelf", "elfutils")
	// How many registers must be found: what eu-readelf prints of them.
	for name, atLeast := range map[string]int{
		"x86_64": 18, "i386": 11, "aarch64": 34, "armhf": 16, "riscv64": 32, "ppc64le": 40, "ppc64": 40, "ppc": 40,
		"s390": 35, "sparc64": 36, "m68k": 17, "alpha": 31,
	} {
		t.Run(name, func(t *testing.T) {
			abi := registerFiles[name].abi
			values := make([]uint64, registerFiles[name].entries)
			for i := range values {
				values[i] = value(abi, i)
			}
			b := withNotes(abi, abi.Prstatus(4711, 11, values...)).Bytes()
			path := writeCore(t, b)
			th := &read(t, b).Threads[0]
			found := map[string]bool{}
			for _, m := range elfutilsRegister.FindAllStringSubmatch(coretest.Output(t, readelf, "-n", path), -1) {
				v, err := strconv.ParseUint(m[2], 0, 64)
				if err != nil {
					signed, err := strconv.ParseInt(m[2], 0, 64)
					if err != nil {
						t.Fatal(err)
					}
					v = uint64(signed)
				}
				if abi.RegSize == 4 {
					v = uint64(uint32(v))
				}
				if segmentRegister.MatchString(m[1]) || name == "alpha" && (m[1] == "pc" || m[1] == "unique") {
					// elfutils shows 16 bits of the first, and takes
					// the others from a word too far: dump_elf_thread
					// of arch/alpha/kernel/process.c has them at 31, 32.
					continue
				}
				if mustAgree(t, th, name, m[1], v, math.MaxUint64) {
					found[m[1]] = true
				}
			}
			if len(found) < atLeast {
				t.Errorf("eu-readelf shows only %d registers", len(found))
			}
		})
	}
}

// gdbRegisters prints every register of up to 64 bits in every thread. Where gdb
// cannot make a frame, as on s390x without call-frame information, its command
// for people still shows them.
const gdbRegisters = `
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    try:
        frame = gdb.newest_frame()
    except gdb.error:
        for line in gdb.execute("info registers", to_string=True).splitlines():
            name, value = line.split()[:2]
            if value.startswith("0x"):
                print("register", thread.ptid[1], name, value, hex((1 << 64) - 1))
        continue
    for register in frame.architecture().registers():
        try:
            value = frame.read_register(register)
            if value.type.sizeof in (4, 8) and value.type.code not in (gdb.TYPE_CODE_FLT, gdb.TYPE_CODE_UNION, gdb.TYPE_CODE_STRUCT):
                mask = (1 << 8 * value.type.sizeof) - 1
                print("register", thread.ptid[1], register.name, hex(int(value) & mask), hex(mask))
        except (gdb.error, OverflowError):
            pass
`

var gdbRegister = regexp.MustCompile(`(?m)^register (\d+) (\S+) (0x[0-9a-f]+) (0x[0-9a-f]+)$`)

// mustAgreeWithGDB compares the threads and registers of a core with those that
// gdb-multiarch shows, and gives how many there were of both.
func mustAgreeWithGDB(t *testing.T, path string) (threads, registers int) {
	t.Helper()
	gdb := coretest.Tool(t, "gdb-multiarch", "gdb-multiarch")
	script := filepath.Join(t.TempDir(), "registers.py")
	if err := os.WriteFile(script, []byte(gdbRegisters), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := elfcore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	args := []string{"-nx", "-q", "-batch", "-ex", "set auto-load no", "-ex", "set libthread-db-search-path /nonexistent", "-ex", "set sysroot /nonexistent"}
	if c.Arch.Name == "m68k" { // no note says that this is Linux
		args = append(args, "-ex", "set osabi GNU/Linux")
	}
	said := coretest.Output(t, gdb, append(args, "-ex", "core-file "+path, "-x", script)...)
	seen := map[int]int{}
	for _, m := range gdbRegister.FindAllStringSubmatch(said, -1) {
		tid, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		v, err := strconv.ParseUint(m[3], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		mask, err := strconv.ParseUint(m[4], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		th := c.Thread(tid)
		if th == nil {
			t.Errorf("gdb has a thread %d that the core does not have", tid)
			continue
		}
		if _, ok := seen[tid]; !ok {
			seen[tid] = 0
		}
		if mustAgree(t, th, c.Arch.Name, m[2], v, mask) {
			seen[tid]++
			registers++
		}
	}
	if len(seen) != len(c.Threads) {
		t.Errorf("gdb shows %d threads, the core has %d", len(seen), len(c.Threads))
	}
	return len(seen), registers
}

// TestGDBAgreesOnMadeCores compares with gdb-multiarch on cores of architectures
// that no core in testdata is of, with another value in each register.
func TestGDBAgreesOnMadeCores(t *testing.T) {
	for name, atLeast := range map[string]int{"ppc64": 36, "ppc": 36, "s390": 19, "mips64": 35, "mips": 35, "m68k": 17} {
		t.Run(name, func(t *testing.T) {
			abi := registerFiles[name].abi
			values := make([]uint64, registerFiles[name].entries)
			for i := range values {
				values[i] = value(abi, i)
			}
			path := writeCore(t, withNotes(abi, abi.Prstatus(4711, 11, values...)).Bytes())
			if threads, registers := mustAgreeWithGDB(t, path); threads != 1 || registers < atLeast {
				t.Errorf("only %d registers of %d threads could be compared", registers, threads)
			}
		})
	}
}

// TestGDBAgrees compares with gdb-multiarch on real cores.
func TestGDBAgrees(t *testing.T) {
	cores, err := filepath.Glob("../testdata/cores/*/core.zst")
	if err != nil || len(cores) == 0 {
		t.Fatalf("no cores in testdata: %v", err)
	}
	for _, packed := range cores {
		name := filepath.Base(filepath.Dir(packed))
		t.Run(name, func(t *testing.T) {
			core, _ := coretest.Unpack(t, name)
			if threads, registers := mustAgreeWithGDB(t, core); registers < 16*threads {
				t.Errorf("only %d registers of %d threads could be compared", registers, threads)
			}
		})
	}
}

// TestGDBAgreesOnForeignCores compares on cores that stand beside this
// repository, where they do.
func TestGDBAgreesOnForeignCores(t *testing.T) {
	for name, atLeast := range map[string]int{
		"elfutils-backtrace.x32.core": 48, "elfutils-backtrace.ppc.core": 72, "elfutils-testfile-m68k-core": 17,
		"lldb-mips64el.core": 35, "rizin-riscv64.core": 32,
	} {
		t.Run(name, func(t *testing.T) {
			if threads, registers := mustAgreeWithGDB(t, writeCore(t, foreign(t, name))); registers < atLeast {
				t.Errorf("only %d registers of %d threads could be compared", registers, threads)
			}
		})
	}
}
