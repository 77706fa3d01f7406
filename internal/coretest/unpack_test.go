package coretest_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestCores has elfutils and gdb, neither of which needs the libc for that,
// find in each core of testdata what its truth says of it.
func TestCores(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join("..", "..", "testdata", "cores", "*", "truth.json"))
	if err != nil || len(folders) < 3 {
		t.Fatalf("testdata/cores holds %d cores (%v)", len(folders), err)
	}
	for _, folder := range folders {
		name := filepath.Base(filepath.Dir(folder))
		t.Run(name, func(t *testing.T) {
			core, truth := coretest.Unpack(t, name)
			if want := truth.Arch + "-" + strings.ReplaceAll(truth.Libc, " ", "") + "-" + truth.Scenario; name != want {
				t.Errorf("the folder's name should be %s", want)
			}
			wantThreads(t, coretest.Crashed{Core: core, Truth: truth})
			gdb := []string{"-c", core}
			var said []string
			for _, thread := range truth.Threads {
				number, wide, text := thread.TLS["tls_int"], thread.TLS["tls_u64"], thread.TLS["tls_str"]
				gdb = append(gdb, "-ex", fmt.Sprintf(`printf "%%d %%#llx %%s\n", *(int *)%#x, *(unsigned long long *)%#x, *(char **)%#x`, number.Addr, wide.Addr, text.Addr))
				said = append(said, fmt.Sprintf("%s %s %s\n", number.Value, wide.Value, text.Value))
			}
			if out, want := coretest.GDBMultiarch(t, gdb...), strings.Join(said, ""); !strings.Contains(out, want) {
				t.Errorf("gdb reads\n%s, the program said\n%s", out, want)
			}
		})
	}
}

var buildID = regexp.MustCompile(`Build ID: ([0-9a-f]+)`)

// TestUnpackExe has elfutils compare the build-ids in program and core.
func TestUnpackExe(t *testing.T) {
	for _, name := range []string{"x86_64-glibc2.36-zombie-user", "i386-glibc2.36-zombie-user"} {
		core, _ := coretest.Unpack(t, name)
		id := buildID.FindStringSubmatch(coretest.Output(t, coretest.Tool(t, "eu-readelf", "elfutils"), "-n", coretest.UnpackExe(t, name)))
		if id == nil {
			t.Fatalf("the program of %s has no build-id", name)
		}
		wantSaid(t, coretest.Output(t, coretest.Tool(t, "eu-unstrip", "elfutils"), "-n", "--core="+core), id[1]+"@")
	}
}
