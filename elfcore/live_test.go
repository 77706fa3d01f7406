package elfcore_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// TestLive reads a core that this machine's kernel wrote, and holds what it
// finds against the program's own words, gdb and readelf.
func TestLive(t *testing.T) {
	for flag, arch := range map[string]string{"-m64": "x86_64", "-m32": "i386"} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			exe := filepath.Join(t.TempDir(), "live")
			gcc := coretest.Tool(t, "gcc", "gcc gcc-multilib")
			coretest.Output(t, gcc, flag, "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", filepath.Join("..", "testdata", "programs"), "-o", exe, filepath.Join("testdata", "live.c"))
			factsPath := filepath.Join(t.TempDir(), "facts")
			crashed := coretest.Crash(t, exe, coretest.Run{Args: []string{"facts"}, Env: []string{"FACTS=" + factsPath}})
			facts := readFacts(t, factsPath)
			c, err := elfcore.Open(crashed.Core)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			wantWarnings(t, c)
			if c.Arch.Name != arch || c.Producer != elfcore.Kernel || c.Truncated() || c.NotesCut || c.Path != crashed.Core || c.Compression != "" || c.File() == nil {
				t.Errorf("a core of %s by %s, %d bytes missing, notes cut: %v, at %q", c.Arch.Name, c.Producer, c.MissingBytes, c.NotesCut, c.Path)
			}
			t.Run("process", func(t *testing.T) { liveProcess(t, c, crashed, facts) })
			t.Run("threads", func(t *testing.T) { liveThreads(t, c, crashed.Truth) })
			t.Run("registers", func(t *testing.T) { liveRegisters(t, c, crashed) })
			t.Run("mappings", func(t *testing.T) { liveMappings(t, c, facts) })
			t.Run("memory", func(t *testing.T) { liveMemory(t, c, facts, crashed.Truth) })
			t.Run("readelf", func(t *testing.T) { liveReadelf(t, c, crashed.Core) })
		})
	}
}

// facts are what the program wrote down.
type facts struct {
	ppid    int
	auxv    map[uint64]uint64
	regions map[string]elfcore.Addr
	// segments are the lines of /proc/self/maps, mappings those with a file.
	segments []segment
	mappings []elfcore.Mapping
}

type segment struct {
	elfcore.Range
	protection string
}

func readFacts(t *testing.T, path string) facts {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := facts{auxv: map[uint64]uint64{}, regions: map[string]elfcore.Addr{}}
	for line := range strings.Lines(string(b)) {
		var name, protection, device string
		var a, b, offset, inode uint64
		if _, err := fmt.Sscanf(line, "ppid %d", &f.ppid); err == nil {
			continue
		}
		if _, err := fmt.Sscanf(line, "auxv %x %x", &a, &b); err == nil {
			f.auxv[a] = b
		} else if _, err := fmt.Sscanf(line, "region %s %x", &name, &a); err == nil {
			f.regions[name] = elfcore.Addr(a)
		} else if _, err := fmt.Sscanf(line, "map %x-%x %s %x %s %d", &a, &b, &protection, &offset, &device, &inode); err == nil {
			r := elfcore.Range{Start: elfcore.Addr(a), End: elfcore.Addr(b)}
			f.segments = append(f.segments, segment{r, protection[:3]})
			if inode != 0 {
				f.mappings = append(f.mappings, elfcore.Mapping{Range: r, FileOffset: offset, Path: strings.TrimSpace(line[strings.Index(line, "/"):])})
			}
		} else {
			t.Fatalf("the program wrote %q", line)
		}
	}
	if len(f.regions) == 0 || len(f.mappings) == 0 || len(f.auxv) == 0 {
		t.Fatalf("the program wrote only %s", b)
	}
	return f
}

