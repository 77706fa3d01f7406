package diagnose_test

import (
	"strings"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// TestWords: the sentences name what they are about.
func TestWords(t *testing.T) {
	core := notes{tids: []int{100, 101}, pid: 100}.core(t)
	zombie := userZombie
	zombie.start = 0x401234
	r := diagnose.Core(core, process(core, zombie, mainHandle, workerHandle, handle{pthread: 0xe000, used: true, tid: 9, state: nptl.Foreign}, usedZombie))
	for id, want := range map[diagnose.ID][]string{
		diagnose.ShadowedThread: {"thread 100 (main)", "a thread that has exited", "0xc000", "started at 0x401234", "0xa000", "list stack_user", "its id is 0"},
		diagnose.PhantomThread:  {"thread 9 ", "0xe000", "does not have"},
		diagnose.ZombieHandle:   {"a thread has exited", "4.0 KiB"},
	} {
		found := r.Find(id)
		if len(found) != 1 {
			t.Fatalf("%s: %+v", id, found)
		}
		for _, w := range want {
			if text := found[0].Summary + "\n" + found[0].Detail; !strings.Contains(text, w) {
				t.Errorf("%s does not say %q:\n%s", id, w, text)
			}
		}
	}
}

// TestUserStacksAreNotLeaked: only stacks that glibc made are counted as kept.
func TestUserStacksAreNotLeaked(t *testing.T) {
	core := notes{tids: []int{100}, pid: 100}.core(t)
	r := diagnose.Core(core, process(core, mainHandle, userZombie))
	if f := r.Find(diagnose.ZombieHandle); len(f) != 1 || strings.Contains(f[0].Detail, "KiB") {
		t.Errorf("%+v", f)
	}
}

// TestLeak: unjoined threads are grouped by the routine that they started at, the
// largest group first, those on the program's own stacks apart.
func TestLeak(t *testing.T) {
	core := notes{tids: []int{100}, pid: 100}.core(t)
	all := []handle{mainHandle}
	for i := range 12 {
		h := usedZombie
		h.pthread = elfcore.Addr(0x100000 + 0x10000*i)
		h.stack, h.start = 0x4000, 0x5000
		if i%3 == 0 {
			h.stack, h.start = 0x1000, 0x6000
		}
		all = append(all, h)
	}
	own := userZombie
	own.stack, own.start = 0x100000, 0x5000
	all = append(all, own)
	names := func(a elfcore.Addr) string {
		if a == 0x5000 {
			return "worker_main"
		}
		return ""
	}
	r := diagnose.Core(core, process(core, all...), diagnose.WithNames(names))
	const want = "8 by worker_main: 128.0 KiB of stacks; 4 by 0x6000: 16.0 KiB of stacks; 1 by worker_main, on stacks of the program's own"
	if got := r.Leak(); got != want {
		t.Errorf("the leak is %q, not %q", got, want)
	}
	f := r.Find(diagnose.ZombieHandle)
	if len(f) != 1 || !strings.Contains(f[0].Detail, ": "+want+".") {
		t.Errorf("%+v does not tell the leak", f)
	}
	if leak := diagnose.Core(core, process(core, mainHandle)).Leak(); leak != "" {
		t.Errorf("no thread is unjoined, and the leak is %q", leak)
	}
}

// TestLibthreadDB: the note says which version, and the lines to paste.
func TestLibthreadDB(t *testing.T) {
	for _, c := range []struct {
		libc nptl.Libc
		want string
	}{
		{nptl.Libc{Kind: nptl.Glibc, Version: 31, Min: 31, Max: 31}, "glibc 2.31 to list"},
		{nptl.Libc{Kind: nptl.Glibc, Min: 36, Max: 41}, "glibc 2.36 to 2.41 to list"},
		{nptl.Libc{Kind: nptl.Glibc}, "of the same version"},
	} {
		core := notes{tids: []int{100, 101}, pid: 100}.core(t)
		p := process(core, mainHandle, workerHandle)
		p.Libc = c.libc
		f := diagnose.Core(core, p).Find(diagnose.LibthreadDB)
		if len(f) != 1 || f[0].Severity != diagnose.Note || !strings.Contains(f[0].Summary, c.want) || !strings.Contains(f[0].Detail, "set libthread-db-search-path") {
			t.Errorf("%+v, should be about %s", f, c.want)
		}
	}
	core := notes{tids: []int{100}, pid: 100}.core(t)
	if f := diagnose.Core(core, &nptl.Process{Threads: make([]nptl.Thread, 1), Libc: nptl.Libc{Kind: nptl.Musl}}).Find(diagnose.LibthreadDB); len(f) > 0 {
		t.Errorf("musl: %+v", f)
	}
}

func TestVersionRange(t *testing.T) {
	for _, c := range []struct {
		min, max int
		want     string
	}{
		{0, 0, ""}, {36, 36, "2.36"}, {36, 41, "2.36 to 2.41"}, {43, 0, "2.43 or later"}, {0, 24, "2.24 or earlier"},
	} {
		if got := diagnose.VersionRange(nptl.Libc{Min: c.min, Max: c.max}); got != c.want {
			t.Errorf("%d to %d: %q, should be %q", c.min, c.max, got, c.want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 29: "2.5 GiB", 1 << 40: "1.0 TiB", ^uint64(0): "16384.0 PiB",
	} {
		if got := diagnose.Bytes(n); got != want {
			t.Errorf("%d: %q, should be %q", n, got, want)
		}
	}
}

// TestPlace: an address is named by the file that was mapped there, and counted
// from where that copy of the file begins, whatever lies between.
func TestPlace(t *testing.T) {
	abi := coretest.X86_64
	c := coretest.Core{ABI: abi, Notes: []coretest.NoteSegment{{Notes: []coretest.Note{
		abi.Prstatus(1, 6),
		abi.File(0x1000,
			coretest.FileMapping{Start: 0x10000, End: 0x11000, Path: "/usr/bin/program"},
			coretest.FileMapping{Start: 0x20000, End: 0x21000, Path: "/lib/libc.so.6 (deleted)"},
			coretest.FileMapping{Start: 0x22000, End: 0x23000, Path: "/lib/other.so"},
			coretest.FileMapping{Start: 0x24000, End: 0x25000, Offset: 4, Path: "/lib/libc.so.6 (deleted)"},
			coretest.FileMapping{Start: 0x30000, End: 0x31000, Path: "/lib/libc.so.6 (deleted)"},
			coretest.FileMapping{Start: 0x31000, End: 0x32000, Offset: 1, Path: "/lib/libc.so.6 (deleted)"},
			coretest.FileMapping{Start: 0x40000, End: 0x41000, Offset: 7, Path: "/lib/cut.so"}),
	}}}}
	core := openBytes(t, c.Bytes())
	for a, want := range map[elfcore.Addr]struct {
		file   string
		offset uint64
		ok     bool
	}{
		0x10000: {"program", 0, true},
		0x10fff: {"program", 0xfff, true},
		0x24010: {"libc.so.6", 0x4010, true},
		0x31010: {"libc.so.6", 0x1010, true},
		0x40010: {"cut.so", 0x10, true},
		0x11000: {}, 0: {}, ^elfcore.Addr(0): {},
	} {
		if file, offset, ok := diagnose.Place(core, a); file != want.file || offset != want.offset || ok != want.ok {
			t.Errorf("%s: %s+%#x %v, should be %s+%#x %v", a, file, offset, ok, want.file, want.offset, want.ok)
		}
	}
}

// TestTruncatedAndFiltered: of a core that is cut, that is said, not that its
// memory was left out.
func TestTruncatedAndFiltered(t *testing.T) {
	abi := coretest.X86_64
	c := coretest.Core{
		ABI:   abi,
		Notes: []coretest.NoteSegment{{Notes: []coretest.Note{abi.Prstatus(100, 6, running(0)...), abi.Prpsinfo(coretest.Prpsinfo{PID: 100}), abi.Siginfo(coretest.Siginfo{Signo: 6})}}},
		Loads: []coretest.Load{{Addr: 0x10000, Data: make([]byte, 0x10000), Flags: coretest.RW}},
	}
	whole := c.Bytes()
	core := openBytes(t, whole[:len(whole)-0x8000])
	p := process(core, mainHandle)
	p.Limits = []nptl.Limit{{Kind: nptl.HeadsMissing, Text: "no list", Fault: elfcore.NotDumped}}
	r := diagnose.Core(core, p)
	cut := r.Find(diagnose.CoreTruncated)
	if len(cut) != 1 || cut[0].Severity != diagnose.Warning || !strings.Contains(cut[0].Summary, "KiB of ") || len(r.Find(diagnose.CoreFiltered)) > 0 || r.Verdict != diagnose.Limited {
		t.Errorf("verdict %s, %+v", r.Verdict, r.Findings)
	}
}
