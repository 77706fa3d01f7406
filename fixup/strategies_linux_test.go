package fixup

import (
	"slices"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// Everything here is judged by gdb: what it reads for the variable of each
// thread, which handles it takes for them, and which threads it adds.

// mainBy is the handle that gdb goes on to show for main.
func mainBy(role string) map[string]string { return map[string]string{"main": role} }

// TestStrategies repairs every scenario by every strategy, what misleads first
// and then all.
func TestStrategies(t *testing.T) {
	exes := map[string]string{}
	for _, s := range []string{"threads.c", "edges.c", "forks.c"} {
		exes[s] = coretest.Compile(t, s)
	}
	nothing, refused := want{none: true}, want{refused: "but unlink can: the list stack_user goes on at 0x"}
	for _, s := range []struct {
		source, name                    string
		retire, unlink, remap, expose   want
		retireAll, unlinkAll, exposeAll want
	}{
		{
			source: "threads.c", name: "zombie-user",
			remap:     want{handle: mainBy("zombie-0")},
			expose:    want{shown: []string{"zombie-0"}, phantoms: 1},
			exposeAll: want{shown: []string{"zombie-0"}, phantoms: 1},
		},
		{
			source: "threads.c", name: "zombies-many",
			remap:     want{handle: mainBy("zombie-39")},
			expose:    want{shown: zombieRoles(1, 40, 2), phantoms: 20},
			exposeAll: want{shown: zombieRoles(0, 40, 1), phantoms: 40},
		},
		{
			source: "threads.c", name: "zombie-default",
			retire: nothing, unlink: nothing, remap: nothing, expose: nothing,
			exposeAll: want{shown: []string{"zombie-0"}, phantoms: 1},
		},
		{
			source: "threads.c", name: "worker-crash",
			remap:     want{handle: mainBy("zombie-0")},
			expose:    want{shown: []string{"zombie-0"}, phantoms: 1},
			exposeAll: want{shown: []string{"zombie-0"}, phantoms: 1},
		},
		{
			source: "threads.c", name: "healthy",
			retire: nothing, unlink: nothing, remap: nothing, expose: nothing,
			retireAll: nothing, unlinkAll: nothing, exposeAll: nothing,
		},
		{
			// The list is closed whatever the strategy.
			source: "threads.c", name: "unmapped-stack",
		},
		{
			// What is not in the core may be sound: only unlink takes it out.
			source: "threads.c", name: "undumped-stack",
			retire: refused, remap: refused, expose: refused, retireAll: refused, exposeAll: refused,
		},
		{
			source: "edges.c", name: "starting",
			remap:     want{handle: mainBy("starting")},
			expose:    want{phantoms: 1},
			exposeAll: want{phantoms: 1},
		},
		{
			// Two handles stand for the pid, which no thread has: gdb shows
			// the first.
			source: "edges.c", name: "main-exited",
			retire: nothing, unlink: nothing, remap: nothing, expose: nothing,
			exposeAll: want{shown: []string{"main", "zombie-0"}, phantoms: 2},
		},
		{
			source: "forks.c", name: "fork-child",
			retire: nothing, unlink: nothing, remap: nothing, expose: nothing,
			retireAll: nothing, unlinkAll: nothing, exposeAll: nothing,
		},
		{
			source: "forks.c", name: "fork-child-zombie",
			remap:     want{handle: map[string]string{"forker": "child-zombie"}},
			expose:    want{shown: []string{"child-zombie"}, phantoms: 1},
			exposeAll: want{shown: []string{"child-zombie"}, phantoms: 1},
		},
		{
			// The parent's three other threads mislead nobody.
			source: "forks.c", name: "_Fork-child",
			retire:    want{phantoms: 3},
			unlink:    want{phantoms: 3},
			remap:     want{handle: map[string]string{"forker": "zombie-1"}, phantoms: 3},
			expose:    want{shown: []string{"zombie-0", "zombie-1"}, phantoms: 5},
			exposeAll: want{shown: []string{"zombie-0", "zombie-1"}, phantoms: 5},
		},
		{
			// Once main's handle has its id it comes before the zombie.
			source: "forks.c", name: "rawclone-child",
			retire:    want{phantoms: 2},
			unlink:    want{phantoms: 2},
			remap:     want{phantoms: 2},
			expose:    want{phantoms: 2},
			exposeAll: want{shown: []string{"zombie-0"}, phantoms: 3},
		},
		{
			source: "forks.c", name: "rawclone-child-healthy",
			retire:    want{phantoms: 2},
			unlink:    want{phantoms: 2},
			remap:     want{phantoms: 2},
			expose:    want{phantoms: 2},
			exposeAll: want{phantoms: 2},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := coretest.Crash(t, exes[s.source], coretest.Run{Args: []string{s.name}})
			seen := make(views)
			for _, x := range []struct {
				Options
				want
			}{
				{Options{Strategy: Retire}, s.retire},
				{Options{Strategy: Unlink}, s.unlink},
				{Options{Strategy: RemapTLS}, s.remap},
				{Options{Strategy: Expose}, s.expose},
				{Options{Strategy: Retire, All: true}, s.retireAll},
				{Options{Strategy: Unlink, All: true}, s.unlinkAll},
				{Options{Strategy: Expose, All: true}, s.exposeAll},
			} {
				name := string(x.Strategy)
				if x.All {
					name += "-all"
				}
				t.Run(name, func(t *testing.T) { x.check(t, c, seen, x.Options) })
			}
		})
	}
}

