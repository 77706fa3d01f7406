package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// crowd is the core of a process with many threads, many of which have exited,
// and with a library whose variable value_plug nobody has touched.
func crowd(t *testing.T) coretest.Crashed {
	t.Helper()
	plug := coretest.Compile(t, "tlsplug.c", "-shared", "-fPIC", "-DNAME=plug", "-DINITIAL=9", "-DBYTES=100")
	return coretest.Crash(t, coretest.Compile(t, "threads.c"), coretest.Run{Args: []string{"zombies-many"}, Env: []string{"LD_PRELOAD=" + plug}})
}

// printed runs a command line that must succeed, and gives what it printed.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(context.Background(), args, strings.NewReader(""), &stdout, &stderr); code != exitDone {
		t.Errorf("corethreads %s: exit code %d: %s", strings.Join(args, " "), code, stderr.String())
	}
	return stdout.String()
}

// TestTLSCrowd has more threads than a table shows: equal values are grouped, and
// the threads that have exited are counted apart.
func TestTLSCrowd(t *testing.T) {
	c := crowd(t)
	living, zombies := 0, 0
	for _, w := range c.Truth.Threads {
		if w.Lives() {
			living++
		} else {
			zombies++
		}
	}
	out := printed(t, "tls", c.Core, "value_plug", "bytes_plug")
	for _, want := range []string{
		fmt.Sprintf(`(?m)^%d +9 +%d \*$`, living, c.Truth.CrashTID),
		fmt.Sprintf(`(?m)^%d +9 \(zombie\) +0x[0-9a-f]+ \(zombie\)$`, zombies),
		fmt.Sprintf(`(?m)^%d +0+… `, living),
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no line is like %s:\n%s", want, out)
		}
	}
	for _, args := range [][]string{{"tls_*"}, {"*"}, {}, {"--all", "tls_int", "tls_str"}, {"--all", "bytes_plug"}} {
		for line := range strings.Lines(printed(t, append([]string{"tls", c.Core}, args...)...)) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("tls %v: %d columns: %s", args, n, line)
			}
		}
	}
	if out := printed(t, "tls", c.Core, "--raw", "bytes_plug"); !strings.Contains(out, strings.Repeat("00", 100)) {
		t.Errorf("--raw does not show all of the bytes:\n%s", out)
	}
}

// TestTLSDocument compares the JSON document with the program's words, for all
// threads and variables, and what it says of modules with what it has.
func TestTLSDocument(t *testing.T) {
	c := crowd(t)
	names := []string{"tls_int", "tls_u64", "tls_str", "value_plug"}
	var asked, everything struct {
		Schema    string
		Variables []struct {
			Name   string
			Size   int
			Values []struct {
				TID              *int
				Pthread, Address coretest.Address
				State, Status    string
				Bytes, Value     *string
				How, Reason      *string
			}
		}
		Modules []struct {
			Module string
			Blocks []struct {
				Pthread, Address coretest.Address
				Status           string
			}
		}
		NotFound []string `json:"not_found"`
	}
	if err := json.Unmarshal([]byte(printed(t, append([]string{"tls", "--json", c.Core}, names...)...)), &asked); err != nil {
		t.Fatal(err)
	}
	if asked.Schema != "corethreads/tls/1" || len(asked.Variables) != len(names) || len(asked.NotFound) != 0 {
		t.Errorf("schema %s, %d variables, not found %q", asked.Schema, len(asked.Variables), asked.NotFound)
	}
	for i, v := range asked.Variables {
		if v.Name != names[i] || len(v.Values) != len(c.Truth.Threads) {
			t.Errorf("variable %d is %s of %d threads, not %s of %d", i, v.Name, len(v.Values), names[i], len(c.Truth.Threads))
		}
		for _, x := range v.Values {
			w := byPthread(t, c.Truth, x.Pthread)
			if (x.TID != nil) != w.Lives() || x.TID != nil && *x.TID != w.TID || x.TID == nil && x.State != "zombie" {
				t.Errorf("%s: thread %v, %s, at %#x is not %d, %s", v.Name, x.TID, x.State, x.Pthread, w.TID, w.State)
			}
			if x.Status != "ok" || x.Bytes == nil || x.Value == nil || x.How == nil || x.Reason != nil {
				t.Errorf("%s of %s: %+v", v.Name, w.Role, x)
				continue
			}
			b, err := hex.DecodeString(*x.Bytes)
			if err != nil || len(b) != v.Size {
				t.Errorf("%s of %s: bytes %s (%v), of %d", v.Name, w.Role, *x.Bytes, err, v.Size)
			}
			if want, ok := w.TLS[v.Name]; ok && (x.Address != want.Addr || v.Size != want.Size || !strings.Contains(*x.Value, string(want.Value))) {
				t.Errorf("%s of %s: %s at %#x, the program said %s at %#x", v.Name, w.Role, *x.Value, x.Address, want.Value, want.Addr)
			}
		}
	}

	if err := json.Unmarshal([]byte(printed(t, "tls", "--json", c.Core)), &everything); err != nil {
		t.Fatal(err)
	}
	if len(everything.Variables) <= len(names) {
		t.Errorf("all variables are %d", len(everything.Variables))
	}
	for _, m := range everything.Modules {
		if len(m.Blocks) != len(c.Truth.Threads) {
			t.Errorf("%d blocks of %s", len(m.Blocks), m.Module)
		}
		for _, b := range m.Blocks {
			at := byPthread(t, c.Truth, b.Pthread).TLS["tls_int"].Addr
			if m.Module == c.Exe && (b.Status != "ok" || b.Address > at || at-b.Address >= 20) {
				t.Errorf("the program's block, %s at %#x, does not have tls_int, at %#x", b.Status, b.Address, at)
			}
		}
	}
}

func byPthread(t *testing.T, truth coretest.Truth, pthread coretest.Address) coretest.TruthThread {
	t.Helper()
	for _, w := range truth.Threads {
		if w.Pthread == pthread {
			return w
		}
	}
	t.Fatalf("no thread has the descriptor %#x", pthread)
	return coretest.TruthThread{}
}
