package locks_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// Two threads wait for each other's mutex, and a third one behind them.
func ExampleAnalyze() {
	core, err := elfcore.Open("../testdata/cores/x86_64-glibc2.36-deadlock/core.zst", elfcore.WithTempDir(os.TempDir()))
	if err != nil {
		log.Fatal(err)
	}
	defer core.Close()
	set, err := module.Load(context.Background(), core, module.Config{NoHostFiles: true})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()

	report := locks.Analyze(core, nptl.Read(core, nil), set)
	for _, v := range report.Verdicts {
		fmt.Printf("%s [%s]: %s\n", v.ID, v.Confidence, v.Summary)
	}
	for _, w := range report.Waits {
		fmt.Printf("thread %d waits for the %s %s of thread %d\n", core.Threads[w.Thread].TID, w.Kind.Noun(), w.Object, w.OwnerTID)
	}
	// Unordered output:
	// deadlock-cycle [certain]: 2 threads wait for each other in a ring
	// thread 31058 waits for the mutex 0x5619893e32a0 of thread 31059
	// thread 31059 waits for the mutex 0x5619893e32e0 of thread 31058
	// thread 31060 waits for the mutex 0x5619893e32e0 of thread 31058
}
