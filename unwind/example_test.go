package unwind_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/unwind"
)

// Without any file of the process, only what the core holds can name frames:
// the frame that the thread was stopped in is always there.
func Example() {
	core, err := elfcore.Open("../testdata/cores/x86_64-glibc2.36-zombie-user/core.zst", elfcore.WithTempDir(os.TempDir()))
	if err != nil {
		log.Fatal(err)
	}
	defer core.Close()
	set, err := module.Load(context.Background(), core, module.Config{NoHostFiles: true})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()

	u := unwind.New(core, set)
	for i := range core.Threads {
		innermost := u.Stack(i, 1).Frames[0]
		f := u.Functions(innermost)[0]
		fmt.Printf("thread %d [%s]: %s in %s\n", core.Threads[i].TID, u.State(i), innermost.PC, f.ModuleName())
	}
	// Unordered output:
	// thread 8828 [running]: 0x7f337d9e4eec in libc.so.6
	// thread 8830 [pause]: 0x7f337da2ddf2 in libc.so.6
	// thread 8831 [pause]: 0x7f337da2ddf2 in libc.so.6
	// thread 8832 [pause]: 0x7f337da2ddf2 in libc.so.6
}
