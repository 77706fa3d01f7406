package elfcore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/corethreads/corethreads/elfcore"
)

// A core may be compressed. This one's truth.json has what the process wrote
// down about itself before it died.
func ExampleOpen() {
	core, err := elfcore.Open("../testdata/cores/x86_64-glibc2.36-zombie-user/core.zst", elfcore.WithTempDir(os.TempDir()))
	if err != nil {
		log.Fatal(err)
	}
	defer core.Close()

	fmt.Printf("%s on %s, written by the %s\n", core.Process.Name, core.Arch.Name, core.Producer)
	fmt.Printf("thread %d died of %s\n", core.CrashThread().TID, core.Signal.Name())
	for i := range core.Threads {
		tp, _, _ := core.Threads[i].ThreadPointer()
		fmt.Printf("thread %d has its TCB at %s\n", core.Threads[i].TID, tp)
	}
	// Unordered output:
	// threads on x86_64, written by the kernel
	// thread 8828 died of SIGABRT
	// thread 8828 has its TCB at 0x7f337d957740
	// thread 8830 has its TCB at 0x7f337d9566c0
	// thread 8831 has its TCB at 0x7f337d9456c0
	// thread 8832 has its TCB at 0x7f337d9346c0
}

// New reads a core from wherever bytes can be read at an offset, here from
// memory. A byte that is not in the core is an error that says why.
func ExampleNew() {
	packed, err := os.ReadFile("../testdata/cores/x86_64-glibc2.36-zombie-user/core.zst")
	if err != nil {
		log.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer decoder.Close()
	image, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		log.Fatal(err)
	}

	core, err := elfcore.New(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		log.Fatal(err)
	}
	tp, _, _ := core.Thread(8830).ThreadPointer()
	self, err := core.Word(tp) // glibc keeps the TCB's own address there
	fmt.Println(elfcore.Addr(self) == tp, err)

	_, err = core.Word(0)
	var fault *elfcore.Fault
	if errors.As(err, &fault) && fault.Why == elfcore.Unmapped {
		fmt.Println(err)
	}
	// Output:
	// true <nil>
	// no memory was mapped at 0x0
}
