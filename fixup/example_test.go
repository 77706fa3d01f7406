package fixup_test

import (
	"fmt"
	"log"
	"path/filepath"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/fixup"
	"github.com/corethreads/corethreads/nptl"
)

// A plan is made and tried without writing anything.
func Example() {
	c, err := elfcore.Open(filepath.Join("..", "testdata", "cores", "x86_64-glibc2.36-zombie-user", "core.zst"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	report := diagnose.Core(c, nptl.Read(c, nil))
	plan, err := fixup.Make(report, fixup.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range plan.Patches {
		fmt.Printf("%x -> %x\n", p.Old, p.New)
	}
	after, err := fixup.Preview(c, nil, plan)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Verdict, "before,", after.Verdict, "after")
	// Output:
	// 00000000 -> ffffffff
	// misleading before, healthy after
}
