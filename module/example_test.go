package module_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

// What a core tells of the files that were mapped, with none of them at hand.
func Example() {
	core, err := elfcore.Open(filepath.Join("..", "testdata", "cores", "x86_64-glibc2.36-zombie-user", "core.zst"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer core.Close()
	set, err := module.Load(context.Background(), core, module.Config{NoHostFiles: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	for _, m := range set.Modules {
		tls := uint64(0)
		if m.TLS != nil {
			tls = m.TLS.MemSize
		}
		what := "its file was found"
		if m.Problem != nil {
			what = string(m.Problem.Kind)
		}
		if m.IsVDSO {
			what = "in the core"
		}
		fmt.Printf("%-25s build-id %.8s…, %d bytes of thread-locals, %s\n", filepath.Base(m.Path), m.BuildID, tls, what)
	}
	// Output:
	// threads                   build-id 428b1d7f…, 20 bytes of thread-locals, missing
	// linux-vdso.so.1           build-id e0251283…, 0 bytes of thread-locals, in the core
	// libc.so.6                 build-id 93ac61ec…, 144 bytes of thread-locals, missing
	// ld-linux-x86-64.so.2      build-id 7ebc65e5…, 0 bytes of thread-locals, missing
}
