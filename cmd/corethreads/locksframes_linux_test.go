package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

const inlinedLocks = `
#include <cstdlib>
#include <mutex>
#include <thread>
#include <unistd.h>

static std::mutex one, two;

static inline __attribute__((always_inline)) void take(std::mutex &m) { m.lock(); }

__attribute__((noinline)) static void then(std::mutex &m)
{
	take(m);
	asm volatile("" ::: "memory");
}

__attribute__((noinline)) static void leave(std::mutex &m)
{
	asm volatile("" ::: "memory");
	then(m); /* by a jump, behind which it has no frame */
}

__attribute__((noinline)) static void cross(std::mutex &first, std::mutex &second)
{
	take(first);
	sleep(1);
	leave(second);
	asm volatile("" ::: "memory");
}

int main()
{
	std::thread a([] { cross(one, two); }), b([] { cross(two, one); });
	sleep(2);
	abort();
}
`

// TestLocksFrames holds the functions that locks shows of a thread against gdb's
// backtrace: those of the program's own file, inlined ones included and one
// that left by a jump, and none of a header of the C++ library.
func TestLocksFrames(t *testing.T) {
	dir := t.TempDir()
	source, exe := filepath.Join(dir, "inlinedlocks.cc"), filepath.Join(dir, "inlinedlocks")
	if err := os.WriteFile(source, []byte(inlinedLocks), 0o600); err != nil {
		t.Fatal(err)
	}
	coretest.Output(t, coretest.Tool(t, "g++", "g++"), "-g", "-O2", "-pthread", "-o", exe, source)
	core := coretest.Dump(t, exe, coretest.Run{})
	d := document(t, locksKind, exitFindings, "locks", core, "--exe", exe)
	shown := regexp.MustCompile(`^(\S+) at .*/(inlinedlocks\.cc:\d+)$`)
	for i, tid := range at(t, d, "verdicts", 0, "tids").([]any) {
		var got, want []string
		for _, f := range at(t, d, "verdicts", 0, "frames", i).([]any) {
			if m := shown.FindStringSubmatch(f.(string)); m != nil {
				got = append(got, m[1]+" "+m[2])
			} else {
				t.Errorf("thread %v is said to be in %s", tid, f)
			}
		}
		said := coretest.GDB(t, "-ex", "thread apply all bt", exe, core)
		stack := regexp.MustCompile(fmt.Sprintf(`(?s)\(LWP %v\)\).*?(\n\n|$)`, tid)).FindString(said)
		for _, m := range regexp.MustCompile(`(?m)^#\d+ +(?:0x[0-9a-f]+ in )?(\S+) \(.*\) at (?:\S*/)?(inlinedlocks\.cc:\d+)$`).FindAllStringSubmatch(stack, -1) {
			want = append(want, m[1]+" "+m[2])
		}
		if len(want) < verdictFrames || !slices.Equal(got, want[:verdictFrames]) {
			t.Errorf("thread %v: %q, and gdb has %q in:\n%s", tid, got, want, stack)
		}
	}
}
