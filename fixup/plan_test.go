package fixup

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/corethreads/corethreads/elfcore"
)

const zeroSum = "0000000000000000000000000000000000000000000000000000000000000000"

func planOf(size int64, patches ...Patch) *Plan {
	return &Plan{Core: CoreID{Size: size, HeadSHA256: zeroSum}, Strategy: "retire", Patches: patches}
}

func patchAt(offset int64, from, to string) Patch {
	return Patch{Offset: offset, Old: []byte(from), New: []byte(to)}
}

func TestValidate(t *testing.T) {
	noSum := planOf(100)
	noSum.Core.HeadSHA256 = ""
	shortSum := planOf(100)
	shortSum.Core.HeadSHA256 = "00ff"
	for _, tt := range []struct {
		name string
		plan *Plan
		want string // part of the error; "" for none
	}{
		{"no patches", planOf(100), ""},
		{"first and last byte", planOf(100, patchAt(0, "a", "b"), patchAt(99, "a", "b")), ""},
		{"neighbours", planOf(100, patchAt(4, "ab", "cd"), patchAt(6, "a", "b")), ""},
		{"all of the core", planOf(2, patchAt(0, "ab", "cd")), ""},
		{"no size", planOf(0), "0 bytes"},
		{"negative size", planOf(-1), "-1 bytes"},
		{"no sum", noSum, "head_sha256"},
		{"short sum", shortSum, "head_sha256"},
		{"longer", planOf(100, patchAt(16, "a", "bc")), "offset 0x10: 1 old bytes but 2 new ones"},
		{"empty", planOf(100, patchAt(16, "", "")), "changes no byte"},
		{"nothing new", planOf(100, patchAt(16, "ab", "ab")), "changes no byte"},
		{"before the start", planOf(100, patchAt(-1, "a", "b")), "outside"},
		{"past the end", planOf(100, patchAt(99, "ab", "cd")), "outside"},
		{"at the end of the number range", planOf(100, patchAt(1<<63-1, "ab", "cd")), "outside"},
		{"larger than the core", planOf(1, patchAt(0, "ab", "cd")), "outside"},
		{"overlap", planOf(100, patchAt(4, "abc", "cde"), patchAt(6, "a", "b")), "patch 1, offset 0x6: begins before patch 0 ends, at 0x7"},
		{"twice", planOf(100, patchAt(4, "a", "b"), patchAt(4, "a", "b")), "begins before"},
		{"out of order", planOf(100, patchAt(8, "a", "b"), patchAt(4, "a", "b")), "begins before"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.plan.Validate()
			if tt.want == "" && err != nil {
				t.Fatalf("refused: %v", err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Fatalf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// The document is a contract with other programs, so it is compared with text,
// not with what Write made of it before.
func TestWriteGivesTheDocument(t *testing.T) {
	pid := 2361
	p := planOf(4096,
		Patch{Address: 0x7fd060be0990, Offset: 720, Old: []byte{0, 0, 0, 0}, New: []byte{255, 255, 255, 255}, Reason: "tid 0 -> -1"},
		Patch{Offset: 1000, Old: []byte{1}, New: []byte{2}, Reason: "a note"})
	p.Core.PID, p.Core.Command = &pid, "zu"
	const want = `{
  "schema": "corethreads/plan/1",
  "core": {
    "size": 4096,
    "head_sha256": "` + zeroSum + `",
    "pid": 2361,
    "command": "zu"
  },
  "strategy": "retire",
  "patches": [
    {
      "address": "0x7fd060be0990",
      "offset": 720,
      "old": "00000000",
      "new": "ffffffff",
      "reason": "tid 0 -> -1"
    },
    {
      "address": null,
      "offset": 1000,
      "old": "01",
      "new": "02",
      "reason": "a note"
    }
  ]
}
`
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	got, err := Read(strings.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestPlanWithoutPatchesHasAnEmptyList(t *testing.T) {
	out, err := json.Marshal(planOf(1))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), `"patches":[]`) || !strings.Contains(string(out), `"pid":null`) {
		t.Errorf("got %s", out)
	}
	if _, err := Read(bytes.NewReader(out)); err != nil {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	const core = `"core":{"size":9,"head_sha256":"` + zeroSum + `","pid":null,"command":""}`
	const head = `{"schema":"corethreads/plan/1",` + core + `,"strategy":"retire","patches":[`
	for _, tt := range []struct{ name, document, want string }{
		{"nothing", ``, "unexpected end"},
		{"another document", `{"schema":"corethreads/check/1","verdict":"healthy"}`, `its schema is "corethreads/check/1"`},
		{"a later schema", `{"schema":"corethreads/plan/2","color":1}`, `its schema is "corethreads/plan/2"`},
		{"no schema", `{` + core + `,"strategy":"","patches":[]}`, `its schema is ""`},
		{"no patches", `{"schema":"corethreads/plan/1",` + core + `,"strategy":""}`, "no list of patches"},
		{"null patches", `{"schema":"corethreads/plan/1",` + core + `,"strategy":"","patches":null}`, "no list of patches"},
		{"no core", `{"schema":"corethreads/plan/1","strategy":"","patches":[]}`, "0 bytes"},
		{"unknown field", head + `],"grow":1}`, `unknown field "grow"`},
		{"unknown field of the core", strings.Replace(head, `"pid"`, `"uid":1,"pid"`, 1) + `]}`, `unknown field "uid"`},
		{"unknown field of a patch", head + `{"offset":0,"old":"00","new":"01","append":"02"}]}`, `unknown field "append"`},
		{"no offset", head + `{"old":"00","new":"01"}]}`, "without an offset"},
		{"no bytes", head + `{"offset":3}]}`, "changes no byte"},
		{"odd hexadecimal", head + `{"offset":3,"old":"000","new":"001"}]}`, "offset 0x3: old bytes"},
		{"no hexadecimal", head + `{"offset":3,"old":"00","new":"0g"}]}`, "offset 0x3: new bytes"},
		{"an address as number", head + `{"address":1,"offset":3,"old":"00","new":"01"}]}`, "patch"},
		{"an offset as fraction", head + `{"offset":0.5,"old":"00","new":"01"}]}`, "patch"},
		{"invalid", head + `{"offset":9,"old":"00","new":"01"}]}`, "outside"},
		{"something after it", head + `]}{}`, "after top-level value"},
		{"cut", head + `{"offset":0,"old":"00`, "unexpected end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Read(strings.NewReader(tt.document))
			if err == nil || p != nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, error %v, want an error with %q", p, err, tt.want)
			}
		})
	}
}

// endless is a document without an end; it counts what was taken from it.
type endless struct{ n int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.n += int64(len(p))
	return len(p), nil
}

func TestReadEndsAtTheLimit(t *testing.T) {
	r := &endless{}
	if _, err := Read(r); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("got error %v", err)
	}
	if r.n > maxPlanSize+1 {
		t.Errorf("read %d bytes of an endless plan", r.n)
	}
}

// An undo file that cannot be read is none.
func TestWriteRefusesWhatReadWould(t *testing.T) {
	var out bytes.Buffer
	p := planOf(100, patchAt(3, "a", "b"), patchAt(9, "c", "d"))
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	size := out.Len()
	if err := p.writeUpTo(size-1, &out); err == nil || out.Len() != size {
		t.Errorf("%d bytes were written over the limit, error %v", out.Len()-size, err)
	}
	if err := p.writeUpTo(size, &out); err != nil || out.Len() != 2*size {
		t.Errorf("%d bytes were written at the limit, error %v", out.Len()-size, err)
	}
	if err := planOf(1, patchAt(1, "a", "b")).Write(io.Discard); err == nil {
		t.Error("an invalid plan was written")
	}
}

func TestPlanSurvivesItsFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "content")
		p := planOf(int64(len(content)), drawPatches(t, content)...)
		for i := range p.Patches {
			p.Patches[i].Address = elfcore.Addr(rapid.Uint64().Draw(t, "address"))
			p.Patches[i].Reason = rapid.StringN(0, 20, -1).Draw(t, "reason")
		}
		var out bytes.Buffer
		if err := p.Write(&out); err != nil {
			t.Fatal(err)
		}
		got, err := Read(&out)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Fatalf("(-written +read):\n%s", diff)
		}
		if diff := cmp.Diff(p, p.Inverse().Inverse()); diff != "" {
			t.Fatalf("inverse of the inverse (-plan +got):\n%s", diff)
		}
	})
}

