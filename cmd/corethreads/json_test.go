package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// A kind says why a JSON value is not what the contract asks for.
type kind func(v any) error

func text(v any) error {
	if _, ok := v.(string); !ok {
		return fmt.Errorf("%v is no string", v)
	}
	return nil
}

func number(v any) error {
	if n, ok := v.(float64); !ok || n != math.Trunc(n) {
		return fmt.Errorf("%v is no whole number", v)
	}
	return nil
}

func boolean(v any) error {
	if _, ok := v.(bool); !ok {
		return fmt.Errorf("%v is neither true nor false", v)
	}
	return nil
}

func matches(pattern string) kind {
	re := regexp.MustCompile("^(" + pattern + ")$")
	return func(v any) error {
		if s, ok := v.(string); !ok || !re.MatchString(s) {
			return fmt.Errorf("%v is not like %s", v, pattern)
		}
		return nil
	}
}

// address is "0x…". What is not known is null, never 0.
var address = matches("0x[1-9a-f][0-9a-f]*")

func orNullKind(k kind) kind {
	return func(v any) error {
		if v == nil {
			return nil
		}
		return k(v)
	}
}

func listOf(k kind) kind {
	return func(v any) error {
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%v is no list", v)
		}
		for i, x := range list {
			if err := k(x); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	}
}

// object has these keys at least: fields may be added freely.
type object map[string]kind

