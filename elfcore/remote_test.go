package elfcore_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// TestRemoteCost bounds what is transferred of a core by its threads and notes,
// and wants the same diagnosis as of the file.
func TestRemoteCost(t *testing.T) {
	exe := coretest.Compile(t, "threads.c")
	for _, scenario := range []string{"single", "healthy", "zombies-many"} {
		t.Run(scenario, func(t *testing.T) {
			crashed := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}})
			store := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(crashed.Core))))
			defer store.Close()
			remote, err := openRemote(store.URL + "/" + filepath.Base(crashed.Core))
			if err != nil {
				t.Fatal(err)
			}
			core, err := elfcore.New(remote, remote.size)
			if err != nil {
				t.Fatal(err)
			}
			report := diagnose.Core(core, nptl.Read(core, nil))
			local, err := elfcore.Open(crashed.Core)
			if err != nil {
				t.Fatal(err)
			}
			defer local.Close()
			if want := diagnose.Core(local, nptl.Read(local, nil)).Verdict; report.Verdict != want {
				t.Errorf("%s, and read from the file it is %s", report.Verdict, want)
			}

			// The notes are at the core's start, in front of all memory. The
			// loader's and libc's data are a few blocks more.
			notes := core.Size
			for _, s := range core.Segments {
				notes = min(notes, s.Offset)
			}
			threads := int64(len(core.Threads) + len(crashed.Truth.Zombies))
			bound := notes + remoteBlock*(16+threads)
			t.Logf("%d of %d bytes for %d threads and descriptors; at most %d", remote.transferred, remote.size, threads, bound)
			if remote.transferred > bound {
				t.Errorf("%d bytes were transferred for %d threads and descriptors; at most %d are needed", remote.transferred, threads, bound)
			}
		})
	}
}
