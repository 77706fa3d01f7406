package main

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestLocksInOrder has threads wait in crowds, the smallest first, and wants the
// largest first, what is one object together, and what somebody holds before what
// nobody does. Scripts get the core's order.
func TestLocksInOrder(t *testing.T) {
	exe := coretest.Compile(t, "crowds.c")
	core := coretest.Dump(t, exe, coretest.Run{})
	groups := regexp.MustCompile(`(?m)^  (\d+ threads|thread)(?: \d+)?(?::| waits for the) [a-z ]+ 0x[0-9a-f]+ <(\w+)>`)
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"locks", core}, []string{"2 threads busy", "thread busy", "2 threads rest", "thread quiet", "thread lone"}},
		{[]string{"locks", core, "--all"}, []string{"thread busy", "thread busy", "thread busy", "thread rest", "thread rest", "thread quiet", "thread lone"}},
	} {
		text, _ := corethreads(t, exitDone, append(c.args, "--exe", exe)...)
		var got []string
		for _, m := range groups.FindAllStringSubmatch(text, -1) {
			got = append(got, m[1]+" "+m[2])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q in\n%s", c.args[2:], got, c.want, text)
		}
	}
	// gdb numbers the threads in the core's order.
	var order []string
	for _, w := range document(t, locksKind, exitDone, "locks", core, "--exe", exe)["waits"].([]any) {
		order = append(order, fmt.Sprint(at(t, w, "tid")))
	}
	var want []string
	said := coretest.GDB(t, "-ex", "info threads", exe, core)
	for _, m := range regexp.MustCompile(`(?m)^  +\d+ .*\(LWP (\d+)\)`).FindAllStringSubmatch(said, -1) {
		want = append(want, m[1])
	}
	if !slices.Equal(order, want) {
		t.Errorf("the document has %v, gdb %v", order, want)
	}
}
