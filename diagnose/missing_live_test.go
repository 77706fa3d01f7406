package diagnose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// lacking are the threads that, by gdb, have no memory where their stack
// pointer points, or where by their own words their thread-locals are.
func lacking(t *testing.T, core, exe string, truth coretest.Truth) (stacks, locals []int) {
	t.Helper()
	script := "python\nfor t in gdb.selected_inferior().threads():\n  t.switch()\n"
	script += "  for what, address in (('stack', '$sp'), ('locals', {"
	for _, thread := range truth.Threads {
		if thread.Lives() {
			script += fmt.Sprintf("%d: '%#x', ", thread.LWP(), uint64(thread.TLS["tls_int"].Addr))
		}
	}
	script += "}[t.ptid[1]])):\n" +
		"    try: gdb.selected_inferior().read_memory(int(gdb.parse_and_eval('(unsigned long)' + address)), 4)\n" +
		"    except gdb.MemoryError: print('lacks', what, t.ptid[1])\n" +
		"  print('asked', t.ptid[1])\n"
	said := coretest.GDB(t, "-iex", "set auto-load libthread-db off", "-c", core, exe, "-ex", script)
	asked := 0
	for line := range strings.Lines(said) {
		var tid int
		switch {
		case scan(line, "lacks stack %d", &tid):
			stacks = append(stacks, tid)
		case scan(line, "lacks locals %d", &tid):
			locals = append(locals, tid)
		case scan(line, "asked %d", &tid):
			asked++
		}
	}
	if asked < 2 {
		t.Fatalf("gdb did not look at the threads:\n%s", said)
	}
	return stacks, locals
}

func scan(line, format string, into *int) bool {
	n, err := fmt.Sscanf(line, format, into)
	return n == 1 && err == nil
}

func diagnoseFile(t *testing.T, path string) *diagnose.Report {
	t.Helper()
	c, err := elfcore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return diagnose.Core(c, nptl.Read(c, nil))
}

// wantLacking wants a finding that names just these threads.
func wantLacking(t *testing.T, r *diagnose.Report, id diagnose.ID, stacks, locals []int) {
	t.Helper()
	found := r.Find(id)
	if len(found) != 1 {
		t.Fatalf("%d findings %s, and gdb lacks the stacks of %v and the thread-locals of %v", len(found), id, stacks, locals)
	}
	want := slices.Concat(stacks, locals)
	got := slices.Clone(found[0].TIDs)
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("%s names the threads %v, and gdb lacks memory of %v", id, got, want)
	}
	for text, n := range map[string]int{"without stack": len(stacks), "without descriptor": len(locals)} {
		if says := strings.Contains(found[0].Summary, text); says != (n > 0) {
			t.Errorf("%d threads are %s: %s", n, text, found[0].Summary)
		}
	}
}

// TestLiveTruncated cuts a core ever shorter, and has gdb say whose memory is
// gone.
func TestLiveTruncated(t *testing.T) {
	crashed := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"healthy"}})
	whole, err := os.ReadFile(crashed.Core)
	if err != nil {
		t.Fatal(err)
	}
	differ := make(map[int]bool)
	for _, percent := range []int{98, 90, 80, 60, 40} {
		cut := filepath.Join(t.TempDir(), "core")
		if err := os.WriteFile(cut, whole[:len(whole)*percent/100], 0o600); err != nil {
			t.Fatal(err)
		}
		stacks, locals := lacking(t, cut, crashed.Exe, crashed.Truth)
		differ[len(stacks)+100*len(locals)] = true
		wantLacking(t, diagnoseFile(t, cut), diagnose.CoreTruncated, stacks, locals)
	}
	if len(differ) < 2 {
		t.Errorf("all cuts lack the same memory, which shows little: %v", differ)
	}
}

// TestLiveFiltered has the kernel leave memory out by coredump_filter.
func TestLiveFiltered(t *testing.T) {
	exe := coretest.Compile(t, "threads.c")
	filter := filepath.Join(t.TempDir(), "filter")
	script := "#!/bin/sh\necho 0 >/proc/self/coredump_filter || exit 3\nexec " + exe + " \"$@\"\n"
	if err := os.WriteFile(filter, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	crashed := coretest.Crash(t, filter, coretest.Run{Args: []string{"healthy"}})
	// gdb is no witness here: it shows zeroes for memory that was not dumped.
	var all []int
	for _, thread := range crashed.Truth.Threads {
		if thread.Lives() {
			all = append(all, thread.LWP())
		}
	}
	r := diagnoseFile(t, crashed.Core)
	wantLacking(t, r, diagnose.CoreFiltered, all, all)
	if detail := r.Find(diagnose.CoreFiltered)[0].Detail; !strings.Contains(detail, "coredump_filter") || strings.Contains(detail, "MADV_DONTDUMP") {
		t.Errorf("it was coredump_filter: %s", detail)
	}
}

// TestWhyFiltered: a filter leaves out all memory of a kind, a program some.
func TestWhyFiltered(t *testing.T) {
	abi := coretest.X86_64
	regs := running(0)
	stack := regs[19] &^ 0xfff
	threads := []coretest.Note{
		abi.Prstatus(100, 6, regs...), abi.Prpsinfo(coretest.Prpsinfo{PID: 100}), abi.Siginfo(coretest.Siginfo{Signo: 6}),
		abi.File(4096, coretest.FileMapping{Start: 0x400000, End: 0x401000, Path: "/bin/it"}),
	}
	left := coretest.Load{Addr: stack, MemSize: 0x2000, Flags: coretest.RW}
	dumped := coretest.Load{Addr: 0x10000, Data: make([]byte, 0x1000), Flags: coretest.RW}
	for name, x := range map[string]struct {
		loads []coretest.Load
		want  string
	}{
		"none of its kind was dumped":    {loads: []coretest.Load{left}, want: "that is coredump_filter"},
		"another of its kind was dumped": {loads: []coretest.Load{dumped, left}, want: "MADV_DONTDUMP"},
	} {
		t.Run(name, func(t *testing.T) {
			c := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: threads}}, Loads: x.loads}
			core := openBytes(t, c.Bytes())
			found := diagnose.Core(core, process(core)).Find(diagnose.CoreFiltered)
			if len(found) != 1 || !slices.Equal(found[0].TIDs, []int{100}) || !strings.Contains(found[0].Detail, x.want) {
				t.Errorf("%q is not said of thread 100: %+v", x.want, found)
			}
		})
	}
}
