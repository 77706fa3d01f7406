package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// foreignCore is what is known, from those who made it, of a core that nobody
// made for this project.
type foreignCore struct {
	file    string
	verdict string // empty: it is refused, and refusal is why
	refusal string
	arch    string
	threads int
	zombies int
	libc    string // the kind
	version string // of glibc, where it is known; what is said must allow it
	finding string // one that must be among them
}

// foreignCores are from the test data of chap, drgn, elfutils, file, lldb, rizin,
// dotnet, Go and Breakpad. Those of elfutils have two threads, of which main joins the other
// one; their libcs were told by their symbols. A static program of x86-64 that was
// dumped by the kernels of the time has no thread pointer for main.
var foreignCores = []foreignCore{
	{file: "chap-SpinningThreads-2.35.core", verdict: "healthy", arch: "x86_64", threads: 3, zombies: 1, libc: "glibc", version: "2.35", finding: "zombie-handle"},
	{file: "chap-python-5-threads.core", verdict: "warnings", arch: "x86_64", threads: 5, libc: "glibc", version: "2.23", finding: "thread-pointer-bad"},
	{file: "chap-OneAllocated.core", verdict: "healthy", arch: "x86_64", threads: 1, libc: "unknown"},
	{file: "chap-OneAllocated-i386.core", verdict: "healthy", arch: "i386", threads: 1, libc: "unknown"},
	{file: "chap-truncated-512K.core", verdict: "limited", arch: "x86_64", threads: 1, libc: "unknown", finding: "core-truncated"},
	{file: "drgn-crashme.core", verdict: "healthy", arch: "x86_64", threads: 1, libc: "glibc"},
	{file: "drgn-crashme-pie-no-headers.core", verdict: "healthy", arch: "x86_64", threads: 1, libc: "glibc"},
	{file: "drgn-crashme-static-pie.core", verdict: "healthy", arch: "x86_64", threads: 1, libc: "musl"},
	{file: "drgn-multithreaded.core", verdict: "healthy", arch: "x86_64", threads: 13, libc: "glibc", version: "2.28"},
	{file: "elfutils-backtrace.aarch64.core", verdict: "healthy", arch: "aarch64", threads: 2, libc: "glibc", version: "2.17"},
	{file: "elfutils-backtrace.aarch64.fp.core", verdict: "healthy", arch: "aarch64", threads: 2, libc: "glibc", version: "2.19"},
	{file: "elfutils-backtrace.i386.core", verdict: "healthy", arch: "i386", threads: 2, libc: "glibc", version: "2.17"},
	{file: "elfutils-backtrace.i386.fp.core", verdict: "healthy", arch: "i386", threads: 2, libc: "glibc", version: "2.12"},
	{file: "elfutils-backtrace.ppc.core", verdict: "healthy", arch: "ppc", threads: 2, libc: "glibc", version: "2.18"},
	{file: "elfutils-backtrace.ppc64le.fp.core", verdict: "healthy", arch: "ppc64le", threads: 2, libc: "glibc", version: "2.17"},
	{file: "elfutils-backtrace.s390.core", verdict: "healthy", arch: "s390", threads: 2, libc: "glibc", version: "2.12"},
	{file: "elfutils-backtrace.s390x.core", verdict: "healthy", arch: "s390x", threads: 2, libc: "glibc", version: "2.12"},
	{file: "elfutils-backtrace.sparc.core", verdict: "healthy", arch: "sparc64", threads: 2, libc: "glibc", version: "2.12"},
	{file: "elfutils-backtrace.x32.core", verdict: "warnings", arch: "x32", threads: 2, libc: "glibc", version: "2.20", finding: "thread-pointer-bad"},
	{file: "elfutils-backtrace.x86_64.core", verdict: "warnings", arch: "x86_64", threads: 2, libc: "glibc", version: "2.17", finding: "thread-pointer-bad"},
	{file: "elfutils-backtrace.x86_64.fp.core", verdict: "warnings", arch: "x86_64", threads: 2, libc: "glibc", version: "2.19", finding: "thread-pointer-bad"},
	{file: "elfutils-linkmap-cut.core", verdict: "healthy", arch: "x86_64", threads: 1, libc: "glibc", version: "2.18"},
	{file: "elfutils-testcore-rtlib", verdict: "healthy", arch: "i386", threads: 1, libc: "glibc"},
	{file: "elfutils-testcore-rtlib-ppc", verdict: "healthy", arch: "ppc", threads: 1, libc: "glibc"},
	{file: "elfutils-testfile-m68k-core", verdict: "healthy", arch: "m68k", threads: 1, libc: "glibc", version: "2.23"},
	{file: "elfutils-testfile-x32-core", verdict: "healthy", arch: "x32", threads: 1, libc: "glibc", version: "2.20"},
	{file: "elfutils-testfile-phdrs.elf", verdict: "limited", arch: "x86_64", libc: "unknown", finding: "no-threads"},
	{file: "elfutils-testfile62", refusal: "a dump of a kernel (vmcore)"},
	{file: "dotnet-createdump.core", verdict: "limited", arch: "x86_64", threads: 7, libc: "glibc", version: "2.19", finding: "core-filtered"},
	{file: "lldb-gcore-x86_64.core", verdict: "limited", arch: "x86_64", threads: 3, libc: "unknown", finding: "core-filtered"},
	{file: "lldb-thread-crash-x86_64.core", verdict: "limited", arch: "x86_64", threads: 3, libc: "glibc", version: "2.24", finding: "core-filtered"},
	{file: "lldb-ppc64le.core", verdict: "limited", arch: "ppc64le", threads: 1, libc: "unknown", finding: "core-filtered"},
	{file: "lldb-mips64el.core", verdict: "limited", arch: "mips64", threads: 1, libc: "unknown", finding: "core-filtered"},
	{file: "golang-debug.core", verdict: "healthy", arch: "x86_64", threads: 5, libc: "none"},
	{file: "file-ppc.core", verdict: "healthy", arch: "ppc", threads: 1, libc: "unknown"},
	{file: "file-core2-sparc.core", refusal: "a core of Solaris or illumos"},
	{file: "netbsd-amd64.core", refusal: "a core of NetBSD"},
	{file: "openbsd-sparc64.core", refusal: "a core of OpenBSD"},
	{file: "breakpad-minidump.dmp", refusal: "a minidump"},
	{file: "rizin-loongarch64.core", verdict: "healthy", arch: "loongarch64", threads: 1, libc: "glibc"},
	{file: "rizin-more-than-65535-segments.core", verdict: "limited", arch: "x86_64", libc: "unknown", finding: "no-threads"},
	{file: "rizin-ppc64le.core", verdict: "healthy", arch: "ppc64le", threads: 1, libc: "glibc"},
	{file: "rizin-riscv64.core", verdict: "healthy", arch: "riscv64", threads: 1, libc: "glibc"},
	{file: "rizin-s390x-musl.core", verdict: "healthy", arch: "s390x", threads: 1, libc: "musl"},
}

