package fixup

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// staticTLS gives what remap-tls asks for.
func staticTLS(t testing.TB, r *diagnose.Report) func() ([]TLSModule, error) {
	return func() ([]TLSModule, error) {
		set, err := module.Load(context.Background(), r.Core, module.Config{NoHostFiles: true})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { set.Close() })
		resolver := tls.New(r.Core, r.Process, set)
		if w := resolver.Warnings(); len(w) > 0 {
			return nil, errors.New(w[0])
		}
		var out []TLSModule
		for _, m := range resolver.Modules() {
			if m.Static {
				out = append(out, TLSModule{Name: m.String(), ID: m.ID, Generation: m.Generation})
			}
		}
		return out, nil
	}
}

// repair plans and writes a repair, and checks what holds for all of them: the
// copy is the core with the plan's bytes; there is nothing left to repair and
// no error; in place it comes to the same, and undoing it restores every byte.
// The result is empty where there was nothing to repair.
func repair(t *testing.T, core string, o Options) (fixed string, plan *Plan) {
	t.Helper()
	ctx := context.Background()
	r := diagnosed(t, core)
	o.StaticTLS = staticTLS(t, r)
	plan, err := Make(r, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Patches) == 0 {
		return "", plan
	}
	src, err := os.Open(core)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	fixed = filepath.Join(t.TempDir(), "fixed")
	if _, err := Apply(ctx, src, fixed, plan, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(core)
	if err != nil {
		t.Fatal(err)
	}
	after := patched(before, plan.Patches)
	mustHold(t, fixed, after)

	again := diagnosed(t, fixed)
	for _, f := range again.Findings {
		if f.Severity == diagnose.Error {
			t.Errorf("after %s: %s", o.Strategy, f.Summary)
		}
	}
	o.StaticTLS = staticTLS(t, again)
	switch second, err := Make(again, o); {
	case err != nil:
		t.Errorf("%s cannot be repeated: %v", o.Strategy, err)
	case len(second.Patches) > 0:
		t.Errorf("%s of its own output wants %d patches more: %s", o.Strategy, len(second.Patches), second.Patches[0].Reason)
	}

	edited, undo := filepath.Join(t.TempDir(), "core"), filepath.Join(t.TempDir(), "undo")
	if err := os.WriteFile(edited, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ApplyInPlace(ctx, edited, undo, plan, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	mustHold(t, edited, after)
	back, err := ReadFile(undo)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Undo(ctx, back, edited, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	mustHold(t, edited, before)
	return fixed, plan
}

// gdbView is what gdb makes of the threads of a core, by LWP id: what it reads
// for their tls_int, and the handles that it takes for them.
type gdbView struct {
	values  map[int]string
	handles map[int]coretest.Address
}

// gdbScript tells both; an error is one line.
const gdbScript = `
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    try:
        value = int(gdb.parse_and_eval("tls_int"))
    except gdb.error as e:
        value = "error: " + " ".join(str(e).split())
    name = gdb.execute("thread", to_string=True)
    handle = name.partition("(Thread ")[2].partition(" ")[0]
    print("thread", thread.ptid[1], handle or "0x0", value)
`

var gdbThread = regexp.MustCompile(`(?m)^thread (-?\d+) (0x[0-9a-f]+) (.*)$`)

func gdbViewOf(t *testing.T, exe, core string) gdbView {
	t.Helper()
	script := filepath.Join(t.TempDir(), "view.py")
	if err := os.WriteFile(script, []byte(gdbScript), 0o600); err != nil {
		t.Fatal(err)
	}
	said := coretest.GDB(t, "-ex", "file "+exe, "-ex", "core-file "+core, "-x", script)
	g := gdbView{make(map[int]string), make(map[int]coretest.Address)}
	for _, m := range gdbThread.FindAllStringSubmatch(said, -1) {
		id, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		var handle coretest.Address
		if err := handle.UnmarshalText([]byte(m[2])); err != nil {
			t.Fatal(err)
		}
		g.values[id], g.handles[id] = m[3], handle
	}
	if len(g.values) == 0 {
		t.Fatalf("gdb shows no thread of %s:\n%s", core, said)
	}
	return g
}

// phantoms are the ids of the threads that gdb shows and the core does not have.
func (g gdbView) phantoms(truth coretest.Truth) []int {
	ids := slices.Sorted(maps.Keys(g.values))
	return slices.DeleteFunc(ids, func(id int) bool {
		return slices.ContainsFunc(truth.Threads, func(x coretest.TruthThread) bool { return x.Lives() && x.LWP() == id })
	})
}

// mustBeRight checks that gdb reads the variable of each living thread, by its
// own handle. A role in not is another thread's, whose handle gdb shows.
func (g gdbView) mustBeRight(t *testing.T, truth coretest.Truth, handleOf map[string]string) {
	t.Helper()
	for _, thread := range truth.Threads {
		if !thread.Lives() {
			continue
		}
		if got, want := g.values[thread.LWP()], string(thread.TLS["tls_int"].Value); got != want {
			t.Errorf("gdb reads %q for %s, whose tls_int is %s", got, thread.Role, want)
		}
		want := thread.Pthread
		if other := handleOf[thread.Role]; other != "" {
			want = truth.Thread(t, other).Pthread
		}
		if got := g.handles[thread.LWP()]; got != want {
			t.Errorf("gdb takes the handle %#x for %s, and should take %#x", got, thread.Role, want)
		}
	}
}

// mustShow checks that gdb shows the thread that has exited, under an id that no
// thread has, and reads its variable.
func (g gdbView) mustShow(t *testing.T, gone coretest.TruthThread) {
	t.Helper()
	for id, handle := range g.handles {
		if handle != gone.Pthread {
			continue
		}
		if got, want := g.values[id], string(gone.TLS["tls_int"].Value); got != want {
			t.Errorf("gdb reads %q for %s as LWP %d, whose tls_int was %s", got, gone.Role, id, want)
		}
		return
	}
	t.Errorf("gdb does not show %s with its handle %#x", gone.Role, gone.Pthread)
}

// want is what a strategy is to do with a scenario.
type want struct {
	// none: there is nothing to repair; refused: what the refusal says.
	none    bool
	refused string
	// handle names, by the role of a living thread, the role of the one whose
	// handle gdb shows for it afterwards.
	handle map[string]string
	// shown are the roles of exited threads that gdb shows afterwards.
	shown []string
	// phantoms counts the threads that gdb shows and the core does not have.
	phantoms int
}

// views are what gdb makes of repaired cores, by their SHA-256: strategies often
// come to the same.
type views map[[sha256.Size]byte]gdbView

func (v views) of(t *testing.T, exe, core string) gdbView {
	t.Helper()
	b, err := os.ReadFile(core)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if _, known := v[sum]; !known {
		v[sum] = gdbViewOf(t, exe, core)
	}
	return v[sum]
}

func (w want) check(t *testing.T, c coretest.Crashed, seen views, o Options) {
	t.Helper()
	if w.refused != "" {
		r := diagnosed(t, c.Core)
		o.StaticTLS = staticTLS(t, r)
		mustRefuse(t, r, o, w.refused)
		return
	}
	fixed, plan := repair(t, c.Core, o)
	if w.none != (fixed == "") {
		t.Fatalf("%d patches", len(plan.Patches))
	}
	if fixed == "" {
		return
	}
	g := seen.of(t, c.Exe, fixed)
	g.mustBeRight(t, c.Truth, w.handle)
	if got := g.phantoms(c.Truth); len(got) != w.phantoms {
		t.Errorf("gdb shows threads %v that the core does not have, and should show %d", got, w.phantoms)
	}
	for _, role := range w.shown {
		g.mustShow(t, c.Truth.Thread(t, role))
	}
}

// zombieRoles are zombie-0 and so on.
func zombieRoles(from, to, step int) (roles []string) {
	for i := from; i < to; i += step {
		roles = append(roles, "zombie-"+strconv.Itoa(i))
	}
	return roles
}

// writePatched writes the core as the plan makes it, whatever speaks against it.
func writePatched(t *testing.T, core string, plan *Plan) string {
	t.Helper()
	b, err := os.ReadFile(core)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "patched")
	if err := os.WriteFile(path, patched(b, plan.Patches), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
