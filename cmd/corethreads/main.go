// Command corethreads tells what the threads of a dead process were doing, from
// its core, where debuggers get it wrong, and repairs the core so that they do
// not.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes of the contract.
const (
	exitDone     = 0 // done, nothing found
	exitFindings = 1 // done, something found
	exitFailed   = 2 // not done
)

// exit is the error of a command that has already said what there is to say.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// secondSignal is how long after the first signal another one is a second wish.
const secondSignal = time.Second / 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second signal does not wait for anything to be tidied up; but timeout(1)
	// sends two, one behind the other.
	context.AfterFunc(ctx, func() { time.AfterFunc(secondSignal, stop) })
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var code exit
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &code):
		return int(code)
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "corethreads: interrupted")
		return exitFailed
	}
	fmt.Fprintf(stderr, "corethreads: %s\n", plain(err))
	return exitFailed
}
