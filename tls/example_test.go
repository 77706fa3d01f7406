package tls_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/tls"
)

// The core of a process in which a thread has exited and was not joined: gdb
// shows its thread-locals in the place of main's.
func ExampleResolver_Value() {
	folder := filepath.Join("..", "testdata", "cores", "x86_64-glibc2.36-zombie-user")
	exe, remove := unpack(filepath.Join(folder, "exe.zst"))
	defer remove()

	core, err := elfcore.Open(filepath.Join(folder, "core.zst"), elfcore.WithTempDir(os.TempDir()))
	if err != nil {
		log.Fatal(err)
	}
	defer core.Close()
	modules, err := module.Load(context.Background(), core, module.Config{Exe: exe})
	if err != nil {
		log.Fatal(err)
	}
	defer modules.Close()
	process := nptl.Read(core, nil)

	resolver := tls.New(core, process, modules)
	found, err := resolver.Find(resolver.Variables(), "tls_int")
	if err != nil {
		log.Fatal(err)
	}
	for _, variable := range found {
		for _, thread := range resolver.Threads() {
			state := nptl.Live
			if thread.Handle >= 0 {
				state = process.Handles[thread.Handle].State
			}
			value := resolver.Value(thread, &variable)
			fmt.Println(variable.Name, state, value.Status, resolver.Format(value.Bytes))
		}
	}
	// Output:
	// tls_int live ok 1000
	// tls_int live ok 1003
	// tls_int live ok 1001
	// tls_int live ok 1002
	// tls_int zombie ok 1004
}

// unpack decompresses a file that is kept with zstd.
func unpack(path string) (unpacked string, remove func()) {
	in, err := os.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	decoder, err := zstd.NewReader(in)
	if err != nil {
		log.Fatal(err)
	}
	defer decoder.Close()
	out, err := os.CreateTemp("", "exe")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := decoder.WriteTo(out); err != nil {
		log.Fatal(err)
	}
	if err := out.Close(); err != nil {
		log.Fatal(err)
	}
	return out.Name(), func() { os.Remove(out.Name()) }
}
