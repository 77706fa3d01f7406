package coretest

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Truth is what a program wrote down about itself before it died: the
// truth.json of testdata/programs/witness.h. Ids and addresses are 0 where the
// file has null: there is none.
type Truth struct {
	Scenario string `json:"scenario"`
	Arch     string `json:"arch"`
	Libc     string `json:"libc"` // "glibc 2.36"
	// PID is getpid(); OuterPID, where not 0, is what the core says instead.
	PID      int `json:"pid"`
	OuterPID int `json:"outer_pid"`
	// CrashTID is the thread that crashed; 0 for a dump of a living process.
	CrashTID int           `json:"crash_tid"`
	Threads  []TruthThread `json:"threads"`
	// Zombies are the handles of threads that exited and were not joined.
	Zombies []Address `json:"zombies"`
	// ShadowedLWP is the thread, by its id in the core, for which
	// libthread_db gives another thread's handle.
	ShadowedLWP int    `json:"shadowed_lwp"`
	ParentPID   int    `json:"parent_pid"`
	Notes       string `json:"notes"`
}

// TruthThread is a thread in its own words.
type TruthThread struct {
	Role string `json:"role"`
	// TID is gettid(); OuterTID, where not 0, is what the core says instead.
	TID      int     `json:"tid"`
	OuterTID int     `json:"outer_tid"`
	Pthread  Address `json:"pthread"` // pthread_self()
	// State is running, exiting (still an LWP), zombie, detached-exited,
	// joined, starting (not an LWP yet) or parent-only (in a fork child).
	State     string `json:"state"`
	UserStack bool   `json:"user_stack"`
	// TLS are its thread-local variables by name.
	TLS map[string]TruthTLS `json:"tls"`
}

// TruthTLS is a thread-local variable.
type TruthTLS struct {
	Addr Address `json:"addr"`
	Kind string  `json:"kind"` // int, u64 or cstr
	Size int     `json:"size"` // in bytes
	// Value is decimal for int, 0x and hexadecimal for u64, and for cstr the
	// string that Ptr points to.
	Value Text    `json:"value"`
	Ptr   Address `json:"ptr"`
}

// Lives tells whether the thread was an LWP when the core was made.
func (t TruthThread) Lives() bool { return t.State == "running" || t.State == "exiting" }

// LWP is the thread's id in the core.
func (t TruthThread) LWP() int {
	if t.OuterTID != 0 {
		return t.OuterTID
	}
	return t.TID
}

// Thread gives the thread with this role; the test fails if there is none.
func (t *Truth) Thread(tb testing.TB, role string) TruthThread {
	tb.Helper()
	for _, thread := range t.Threads {
		if thread.Role == role {
			return thread
		}
	}
	tb.Fatalf("scenario %s has no thread %q", t.Scenario, role)
	return TruthThread{}
}

// LoadTruth reads a truth.json.
func LoadTruth(t testing.TB, path string) Truth {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var truth Truth
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if truth.PID == 0 || len(truth.Threads) == 0 {
		t.Fatalf("%s: no pid or no threads", path)
	}
	return truth
}

// Address is an address in the dead process, "0x…" in JSON.
type Address uint64

func (a *Address) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if !ok && string(text) != "0" { // printf's %#lx of 0
		return fmt.Errorf("address %q does not start with 0x", text)
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	*a = Address(v)
	return err
}

// Text is a JSON string, or another JSON value as it is written.
type Text string

func (x *Text) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		return json.Unmarshal(b, (*string)(x))
	}
	*x = Text(b)
	return nil
}