// TestBuilds repairs what a static program, and a 32-bit one, left.
func TestBuilds(t *testing.T) {
	for _, flag := range []string{"-static", "-static-pie", "-m32"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := coretest.Crash(t, coretest.Compile(t, "threads.c", flag), coretest.Run{Args: []string{"zombie-user"}})
			want{}.check(t, c, make(views), Options{Strategy: Retire})
			want{}.check(t, c, make(views), Options{Strategy: Unlink})
			want{handle: mainBy("zombie-0")}.check(t, c, make(views), Options{Strategy: RemapTLS})
			want{shown: []string{"zombie-0"}, phantoms: 1}.check(t, c, make(views), Options{Strategy: Expose})
		})
	}
}

// TestPIDNamespace repairs a dump that gdb made from outside of the process's
// pid namespace: no id in memory is one of the core.
func TestPIDNamespace(t *testing.T) {
	c := coretest.Gcore(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombie-user"}, PIDNamespace: true})
	want{}.check(t, c, make(views), Options{Strategy: Retire})
	want{}.check(t, c, make(views), Options{Strategy: Unlink})
	want{handle: mainBy("zombie-0")}.check(t, c, make(views), Options{Strategy: RemapTLS})
	want{shown: []string{"zombie-0"}, phantoms: 1}.check(t, c, make(views), Options{Strategy: Expose})
}

// TestExitInProgress repairs the core of a process one of whose threads is at
// the entry of its exit system call. From glibc 2.43 on its id is 0 by then, so
// that it stands for main; before, nothing misleads. Either way it lives.
func TestExitInProgress(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "edges.c"), coretest.Run{Args: []string{"exit-syscall"}})
	for _, s := range Strategies() {
		want{none: c.Truth.ShadowedLWP == 0}.check(t, c, make(views), Options{Strategy: s})
		want{none: c.Truth.ShadowedLWP == 0}.check(t, c, make(views), Options{Strategy: s, All: true})
	}
}

// TestRemapRefused shows what remap-tls is refused for: a library that was
// loaded after main started has thread-locals beside each descriptor, and
// main's dtv says nothing of them.
func TestRemapRefused(t *testing.T) {
	plugin := coretest.Compile(t, "plugin.c", "-shared", "-fPIC")
	c := coretest.Crash(t, coretest.Compile(t, "plugins.c", "-ldl"), coretest.Run{Args: []string{"plugin-late"}, Env: []string{"PLUGIN=" + plugin}})
	const zombies, mains = "5", "42" // of plugins.c
	main := c.Truth.Thread(t, "main").TID

	r := diagnosed(t, c.Core)
	refusal := mustRefuse(t, r, Options{Strategy: RemapTLS, StaticTLS: staticTLS(t, r)}, "the dtv has no block of "+plugin)
	if refusal.Instead != Retire {
		t.Errorf("it proposes %q instead", refusal.Instead)
	}

	// Were it not refused, gdb would read main's variables right, but for
	// those of the library.
	withoutLibrary := func() ([]TLSModule, error) {
		all, err := staticTLS(t, r)()
		return slices.DeleteFunc(all, func(m TLSModule) bool { return m.ID > 2 }), err
	}
	plan, err := Make(r, Options{Strategy: RemapTLS, StaticTLS: withoutLibrary})
	if err != nil {
		t.Fatal(err)
	}
	forced := writePatched(t, c.Core, plan)
	gdbViewOf(t, c.Exe, forced).mustBeRight(t, c.Truth, mainBy("zombie-0"))
	if got := coretest.GDBThreadLocals(t, c.Exe, forced, "plugin_int")[main]; got != zombies {
		t.Errorf("after remap-tls gdb reads %q for the library's variable: it need not be refused", got)
	}

	fixed, _ := repair(t, c.Core, Options{Strategy: refusal.Instead})
	if got := coretest.GDBThreadLocals(t, c.Exe, fixed, "plugin_int")[main]; got != mains {
		t.Errorf("after %s gdb reads %q for the library's variable, which is %s", refusal.Instead, got, mains)
	}
}

// TestLLDB shows that lldb, which was right before, still is.
func TestLLDB(t *testing.T) {
	c := coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombies-many"}})
	before := coretest.LLDBThreads(t, c.Exe, c.Core)
	for _, s := range Strategies() {
		fixed, _ := repair(t, c.Core, Options{Strategy: s, All: true})
		if got := coretest.LLDBThreads(t, c.Exe, fixed); !slices.Equal(got, before) {
			t.Errorf("after %s lldb sees threads %v, before %v", s, got, before)
		}
	}
}
