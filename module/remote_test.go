package module_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
)

// TestRemote finds the program's file by its build-id alone.
func TestRemote(t *testing.T) {
	core, _ := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	exe := coretest.UnpackExe(t, "x86_64-glibc2.36-zombie-user")
	notes := coretest.Output(t, coretest.Tool(t, "readelf", "binutils"), "-n", exe)
	c, err := elfcore.Open(core)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var asked []string
	set, err := module.Load(t.Context(), c, module.Config{NoHostFiles: true, Remote: func(buildID, kind string) (string, error) {
		asked = append(asked, kind+" "+buildID)
		if strings.Contains(notes, buildID) && kind == "executable" {
			return exe, nil
		}
		return "", os.ErrNotExist
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	m := set.Executable()
	if m == nil || m.File == nil || m.File.How != "debuginfod" || m.File.Proof != module.ByBuildID {
		t.Fatalf("the program's file is %+v; asked for %v", m, asked)
	}
	if len(m.TLSSymbols()) == 0 {
		t.Errorf("%s gives no thread-local symbols", filepath.Base(exe))
	}
}
