package diagnose_test

import (
	"os"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// TestThreadWithoutHandleByArchitecture takes a living thread off its list. gdb
// 13 of Debian for s390x and ppc64el, run by qemu-user, shows its thread-locals on
// such cores of their own architecture, also where it has another's thread
// pointer; gdb-multiarch on x86_64 refuses them on all, as does gdb for x86_64.
func TestThreadWithoutHandleByArchitecture(t *testing.T) {
	for name, only := range map[string]string{
		"riscv64-glibc2.36-healthy": "riscv64", "ppc64le-glibc2.36-healthy": "ppc64le", "s390x-glibc2.36-healthy": "s390x",
		"aarch64-glibc2.36-healthy": "", "armhf-glibc2.36-healthy": "", "x86_64-glibc2.36-healthy": "", "i386-glibc2.36-healthy": "",
	} {
		core, _ := coretest.Unpack(t, name)
		tid := unlinkWorker(t, core)
		c, err := elfcore.Open(core)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		found := diagnose.Core(c, nptl.Read(c, nil)).Find(diagnose.ThreadWithoutHandle)
		want := "gdb will refuse the thread-locals of thread "
		if only != "" {
			want = "only a gdb that runs on " + only + " will show the thread-locals of thread "
		}
		if len(found) != 1 || found[0].Severity != diagnose.Warning || len(found[0].TIDs) != 1 || found[0].TIDs[0] != tid || !strings.HasPrefix(found[0].Summary, want) {
			t.Errorf("%s: thread %d: %+v, want %q", name, tid, found, want)
		}
	}
}

// unlinkWorker makes the neighbours of a worker's handle on the list skip it, and
// gives the worker's id.
func unlinkWorker(t *testing.T, path string) int {
	t.Helper()
	c, err := elfcore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	word := elfcore.Addr(c.Arch.WordSize())
	read := func(a elfcore.Addr) elfcore.Addr {
		v, err := c.Word(a)
		if err != nil {
			t.Fatal(err)
		}
		return elfcore.Addr(v)
	}
	// copyWord writes the word at one address to another.
	copyWord := func(to, from elfcore.Addr) {
		b := make([]byte, word)
		_, err := c.ReadMemory(b, from)
		at, ok := c.Locate(to)
		if err == nil && ok {
			_, err = f.WriteAt(b, at)
		}
		if err != nil || !ok {
			t.Fatalf("%s cannot be written (%v)", to, err)
		}
	}
	for _, h := range nptl.Read(c, nil).Handles {
		if h.State != nptl.Live || h.Initial {
			continue
		}
		next, previous := read(h.Node), read(h.Node+word)
		copyWord(next+word, h.Node+word)
		copyWord(previous, h.Node)
		return c.Threads[h.Owner].TID
	}
	t.Fatal("no worker")
	return 0
}