func FuzzRead(f *testing.F) {
	var out bytes.Buffer
	if err := planOf(100, patchAt(3, "a", "b"), patchAt(9, "c", "d")).Write(&out); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte(`{"schema":"corethreads/plan/1","core":{},"patches":[{"offset":-1,"old":"","new":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data))
		if err != nil {
			if p != nil {
				t.Fatal("an error and a plan")
			}
			return
		}
		// What was read is fit to be written and undone.
		if err := p.Inverse().Write(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

func TestIdentity(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 2*headSize/16)
	size := int64(len(content))
	patches := []Patch{
		patchAt(0, "0123", "ELF!"),
		patchAt(headSize-2, "efg", "xyz"), // over the end of the head
		patchAt(headSize+100, "4", "x"),
	}
	identify := func(content []byte) CoreID {
		t.Helper()
		id, err := Identify(bytes.NewReader(content), int64(len(content)), patches)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	want := identify(content)
	changed := func(offset int64, b byte) []byte {
		c := bytes.Clone(content)
		c[offset] = b
		return c
	}

	patched := bytes.Clone(content)
	for _, p := range patches {
		copy(patched[p.Offset:], p.New)
	}
	if got := identify(patched); got != want {
		t.Error("differs once the patches are applied")
	}
	if got := identify(changed(headSize+50, '!')); got != want {
		t.Error("reads more than the head")
	}
	for _, offset := range []int64{4, 100, headSize - 3} {
		if identify(changed(offset, '!')) == want {
			t.Errorf("equal although the byte at %d differs", offset)
		}
	}
	if identify(content[:size-1]) == want {
		t.Error("equal although one is shorter")
	}
	if a, b := identify(content[:10]), identify(changed(9, '!')[:10]); a == b {
		t.Error("equal although the last of 10 bytes differs")
	}

	for _, size := range []int64{0, -1} {
		if _, err := Identify(bytes.NewReader(nil), size, nil); err == nil {
			t.Errorf("a core of %d bytes has an identity", size)
		}
	}
	if _, err := Identify(bytes.NewReader(content), size+headSize, nil); err != nil {
		t.Errorf("the claimed size is read: %v", err)
	}
	if _, err := Identify(bytes.NewReader(content[:100]), 1<<60, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a core shorter than it claims gave error %v", err)
	}
}
