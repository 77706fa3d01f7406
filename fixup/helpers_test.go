package fixup

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fataler is what testing.T and rapid.T have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// sparse is the description of a file of holes and data, and what reading it
// must give.
type sparse struct {
	content []byte
	data    [][2]int64 // written ranges: start, end
}

// drawSparse draws a file of at most some 600 kB. Borders lie at blocks and
// beside them; data may be zeroes, which are not a hole.
func drawSparse(t *rapid.T) sparse {
	var s sparse
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for range rapid.IntRange(1, 6).Draw(t, "pieces") {
		n := rapid.OneOf(
			rapid.IntRange(1, 100_000),
			rapid.Map(rapid.IntRange(1, 24), func(blocks int) int { return 4096 * blocks }),
		).Draw(t, "length")
		piece := make([]byte, n)
		start := int64(len(s.content))
		switch rapid.SampledFrom([]string{"hole", "data", "zeroes"}).Draw(t, "kind") {
		case "data":
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			s.data = append(s.data, [2]int64{start, start + int64(n)})
		case "zeroes":
			s.data = append(s.data, [2]int64{start, start + int64(n)})
		}
		s.content = append(s.content, piece...)
	}
	return s
}

// write makes the file at path.
func (s sparse) write(t fataler, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(len(s.content))); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.data {
		if _, err := f.WriteAt(s.content[r[0]:r[1]], r[0]); err != nil {
			t.Fatal(err)
		}
	}
}

// drawPatches draws at least one patch of the content.
func drawPatches(t *rapid.T, content []byte) []Patch {
	offsets := rapid.SliceOfNDistinct(rapid.IntRange(0, len(content)-1), 1, 6, rapid.ID[int]).Draw(t, "offsets")
	slices.Sort(offsets)
	var patches []Patch
	for i, offset := range offsets {
		next := len(content)
		if i+1 < len(offsets) {
			next = offsets[i+1]
		}
		n := rapid.IntRange(1, min(next-offset, 40)).Draw(t, "length")
		from := bytes.Clone(content[offset : offset+n])
		to := bytes.Clone(from)
		for changed := range to {
			to[changed] ^= rapid.Byte().Draw(t, "change")
		}
		to[n-1] = ^from[n-1]
		patches = append(patches, Patch{Offset: int64(offset), Old: from, New: to, Reason: "drawn"})
	}
	return patches
}

// patched gives the content that a core has once the patches are applied.
func patched(content []byte, patches []Patch) []byte {
	c := bytes.Clone(content)
	for _, p := range patches {
		copy(c[p.Offset:], p.New)
	}
	return c
}

// planFor makes a plan for a core of this content.
func planFor(t fataler, content []byte, patches ...Patch) *Plan {
	t.Helper()
	id, err := Identify(bytes.NewReader(content), int64(len(content)), patches)
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{Core: id, Strategy: "retire", Patches: patches}
}

// sample is a small core with a hole, and a plan of three patches for it, one
// of them in the hole.
type sample struct {
	dir, core string
	sparse
	plan *Plan
}

var sampleTime = time.Date(2020, 2, 3, 4, 5, 6, 789_000_000, time.UTC)

func newSample(t *testing.T) *sample { return newSampleIn(t, t.TempDir()) }

func newSampleIn(t *testing.T, dir string) *sample {
	t.Helper()
	s := &sample{dir: dir, core: filepath.Join(dir, "core.1")}
	s.content = make([]byte, 300_000)
	for i := range 100_000 {
		s.content[i] = byte(i % 251)
		s.content[200_000+i] = byte(i % 241)
	}
	s.data = [][2]int64{{0, 100_000}, {200_000, 300_000}}
	var patches []Patch
	for _, offset := range []int64{1000, 150_000, 299_996} {
		patches = append(patches, Patch{Offset: offset, Old: bytes.Clone(s.content[offset : offset+4]), New: []byte{255, 255, 255, 255}})
	}
	s.plan = planFor(t, s.content, patches...)
	s.write(t, s.core)
	if err := os.Chtimes(s.core, sampleTime.Add(-time.Hour), sampleTime); err != nil {
		t.Fatal(err)
	}
	return s
}

// fixed is what the core holds when the plan is applied.
func (s *sample) fixed() []byte { return patched(s.content, s.plan.Patches) }

func (s *sample) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sample) open(t *testing.T) *os.File { return open(t, s.core) }

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func mustHold(t fataler, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%s has %d bytes, want %d", filepath.Base(path), len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s holds %#x at %#x, want %#x", filepath.Base(path), got[i], i, want[i])
		}
	}
}

// mustList checks the names in a folder, hidden ones included.
func mustList(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the folder holds %q, want %q", got, want)
	}
}
