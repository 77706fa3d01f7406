package locks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/module"
)

// held puts mutexes in a form to compare: with their owners.
func held(d dead, mutexes []locks.Held) []string {
	var out []string
	for _, h := range mutexes {
		out = append(out, fmt.Sprintf("%d %s %s", d.core.Threads[h.Thread].TID, h.Kind, h.Object))
	}
	slices.Sort(out)
	return out
}

// TestHeld looks for held mutexes in programs in which somebody waits for every
// mutex that is held, and says who holds it.
func TestHeld(t *testing.T) {
	programs := map[string][]string{
		"waits.c":       {"mutexes", "ceiling", "mutexes-timed", "conds", "sems", "rwlocks", "cond-again"},
		"deadlocks.c":   {"deadlock", "ring", "self", "rwlock-cycle", "join-cycle", "once-cycle", "file-cycle", "owner-exited", "destroy-in-use"},
		"brokenlocks.c": {"waiters-bit", "pi-self", "robust-mended"},
	}
	for build, flags := range builds {
		for source, scenarios := range programs {
			exe := coretest.Compile(t, source, flags...)
			for _, scenario := range scenarios {
				t.Run(build+"/"+scenario, func(t *testing.T) {
					t.Parallel()
					c := coretest.Crash(t, exe, coretest.Run{Args: []string{scenario}})
					var want []string
					for _, w := range truthOf(t, c.Core).Waits {
						switch locks.Kind(w.Kind) {
						case locks.Mutex, locks.PIMutex, locks.RobustMutex:
							if w.OwnerState == string(locks.OwnerLive) {
								want = append(want, fmt.Sprintf("%d %s %#x", w.OwnerTID, w.Kind, uint64(w.Object)))
							}
						}
					}
					slices.Sort(want)
					want = slices.Compact(want)
					d := open(t, c.Core, module.Config{NoHostFiles: true})
					found, err := locks.FindHeld(t.Context(), d.core, d.process, d.set, locks.HeldOptions{})
					if err != nil {
						t.Fatal(err)
					}
					if got := held(d, found.Mutexes); !slices.Equal(got, want) {
						t.Errorf("%v are held, the program says %v", got, want)
					}
					if found.Searched != found.Total || len(found.BrokenLists) != 0 {
						t.Errorf("%d of %d bytes searched, broken lists %v", found.Searched, found.Total, found.BrokenLists)
					}
				})
			}
		}
	}
}

// TestHeldStops ends a search by its context, its limit, and tells how far it is.
func TestHeldStops(t *testing.T) {
	x := blockedCall{data, 2, wait | private, false, mutex(2, 0, neighbor, 1, 0), nil}
	d := read(t, x.amd64())
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := locks.FindHeld(ctx, d.core, d.process, d.set, locks.HeldOptions{}); !errors.Is(err, stop) {
		t.Errorf("%v is not the cause", err)
	}
	last := int64(0)
	found, err := locks.FindHeld(t.Context(), d.core, d.process, d.set, locks.HeldOptions{Limit: 1, Progress: func(done, total int64) {
		if done <= last || done > total {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}})
	if err != nil || found.Searched >= found.Total || int64(found.Searched) != last || len(found.Mutexes) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestHeldInSparseCore finds mutexes before, behind and between the holes of a
// sparse file.
func TestHeldInSparseCore(t *testing.T) {
	const size = 64 << 20
	x := blockedCall{data, 2, wait | private, false, nil, nil}
	c := x.amd64()
	memory := make([]byte, size)
	var want []string
	for _, at := range []uint64{0, 20<<20 + 8, 4<<20 - 16, size - 40} {
		for i, word := range mutex(1, 0, neighbor, 1, 0) {
			c.Order.PutUint32(memory[at+4*uint64(i):], word)
		}
		want = append(want, fmt.Sprintf("%d mutex %#x", neighbor, 0x100000000+at))
	}
	slices.Sort(want)
	c.Loads = append(c.Loads, coretest.Load{Addr: 0x100000000, Data: memory, Flags: coretest.RW})
	path := filepath.Join(t.TempDir(), "core")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	b := c.Bytes()
	for at := 0; at < len(b); at += 4096 {
		if page := b[at:min(at+4096, len(b))]; !bytes.Equal(page, make([]byte, len(page))) {
			if _, err := f.WriteAt(page, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(f.Truncate(int64(len(b))), f.Close()); err != nil {
		t.Fatal(err)
	}
	d := open(t, path, module.Config{NoHostFiles: true})
	found, err := locks.FindHeld(t.Context(), d.core, d.process, d.set, locks.HeldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := held(d, found.Mutexes); !slices.Equal(got, want) || found.Searched != found.Total {
		t.Errorf("%v, not %v; %d of %d bytes searched", got, want, found.Searched, found.Total)
	}
}