// TestForeignCores gives each core of a collection beside this repository, where
// it is there, a calm and correct answer, the same in every run.
func TestForeignCores(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "foreign")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("NOT RUN: there is no ../shared/foreign beside the project")
	}
	for _, want := range foreignCores {
		t.Run(want.file, func(t *testing.T) {
			t.Setenv("DEBUGINFOD_URLS", "")
			path := filepath.Join(t.TempDir(), want.file)
			coretest.Output(t, coretest.Tool(t, "zstd", "zstd"), "-dq", "--sparse", filepath.Join(dir, want.file+".zst"), "-o", path)
			for _, args := range [][]string{{"check", "--json", path}, {"threads", "--json", path}} {
				status := map[string]int{"healthy": exitDone, "warnings": exitFindings, "limited": exitFindings, "": exitFailed}[want.verdict]
				if args[0] == "threads" && want.verdict != "" {
					status = exitDone
				}
				var first string
				for i := range 3 {
					var out, errs bytes.Buffer
					if got := run(context.Background(), args, strings.NewReader(""), &out, &errs); got != status {
						t.Fatalf("%v: status %d, not %d\n%s", args, got, status, errs.String())
					}
					if said := out.String() + errs.String(); i == 0 {
						first = said
					} else if said != first {
						t.Errorf("%v says another thing in run %d:\n%s\nthan in the first:\n%s", args, i+1, said, first)
					}
				}
				if want.verdict == "" {
					if !strings.Contains(first, want.refusal) {
						t.Errorf("%v: it is refused so: %s", args, first)
					}
				} else {
					want.compare(t, args[0], first)
				}
			}
		})
	}
}

func (want foreignCore) compare(t *testing.T, command, document string) {
	t.Helper()
	var d struct {
		Verdict string
		Core    struct{ Arch string }
		Libc    struct {
			Kind string
			Min  string `json:"version_min"`
			Max  string `json:"version_max"`
		}
		Threads  []struct{}
		Handles  []struct{ State string }
		Findings []struct{ ID string }
	}
	parseInto(t, document, &d)
	if d.Core.Arch != want.arch || len(d.Threads) != want.threads || d.Libc.Kind != want.libc {
		t.Errorf("%s says %d threads of %s with %s, and there are %d of %s with %s", command, len(d.Threads), d.Core.Arch, d.Libc.Kind, want.threads, want.arch, want.libc)
	}
	if v := want.version; v != "" && (d.Libc.Min != "" && d.Libc.Min > v || d.Libc.Max != "" && d.Libc.Max < v) {
		t.Errorf("%s says glibc %s to %s, and it is %s", command, d.Libc.Min, d.Libc.Max, v)
	}
	zombies := 0
	for _, h := range d.Handles {
		if h.State == "zombie" {
			zombies++
		}
	}
	if zombies != want.zombies {
		t.Errorf("%s says %d zombies, and there are %d", command, zombies, want.zombies)
	}
	if command != "check" {
		return
	}
	if d.Verdict != want.verdict {
		t.Errorf("the verdict is %s, and should be %s", d.Verdict, want.verdict)
	}
	if want.finding != "" && !slices.ContainsFunc(d.Findings, func(f struct{ ID string }) bool { return f.ID == want.finding }) {
		t.Errorf("the findings are %+v, without %s", d.Findings, want.finding)
	}
}
