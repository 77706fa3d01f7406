package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"

	"github.com/corethreads/corethreads/tls"
)

// maxLLDBValues bounds the number of variables times threads that lldb is told
// of: it tries one after the other.
const maxLLDBValues = 50_000

// writeLLDBCommands gives lldb the command tls NAME THREAD. lldb before 18 finds
// no thread-locals in cores at all, and its commands cannot compute: so each
// variable of each thread is a command line of its own.
func writeLLDBCommands(w io.Writer, l *loaded) error {
	b := bufio.NewWriter(w)
	resolver := tls.New(l.Core, l.Process, l.modules)
	vars, threads := resolver.Variables(), resolver.Threads()
	if len(vars) == 0 || len(vars)*len(threads) > maxLLDBValues {
		return nil
	}
	fmt.Fprintln(b, `command regex tls -h "Show a thread-local variable of a thread, given by its id or its pthread." -s "tls NAME THREAD, of a variable and a thread that corethreads tls lists"`)
	for i := range vars {
		v := &vars[i]
		for _, t := range threads {
			value := resolver.Value(t, v)
			if value.Address == 0 {
				continue
			}
			thread := t.Pthread.String()
			if t.LWP >= 0 {
				thread = fmt.Sprintf("(%d|%s)", l.Core.Threads[t.LWP].TID, thread)
			}
			fmt.Fprintf(b, "s/^%s +%s$/expression -- *(%s)%s/\n", regexp.QuoteMeta(v.Name), thread, pointerOfSize(v.Size), value.Address)
		}
	}
	fmt.Fprintln(b)
	return b.Flush()
}

// pointerOfSize is the C type of a pointer to so many bytes.
func pointerOfSize(size uint64) string {
	switch size {
	case 1:
		return "unsigned char *"
	case 2:
		return "unsigned short *"
	case 4:
		return "unsigned int *"
	case 8:
		return "unsigned long long *"
	}
	return fmt.Sprintf("unsigned char (*)[%d]", max(size, 1))
}
