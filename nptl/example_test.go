package nptl_test

import (
	"fmt"
	"log"
	"os"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// The handles of a core in the order in which libthread_db, and with it gdb,
// comes upon them. No libc is needed for that.
func Example() {
	core, err := elfcore.Open("../testdata/cores/x86_64-glibc2.36-zombie-user/core.zst", elfcore.WithTempDir(os.TempDir()))
	if err != nil {
		log.Fatal(err)
	}
	defer core.Close()

	process := nptl.Read(core, nil)
	for _, h := range process.Handles {
		fmt.Printf("%s: %s", h.List, h.State)
		if h.Initial {
			fmt.Print(", the initial thread's")
		}
		fmt.Println()
	}
	// Output:
	// stack_user: zombie
	// stack_user: live
	// stack_user: live, the initial thread's
	// stack_used: live
	// stack_used: live
}