func liveProcess(t *testing.T, c *elfcore.Core, crashed coretest.Crashed, f facts) {
	truth := crashed.Truth
	want := elfcore.Process{PID: truth.PID, PPID: f.ppid, Name: "live", Args: (crashed.Exe + " facts")}
	want.Args = want.Args[:min(len(want.Args), 79)]
	if c.Process == nil || *c.Process != want {
		t.Errorf("the process is %+v, want %+v", c.Process, want)
	}
	if !maps.Equal(c.Auxv, f.auxv) {
		t.Errorf("the auxiliary vector is\n%x, want\n%x", c.Auxv, f.auxv)
	}
	if c.PageSize() != uint64(os.Getpagesize()) {
		t.Errorf("the page size is %d", c.PageSize())
	}
	s := c.Signal
	if s == nil || s.Name() != "SIGABRT" || s.Code == nil || *s.Code != -6 || s.Sender == nil || *s.Sender != truth.PID || s.Address != nil {
		t.Errorf("the signal is %+v", s) // by abort(), which is tgkill(): SI_TKILL
	}
	if died := c.CrashThread(); died == nil || died.TID != truth.CrashTID || died.Signal != int(unix.SIGABRT) {
		t.Errorf("thread %+v died, want %d", died, truth.CrashTID)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?`).FindStringSubmatch(unix.ByteSliceToString(name.Release[:]))
	patch, _ := strconv.Atoi(release[3])
	// LINUX_VERSION_CODE has 8 bits for the last number.
	if want := fmt.Sprintf("%s.%s.%d", release[1], release[2], min(patch, 255)); c.Kernel != want {
		t.Errorf("the kernel is %q, want %s", c.Kernel, want)
	}
}

func liveThreads(t *testing.T, c *elfcore.Core, truth coretest.Truth) {
	var want []int
	for _, w := range truth.Threads {
		if !w.Lives() {
			continue
		}
		want = append(want, w.TID)
		th := c.Thread(w.TID)
		if th == nil {
			continue
		}
		// On x86 the thread pointer is what pthread_self() returns.
		if tp, _, ok := th.ThreadPointer(); !ok || tp != elfcore.Addr(w.Pthread) {
			t.Errorf("the thread pointer of %s is %s (%v), want %#x", w.Role, tp, ok, w.Pthread)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(tids(c))); !slices.Equal(got, want) {
		t.Errorf("threads %v, want %v", got, want)
	}
}

// liveRegisters has gdb print every register of every thread.
func liveRegisters(t *testing.T, c *elfcore.Core, crashed coretest.Crashed) {
	var names []string
	for _, r := range c.Arch.Regs {
		names = append(names, r.Name)
	}
	said := coretest.GDB(t, "-ex", "thread apply all info registers "+strings.Join(names, " "), crashed.Exe, crashed.Core)
	thread := regexp.MustCompile(`^Thread \d+ \(.*LWP (\d+)\)`)
	register := regexp.MustCompile(`^(\w+) +(0x[0-9a-f]+|-?\d+)`)
	var th *elfcore.Thread
	compared := 0
	for line := range strings.Lines(said) {
		if m := thread.FindStringSubmatch(line); m != nil {
			tid, _ := strconv.Atoi(m[1])
			if th = c.Thread(tid); th == nil {
				t.Errorf("gdb has a thread %d", tid)
			}
		} else if m := register.FindStringSubmatch(line); m != nil && th != nil {
			want, err := strconv.ParseInt(m[2], 0, 64)
			if err != nil {
				unsigned, err := strconv.ParseUint(m[2], 0, 64)
				if err != nil {
					t.Fatalf("gdb said %q", line)
				}
				want = int64(unsigned)
			}
			got, ok := th.Register(m[1])
			if c.Arch.WordSize() == 4 {
				got, want = uint64(uint32(got)), int64(uint32(want))
			}
			if !ok || got != uint64(want) {
				t.Errorf("%s of thread %d is %#x (%v), gdb says %#x", m[1], th.TID, got, ok, want)
			}
			pc, _ := th.PC()
			sp, _ := th.SP()
			if m[1] == c.Arch.PC && uint64(pc) != uint64(want) || m[1] == c.Arch.SP && uint64(sp) != uint64(want) {
				t.Errorf("pc and sp of thread %d are %s and %s, gdb says that %s is %#x", th.TID, pc, sp, m[1], want)
			}
			compared++
		}
	}
	if want := len(c.Threads) * len(names); compared != want {
		t.Errorf("gdb printed %d of %d registers:\n%s", compared, want, said)
	}
}

// liveMappings holds the segments and mappings against /proc/self/maps.
func liveMappings(t *testing.T, c *elfcore.Core, f facts) {
	var segments []segment
	for i := range c.Segments {
		s, protection := &c.Segments[i], []byte("---")
		for j, on := range []bool{s.Readable(), s.Writable(), s.Executable()} {
			if on {
				protection[j] = "rwx"[j]
			}
		}
		segments = append(segments, segment{s.Range, string(protection)})
	}
	if !slices.Equal(segments, f.segments) {
		t.Errorf("segments\n%v, /proc/self/maps has\n%v", segments, f.segments)
	}
	if !slices.Equal(c.Mappings, f.mappings) {
		t.Errorf("mappings\n%v, /proc/self/maps has\n%v", c.Mappings, f.mappings)
	}
}

// liveMemory looks for what the program put into its memory.
func liveMemory(t *testing.T, c *elfcore.Core, f facts, truth coretest.Truth) {
	size := 3 * os.Getpagesize() // REGION_PAGES
	for _, name := range []string{"dumped", "dumped-read-only"} {
		got := make([]byte, size)
		if n, err := c.ReadMemory(got, f.regions[name]); n != size || err != nil {
			t.Errorf("%s: %d bytes (%v)", name, n, err)
		}
		for i, b := range got {
			if want := byte(i*7 + i/256); b != want {
				t.Errorf("%s: byte %d is %d, want %d", name, i, b, want)
				break
			}
		}
	}
	for name, why := range map[string]elfcore.FaultReason{"left-out": elfcore.NotDumped, "gone": elfcore.Unmapped} {
		a, ok := f.regions[name]
		if !ok {
			t.Fatalf("the program has no region %q", name)
		}
		n, err := c.ReadMemory(make([]byte, 1), a)
		if n != 0 {
			t.Errorf("%s: was read", name)
		}
		wantFault(t, err, elfcore.Fault{Addr: a, Why: why})
	}
	for _, th := range truth.Threads {
		tls := th.TLS["tls_int"]
		if got, err := c.Uint32(elfcore.Addr(tls.Addr)); err != nil || fmt.Sprint(got) != string(tls.Value) {
			t.Errorf("tls_int of %s is %d (%v), want %s", th.Role, got, err, tls.Value)
		}
		str := th.TLS["tls_str"]
		p, err := c.Word(elfcore.Addr(str.Addr))
		if err != nil || p != uint64(str.Ptr) {
			t.Errorf("tls_str of %s is %#x (%v), want %#x", th.Role, p, err, str.Ptr)
		}
		if got, err := c.CString(elfcore.Addr(p), 100); err != nil || got != string(str.Value) {
			t.Errorf("tls_str of %s points to %q (%v), want %q", th.Role, got, err, str.Value)
		}
	}
}

// liveReadelf has binutils count and read the segments and the notes.
func liveReadelf(t *testing.T, c *elfcore.Core, core string) {
	readelf := coretest.Tool(t, "readelf", "binutils")
	load := regexp.MustCompile(`(?m)^ +LOAD +0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+) 0x([0-9a-f]+) `)
	type sizes struct{ offset, start, fileSize, size uint64 }
	var got, want []sizes
	for _, m := range load.FindAllStringSubmatch(coretest.Output(t, readelf, "-lW", core), -1) {
		var n [4]uint64
		for i := range n {
			v, err := strconv.ParseUint(m[1+i], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			n[i] = v
		}
		want = append(want, sizes{n[0], n[1], n[2], n[3]})
	}
	for _, s := range c.Segments {
		got = append(got, sizes{uint64(s.Offset), uint64(s.Start), s.FileSize, s.Len()})
	}
	if !slices.Equal(got, want) {
		t.Errorf("segments\n%x, readelf has\n%x", got, want)
	}
	notes := coretest.Output(t, readelf, "-nW", core)
	if n := strings.Count(notes, "NT_PRSTATUS"); n != len(c.Threads) {
		t.Errorf("%d threads, readelf counts %d of NT_PRSTATUS", len(c.Threads), n)
	}
}
