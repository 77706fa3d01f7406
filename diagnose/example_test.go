package diagnose_test

import (
	"fmt"
	"log"
	"os"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// Whether debuggers will be right about a core, and why not.
func Example() {
	core, err := elfcore.Open("../testdata/cores/x86_64-glibc2.36-zombie-user/core.zst", elfcore.WithTempDir(os.TempDir()))
	if err != nil {
		log.Fatal(err)
	}
	defer core.Close()

	report := diagnose.Core(core, nptl.Read(core, nil))
	fmt.Println(report.Verdict)
	for _, f := range report.Findings {
		if f.Severity == diagnose.Error {
			fmt.Println(f.ID, f.Cause, f.TIDs[0] == core.Process.PID)
		}
	}
	// Output:
	// misleading
	// shadowed-thread zombie true
}