func (o object) kind(v any) error {
	got, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%v is no object", v)
	}
	for _, key := range slices.Sorted(maps.Keys(o)) {
		value, ok := got[key]
		if !ok {
			return fmt.Errorf("no key %q", key)
		}
		if err := o[key](value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// The contract's documents.
var (
	coreKind = object{
		"path": text, "size": number, "arch": text, "class": number, "byte_order": matches("little|big"),
		"compression": orNullKind(text), "producer": matches("kernel|gcore|createdump|qemu-user|unknown"),
		"truncated": boolean, "missing_bytes": number, "pid": orNullKind(number), "command": orNullKind(text),
		"crash_tid": orNullKind(number), "kernel": orNullKind(text),
		"signal": orNullKind(object{"number": number, "name": text, "code": orNullKind(number), "address": orNullKind(matches("0x[0-9a-f]+"))}.kind),
	}.kind
	libcKind = object{
		"kind": matches("glibc|musl|none|unknown"), "version": orNullKind(text), "version_min": orNullKind(text),
		"version_source": orNullKind(text), "layout": matches("symbols|inferred|none"),
	}.kind
	threadsKind = listOf(object{
		"tid": number, "crashed": boolean, "thread_pointer": orNullKind(address), "thread_pointer_source": matches("note|handle|scan|none"),
		"pthread": orNullKind(address), "gdb_pthread": orNullKind(address), "pc": orNullKind(address), "sp": orNullKind(address),
	}.kind)
	handlesKind = listOf(object{
		"pthread": address, "list": orNullKind(matches("stack_user|stack_used")), "position": orNullKind(number), "tid": number,
		"state": matches("live|retired|zombie|starting|foreign|unknown"), "owner_tid": orNullKind(number), "reported_tid": number,
		"shadows": orNullKind(number), "detached": orNullKind(boolean), "cancelhandling": number,
		"stack":      orNullKind(object{"start": address, "end": address, "guard": number}.kind),
		"user_stack": orNullKind(boolean), "start_routine": orNullKind(address), "start_symbol": orNullKind(text),
	}.kind)
	findingKind = object{
		"id": matches("[a-z-]+"), "severity": matches("error|warning|note"), "summary": text, "detail": text,
		"tids": listOf(number), "pthreads": listOf(address), "fixable": boolean,
	}.kind
	patchesKind = listOf(object{
		"address": orNullKind(address), "offset": number, "old": matches("([0-9a-f]{2})+"), "new": matches("([0-9a-f]{2})+"), "reason": text,
	}.kind)
	checkKind = object{
		"schema": matches("corethreads/check/1"), "verdict": matches("healthy|warnings|misleading|limited"), "core": coreKind, "libc": libcKind,
		"debugger": object{
			"thread_debugging": boolean, "reason": orNullKind(text),
			"phantoms": listOf(object{"tid": number, "pthread": address}.kind),
		}.kind,
		"threads": threadsKind, "handles": handlesKind, "findings": listOf(findingKind),
	}.kind
	threadsDocumentKind = object{
		"schema": matches("corethreads/threads/1"), "core": coreKind, "libc": libcKind, "threads": threadsKind, "handles": handlesKind,
	}.kind
)

func fixKind(command string) kind {
	return object{
		"schema": matches("corethreads/" + command + "/1"), "input": text, "output": orNullKind(text), "strategy": matches("retire|unlink|remap-tls|expose"),
		"method": matches("reflink|sparse-copy|copy|in-place|none"), "bytes_copied": number, "undo": orNullKind(text),
		"patches": patchesKind, "remaining": listOf(findingKind),
	}.kind
}

// play runs a command line in this process.
func play(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(context.Background(), args, stdin, &out, &err)
	return code, out.String(), err.String()
}

// document runs a command with --json and checks that its output is one line,
// one document, and of this kind.
func document(t *testing.T, k kind, wantCode int, args ...string) map[string]any {
	t.Helper()
	code, stdout, stderr := play(t, nil, append(args, "--json")...)
	if code != wantCode || stderr != "" {
		t.Fatalf("%q: exit code %d, want %d; stderr: %s", args, code, wantCode, stderr)
	}
	if strings.Count(stdout, "\n") != 1 || !strings.HasSuffix(stdout, "\n") {
		t.Errorf("%q: not one line", args)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if err := k(v); err != nil {
		t.Errorf("%q: %v\n%s", args, err, stdout)
	}
	return v
}

// at follows keys and indices into a document.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

// TestJSONCheck holds the documents of check and threads against the contract,
// and against what the processes said of themselves.
func TestJSONCheck(t *testing.T) {
	for name, x := range map[string]struct {
		verdict string
		code    int
	}{
		"x86_64-glibc2.36-healthy":        {"healthy", 0},
		"x86_64-glibc2.36-zombie-user":    {"misleading", 1},
		"x86_64-glibc2.36-rawclone-child": {"misleading", 1},
		"i386-glibc2.36-zombie-user":      {"misleading", 1},
	} {
		t.Run(name, func(t *testing.T) {
			core, truth := coretest.Unpack(t, name)
			check := document(t, checkKind, x.code, "check", core)
			threads := document(t, threadsDocumentKind, 0, "threads", core)
			if check["verdict"] != x.verdict {
				t.Errorf("the verdict is %v, want %s", check["verdict"], x.verdict)
			}
			for _, d := range []map[string]any{check, threads} {
				if got := at(t, d, "core", "pid"); got != float64(truth.PID) {
					t.Errorf("pid %v, the process said %d", got, truth.PID)
				}
				if got := at(t, d, "core", "crash_tid"); got != float64(truth.CrashTID) {
					t.Errorf("crash_tid %v, the process said %d", got, truth.CrashTID)
				}
				wantThreads(t, d, truth)
			}
			// The shadowing handle names the thread, and the thread the handle.
			for _, h := range check["handles"].([]any) {
				tid := at(t, h, "shadows")
				if (tid != nil) != (at(t, h, "state") == "zombie") {
					t.Errorf("a %v handle shadows %v", at(t, h, "state"), tid)
				}
				if tid != nil && tid != float64(truth.ShadowedLWP) {
					t.Errorf("shadows %v, the process said %d", tid, truth.ShadowedLWP)
				}
			}
		})
	}
}

func wantThreads(t *testing.T, d map[string]any, truth coretest.Truth) {
	t.Helper()
	want := map[float64]string{}
	for _, x := range truth.Threads {
		if x.Lives() {
			want[float64(x.LWP())] = fmt.Sprintf("%#x", uint64(x.Pthread))
		}
	}
	got := map[float64]string{}
	for _, x := range d["threads"].([]any) {
		got[at(t, x, "tid").(float64)] = at(t, x, "pthread").(string)
	}
	if !maps.Equal(got, want) {
		t.Errorf("threads %v, the process said %v", got, want)
	}
}

// TestJSONUnknown shows that what a cut core does not tell is null.
func TestJSONUnknown(t *testing.T) {
	core, _ := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	for _, size := range []int64{64 << 10, 5000, 3000, 1500, 400, 100} {
		if err := os.Truncate(core, size); err != nil {
			t.Fatal(err)
		}
		check := document(t, checkKind, 1, "check", core)
		document(t, threadsDocumentKind, 0, "threads", core)
		if check["verdict"] != "limited" || at(t, check, "core", "truncated") != true {
			t.Errorf("with %d bytes the verdict is %v", size, check["verdict"])
		}
		if size == 100 && (at(t, check, "core", "pid") != nil || at(t, check, "core", "crash_tid") != nil || at(t, check, "core", "signal") != nil) {
			t.Errorf("without notes something is known of the process: %v", check["core"])
		}
	}
}

// TestJSONSeveral writes one document a line, and nothing for a core that cannot
// be read.
func TestJSONSeveral(t *testing.T) {
	a, _ := coretest.Unpack(t, "x86_64-glibc2.36-healthy")
	b, _ := coretest.Unpack(t, "i386-glibc2.36-zombie-user")
	code, stdout, stderr := play(t, nil, "check", "--json", a, filepath.Join(t.TempDir(), "nosuch"), b)
	if code != 2 || !strings.Contains(stderr, "there is no such file") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range []string{a, b} {
		var d map[string]any
		if err := json.Unmarshal([]byte(lines[i]), &d); err != nil {
			t.Fatal(err)
		}
		if err := checkKind(d); err != nil || at(t, d, "core", "path") != want {
			t.Errorf("line %d is about %v: %v", i+1, at(t, d, "core", "path"), err)
		}
	}
}

// TestJSONFix holds the documents of fix, apply and undo against the contract.
func TestJSONFix(t *testing.T) {
	core, truth := coretest.Unpack(t, "x86_64-glibc2.36-zombie-user")
	dir := t.TempDir()
	out, plan := filepath.Join(dir, "out"), filepath.Join(dir, "plan")

	dry := document(t, fixKind("fix"), 0, "fix", core, "--dry-run")
	if dry["output"] != nil || dry["undo"] != nil || dry["method"] != "none" || at(t, dry, "bytes_copied") != 0.0 {
		t.Errorf("a dry run gives %v", dry)
	}
	if got, want := at(t, dry, "patches", 0, "address"), fmt.Sprintf("%#x", uint64(truth.Zombies[0])+0x2d0); got != want {
		t.Errorf("the patch is at %v, the zombie's tid at %s", got, want)
	}
	fixed := document(t, fixKind("fix"), 0, "fix", core, "-o", out)
	if fixed["input"] != core || fixed["output"] != out || fixed["undo"] != nil || fixed["method"] == "none" {
		t.Errorf("fix -o gives %v", fixed)
	}
	nothing := document(t, fixKind("fix"), 0, "fix", out, "-o", filepath.Join(dir, "again"))
	if nothing["output"] != nil || nothing["method"] != "none" || len(nothing["patches"].([]any)) != 0 {
		t.Errorf("with nothing to do fix gives %v", nothing)
	}
	document(t, fixKind("fix"), 0, "fix", core, "--patch-only", plan)
	applied := document(t, fixKind("apply"), 0, "apply", plan, core, "-o", filepath.Join(dir, "applied"))
	if applied["output"] != filepath.Join(dir, "applied") {
		t.Errorf("apply gives %v", applied)
	}
	edited := document(t, fixKind("fix"), 0, "fix", core, "--in-place")
	if edited["output"] != core || edited["undo"] != core+".undo.json" || edited["method"] != "in-place" {
		t.Errorf("fix --in-place gives %v", edited)
	}
	undone := document(t, fixKind("undo"), 0, "undo", core+".undo.json", core)
	if undone["output"] != core || at(t, undone, "patches", 0, "new") != at(t, dry, "patches", 0, "old") {
		t.Errorf("undo gives %v", undone)
	}

	// What is left is told.
	exposed := document(t, fixKind("fix"), 0, "fix", core, "--strategy", "expose", "-o", filepath.Join(dir, "exposed"))
	if at(t, exposed, "remaining", 0, "id") != "phantom-thread" {
		t.Errorf("after expose there remains %v", exposed["remaining"])
	}
}
