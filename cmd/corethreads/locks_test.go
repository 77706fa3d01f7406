package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// The contract's document of locks.
var locksKind = object{
	"schema": matches("corethreads/locks/1"),
	"waits": listOf(object{
		"tid": number, "kind": matches("mutex|pi-mutex|robust-mutex|rwlock-read|rwlock-write|cond|cond-destroy|sem|barrier|once|join|file-lock|loader-lock|malloc-arena|futex"),
		"address": orNullKind(address), "symbol": orNullKind(text), "mutex": orNullKind(address), "owner_tid": orNullKind(number),
		"owner_state": matches("live|zombie|parent|not-in-core|none|unknown"), "timed": boolean,
		"futex":    orNullKind(object{"address": address, "op": number, "value": number}.kind),
		"evidence": listOf(text),
	}.kind),
	"verdicts": listOf(object{
		"id": matches("[a-z-]+"), "confidence": matches("certain|high|medium|low"), "tids": listOf(number), "summary": text,
		"evidence": listOf(text), "weak_points": listOf(text),
	}.kind),
	"held": listOf(object{"tid": number, "kind": text, "address": address, "symbol": orNullKind(text)}.kind),
}.kind

const deadlockCore = "x86_64-glibc2.36-deadlock"

// deadlockTruth is what the program of that core said of its threads' waits.
func deadlockTruth(t *testing.T) (out struct {
	Waits []struct {
		TID      int    `json:"tid"`
		Kind     string `json:"kind"`
		Object   string `json:"object"`
		OwnerTID int    `json:"owner_tid"`
	} `json:"waits"`
	Verdict struct {
		ID   string `json:"id"`
		TIDs []int  `json:"tids"`
	} `json:"verdict"`
}) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "cores", deadlockCore, "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestJSONLocks holds the document of locks against the contract, and against what
// the process said of itself.
func TestJSONLocks(t *testing.T) {
	core, _ := coretest.Unpack(t, deadlockCore)
	truth := deadlockTruth(t)
	d := document(t, locksKind, exitFindings, "locks", "--held", core)
	var want, got, wantHeld, gotHeld []string
	for _, w := range truth.Waits {
		want = append(want, fmt.Sprintf("%d %s %s %d", w.TID, w.Kind, w.Object, w.OwnerTID))
		wantHeld = append(wantHeld, fmt.Sprintf("%d %s %s", w.OwnerTID, w.Kind, w.Object))
	}
	for _, w := range d["waits"].([]any) {
		got = append(got, fmt.Sprintf("%v %v %v %v", at(t, w, "tid"), at(t, w, "kind"), at(t, w, "address"), at(t, w, "owner_tid")))
	}
	for _, h := range d["held"].([]any) {
		gotHeld = append(gotHeld, fmt.Sprintf("%v %v %v", at(t, h, "tid"), at(t, h, "kind"), at(t, h, "address")))
	}
	slices.Sort(want)
	slices.Sort(got)
	slices.Sort(wantHeld)
	slices.Sort(gotHeld)
	if !slices.Equal(got, want) {
		t.Errorf("waits %q, the process said %q", got, want)
	}
	if wantHeld = slices.Compact(wantHeld); !slices.Equal(gotHeld, wantHeld) {
		t.Errorf("held %q, the process said %q", gotHeld, wantHeld)
	}
	var tids []int
	for _, tid := range at(t, d, "verdicts", 0, "tids").([]any) {
		tids = append(tids, int(tid.(float64)))
	}
	slices.Sort(tids)
	if id := at(t, d, "verdicts", 0, "id"); id != truth.Verdict.ID || !slices.Equal(tids, truth.Verdict.TIDs) || len(d["verdicts"].([]any)) != 1 {
		t.Errorf("the verdict is %v of %v, not %s of %v", id, tids, truth.Verdict.ID, truth.Verdict.TIDs)
	}
	for _, w := range truth.Waits {
		one := document(t, locksKind, exitFindings, "locks", "--thread", fmt.Sprint(w.TID), core)
		if waits := one["waits"].([]any); len(waits) != 1 || at(t, waits[0], "tid") != float64(w.TID) {
			t.Errorf("--thread %d shows %v", w.TID, waits)
		}
	}
}

// TestExplainCommand decodes each mutex that threads wait for.
func TestExplainCommand(t *testing.T) {
	core, _ := coretest.Unpack(t, deadlockCore)
	for _, w := range deadlockTruth(t).Waits {
		code, stdout, stderr := play(t, nil, "locks", "--explain", w.Object, core)
		first, rest, _ := strings.Cut(stdout, "\n")
		if code != exitDone || stderr != "" || !strings.Contains(first, "waited for by thread ") || !strings.HasPrefix(rest, "\nas pthread_mutex_t: fits\n") {
			t.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
		owner := regexp.MustCompile(`(?m)^  \+8 +__owner +0x[0-9a-f]+  thread (\d+)$`).FindStringSubmatch(stdout)
		if owner == nil || owner[1] != fmt.Sprint(w.OwnerTID) {
			t.Errorf("the owner is %q, not %d", owner, w.OwnerTID)
		}
		d := document(t, object{"schema": matches("corethreads/explain/1"), "address": matches(w.Object), "readings": listOf(object{
			"what": text, "fits": boolean, "against": listOf(text), "fields": listOf(object{"name": text, "offset": number, "value": number, "meaning": orNullKind(text)}.kind),
		}.kind)}.kind, exitDone, "locks", "--explain", w.Object, core)
		if at(t, d, "readings", 0, "what") != "pthread_mutex_t" {
			t.Errorf("%v", at(t, d, "readings", 0))
		}
	}
}

// TestDot holds the graph against the DOT language's grammar, as far as it is used
// here, and its edges against what the process said.
func TestDot(t *testing.T) {
	core, _ := coretest.Unpack(t, deadlockCore)
	_, stdout, _ := play(t, nil, "locks", "--dot", core)
	const (
		id         = `(\w+|"(?:[^"\\]|\\.)*")`
		attributes = `\[\w+=(?:\w+|"(?:[^"\\]|\\.)*")(?:, \w+=(?:\w+|"(?:[^"\\]|\\.)*"))*\]`
	)
	statement := regexp.MustCompile(`^  (?:rankdir=LR|` + id + ` ` + attributes + `|` + id + ` -> ` + id + ` ` + attributes + `);$`)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if lines[0] != "digraph locks {" || lines[len(lines)-1] != "}" {
		t.Fatalf("no graph: %s", stdout)
	}
	edges := 0
	for _, line := range lines[1 : len(lines)-1] {
		if !statement.MatchString(line) {
			t.Errorf("no statement of DOT: %s", line)
		}
		if strings.Contains(line, " -> ") {
			edges++
		}
	}
	// A thread for an object, and an object for its owner.
	if waits := len(deadlockTruth(t).Waits); edges != waits+2 {
		t.Errorf("%d edges for %d waits for 2 mutexes", edges, waits)
	}
}
