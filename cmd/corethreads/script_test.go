package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/corethreads/corethreads/internal/coretest"
)

// mainEnv makes the test program the command itself, for tests that need a
// process of their own to look at.
const mainEnv = "CORETHREADS_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"corethreads": main})
}

// The scripts' cores: each is in a script's folder under its short name,
// compressed and not, and its program, where there is one, as NAME.exe. $NAME_pid
// is the process's id by its own account, and $NAME_ROLE the handle of a thread
// by its own, as in $zombie_worker_0.
var scriptCores = map[string]string{
	"healthy":   "x86_64-glibc2.36-healthy",
	"zombie":    "x86_64-glibc2.36-zombie-user",
	"rawclone":  "x86_64-glibc2.36-rawclone-child",
	"deadlock":  "x86_64-glibc2.36-deadlock",
	"zombie386": "i386-glibc2.36-zombie-user",
}

// TestScript plays testdata/script. Beside testscript's own commands there are
//
//	exits CODE PROGRAM ARG...   runs a program that must end with this code
//	narrow FILE                 no line is wider than 80 columns, but for the
//	                            first and for lines with a command to paste
//	paste LABEL                 runs the command line behind LABEL in the last
//	                            output, as a shell would
//	cut FILE PERCENT            cuts a file off behind that part of it
//	same FILE FILE              compares binary files
func TestScript(t *testing.T) {
	cores := filepath.Join("..", "..", "testdata", "cores")
	truths := map[string]string{}
	for name, folder := range scriptCores {
		truth := coretest.LoadTruth(t, filepath.Join(cores, folder, "truth.json"))
		truths[name+"_pid"] = strconv.Itoa(truth.PID)
		for _, x := range truth.Threads {
			truths[name+"_"+strings.ReplaceAll(x.Role, "-", "_")] = fmt.Sprintf("%#x", uint64(x.Pthread))
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			for name, folder := range scriptCores {
				packed, err := os.ReadFile(filepath.Join(cores, folder, "core.zst"))
				if err != nil {
					return err
				}
				plain, err := unpackZstd(packed)
				if err != nil {
					return err
				}
				if packed, err := os.ReadFile(filepath.Join(cores, folder, "exe.zst")); err == nil {
					exe, err := unpackZstd(packed)
					if err := errors.Join(err, os.WriteFile(filepath.Join(env.WorkDir, name+".exe"), exe, 0o700)); err != nil {
						return err
					}
				}
				err = errors.Join(
					os.WriteFile(filepath.Join(env.WorkDir, name+".zst"), packed, 0o600),
					os.WriteFile(filepath.Join(env.WorkDir, name), plain, 0o600))
				if err != nil {
					return err
				}
			}
			for name, value := range truths {
				env.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "narrow": narrow, "paste": paste, "cut": cut, "same": same,
		},
		RequireUniqueNames: true,
	})
}

func unpackZstd(packed []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(packed, nil)
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		got = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("%s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// pasted is a line that is for a shell or a debugger: it stays whole.
var pasted = regexp.MustCompile(`^  [a-z][^:]*:  `)

func narrow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: narrow FILE")
	}
	for i, line := range strings.Split(ts.ReadFile(args[0]), "\n") {
		if n := len([]rune(line)); i > 0 && n > 80 && !pasted.MatchString(line) {
			ts.Fatalf("line %d has %d columns: %s", i+1, n, line)
		}
	}
}

func paste(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] paste LABEL")
	}
	for line := range strings.Lines(ts.ReadFile("stdout") + ts.ReadFile("stderr")) {
		label, command, ok := strings.Cut(strings.TrimSpace(line), ":  ")
		if !ok {
			label, command, ok = strings.Cut(strings.TrimSpace(line), ": ")
		}
		if !ok || label != args[0] {
			continue
		}
		if err := ts.Exec("sh", "-c", command); (err != nil) != neg {
			ts.Fatalf("%s: %v", command, err)
		}
		return
	}
	ts.Fatalf("no line %q in the last output", args[0])
}

func cut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cut FILE PERCENT")
	}
	percent, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()*percent/100))
}

func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] same FILE FILE")
	}
	if equal := ts.ReadFile(args[0]) == ts.ReadFile(args[1]); equal == neg {
		ts.Fatalf("%s and %s: the same is %v", args[0], args[1], equal)
	}
}
