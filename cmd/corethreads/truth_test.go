package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// eachTrueCore runs a test for every core of testdata/cores.
func eachTrueCore(t *testing.T, test func(t *testing.T, name string)) {
	cores, err := filepath.Glob(filepath.Join("..", "..", "testdata", "cores", "*", "core.zst"))
	if err != nil || len(cores) == 0 {
		t.Fatalf("testdata has no cores: %v", err)
	}
	for _, path := range cores {
		name := filepath.Base(filepath.Dir(path))
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

// told is what check and threads say in JSON, as far as a process can know it of
// itself.
type told struct {
	Verdict string
	Core    struct {
		Arch     string
		PID      int
		CrashTID int `json:"crash_tid"`
	}
	Libc    struct{ Kind, Version string }
	Threads []struct {
		TID     int
		Pthread *string
	}
	Handles []struct {
		Pthread  string
		State    string
		OwnerTID *int  `json:"owner_tid"`
		Shadows  *int  `json:"shadows"`
		Stack    *bool `json:"user_stack"`
	}
}

func parseInto(t *testing.T, document string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(document), into); err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
}

func hexOf(a coretest.Address) string { return fmt.Sprintf("%#x", uint64(a)) }

// TestTruth holds what check and threads say of every core against what its
// process wrote down.
func TestTruth(t *testing.T) {
	eachTrueCore(t, func(t *testing.T, name string) {
		core, truth := coretest.Unpack(t, name)
		verdict, status := "healthy", exitDone
		if truth.ShadowedLWP != 0 {
			verdict, status = "misleading", exitFindings
		}
		var check, threads told
		out, _ := corethreads(t, status, "check", "--json", core)
		parseInto(t, out, &check)
		if check.Verdict != verdict {
			t.Errorf("the verdict is %s, not %s", check.Verdict, verdict)
		}
		out, _ = corethreads(t, exitDone, "threads", "--json", core)
		parseInto(t, out, &threads)
		for _, d := range []told{check, threads} {
			d.compare(t, truth)
		}
	})
}

func (d told) compare(t *testing.T, truth coretest.Truth) {
	t.Helper()
	pid := truth.PID
	if truth.OuterPID != 0 {
		pid = truth.OuterPID
	}
	if d.Core.Arch != truth.Arch || d.Core.PID != pid || d.Core.CrashTID != truth.CrashTID || d.Libc.Kind != "glibc" {
		t.Errorf("it is said to be of %s, process %d, crashed in %d, with %s", d.Core.Arch, d.Core.PID, d.Core.CrashTID, d.Libc.Kind)
	}
	pthreads, handles, living := map[int]string{}, map[string]int{}, 0
	for _, x := range d.Threads {
		if x.Pthread != nil {
			pthreads[x.TID] = *x.Pthread
		}
	}
	for i, h := range d.Handles {
		handles[h.Pthread] = i
	}
	var zombies, shadowed []string
	for _, h := range d.Handles {
		if h.State == "zombie" {
			zombies = append(zombies, h.Pthread)
		}
		if h.Shadows != nil {
			shadowed = append(shadowed, strconv.Itoa(*h.Shadows))
		}
	}
	for _, x := range truth.Threads {
		i, listed := handles[hexOf(x.Pthread)]
		if !x.Lives() {
			continue
		}
		living++
		switch {
		case pthreads[x.LWP()] != hexOf(x.Pthread):
			t.Errorf("%s is said to be at %s, and is at %s", x.Role, pthreads[x.LWP()], hexOf(x.Pthread))
		case !listed || d.Handles[i].State != "live" || d.Handles[i].OwnerTID == nil || *d.Handles[i].OwnerTID != x.LWP():
			t.Errorf("the handle of %s is said to be %+v", x.Role, d.Handles)
		case d.Handles[i].Stack == nil || *d.Handles[i].Stack != x.UserStack:
			t.Errorf("%s: user_stack is wrong", x.Role)
		}
	}
	if living != len(d.Threads) {
		t.Errorf("%d threads, and there were %d", len(d.Threads), living)
	}
	var want []string
	for _, z := range truth.Zombies {
		want = append(want, hexOf(z))
	}
	slices.Sort(want)
	if slices.Sort(zombies); !slices.Equal(zombies, want) {
		t.Errorf("zombies %v, and they were %v", zombies, want)
	}
	want = nil
	if truth.ShadowedLWP != 0 {
		want = []string{strconv.Itoa(truth.ShadowedLWP)}
	}
	if !slices.Equal(shadowed, want) {
		t.Errorf("shadowed are %v, and should be %v", shadowed, want)
	}
}

// TestTruthOfThreadLocals holds the thread-locals of every thread, exited ones
// as well, against what the threads wrote down, for the cores that come with
// their programs.
func TestTruthOfThreadLocals(t *testing.T) {
	tried := 0
	eachTrueCore(t, func(t *testing.T, name string) {
		if _, err := os.Stat(filepath.Join("..", "..", "testdata", "cores", name, "exe.zst")); err != nil {
			return
		}
		tried++
		core, truth := coretest.Unpack(t, name)
		var d struct {
			Variables []struct {
				Name   string
				Values []struct {
					Pthread, Address, Status, Bytes, Value string
				}
			}
		}
		out, _ := corethreads(t, exitDone, "tls", "--json", "--exe", coretest.UnpackExe(t, name), core, "tls_int", "tls_u64", "tls_str")
		parseInto(t, out, &d)
		got := map[string]string{}
		for _, v := range d.Variables {
			for _, x := range v.Values {
				got[v.Name+" at "+x.Pthread] = x.Address + " " + x.Status + " " + x.Bytes
			}
		}
		bigEndian := strings.HasPrefix(name, "s390x-")
		for _, x := range truth.Threads {
			for variable, v := range x.TLS {
				want := hexOf(v.Addr) + " ok " + bytesOf(t, v, bigEndian)
				if got := got[variable+" at "+hexOf(x.Pthread)]; got != want {
					t.Errorf("%s of %s is %q, and was %q", variable, x.Role, got, want)
				}
			}
		}
	})
	if tried == 0 {
		t.Error("no core of testdata has its program")
	}
}

// bytesOf is how a variable stands in memory, in hexadecimal.
func bytesOf(t *testing.T, v coretest.TruthTLS, bigEndian bool) string {
	t.Helper()
	n, ok := new(big.Int).SetString(string(v.Value), 0)
	if v.Kind == "cstr" {
		n, ok = new(big.Int).SetUint64(uint64(v.Ptr)), true
	}
	if !ok {
		t.Fatalf("%q is no number", v.Value)
	}
	b := n.FillBytes(make([]byte, v.Size))
	if !bigEndian {
		slices.Reverse(b)
	}
	return hex.EncodeToString(b)
}
