package coretest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// hang is how long a program that a test runs may take before it counts as
// hung and is killed. It only guards the test run: no result depends on it.
const hang = 2 * time.Minute

// Tool gives the path of a program that a test needs. Where it is missing the
// test fails, naming the Debian package to install: a check that did not run
// is not one that passed.
func Tool(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("this test needs %s: apt-get install %s", name, debianPackage)
	}
	return path
}

// Output runs a program to its end and gives its standard output. The test
// fails, with what the program said, where its exit status is not 0.
func Output(t testing.TB, path string, args ...string) string {
	t.Helper()
	cmd, cancel := command(path, args...)
	defer cancel()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	return string(out)
}

// command prepares a program that speaks English, asks no debuginfod server,
// and is killed with all its children where it hangs.
func command(path string, args ...string) (*exec.Cmd, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBUGINFOD_URLS=")
	killGroup(cmd)
	return cmd, cancel
}
