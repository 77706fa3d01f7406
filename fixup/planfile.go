package fixup

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/corethreads/corethreads/elfcore"
)

// PlanSchema is the "schema" of a plan's JSON document.
const PlanSchema = "corethreads/plan/1"

// maxPlanSize bounds the JSON of a plan, in bytes. A patch takes some 300, so
// it is room for every thread that a kernel can hold with default limits.
const maxPlanSize = 64 << 20

// patchJSON is the form of a patch in every JSON document of the tool. Pointers
// tell what is missing from what is zero.
type patchJSON struct {
	Address *elfcore.Addr `json:"address"`
	Offset  *int64        `json:"offset"`
	Old     string        `json:"old"`
	New     string        `json:"new"`
	Reason  string        `json:"reason"`
}

// MarshalJSON gives {"address","offset","old","new","reason"}: the address as a
// string or null, the offset as a number, the bytes in hexadecimal.
func (p Patch) MarshalJSON() ([]byte, error) {
	out := patchJSON{
		Offset: &p.Offset,
		Old:    hex.EncodeToString(p.Old),
		New:    hex.EncodeToString(p.New),
		Reason: p.Reason,
	}
	if p.Address != 0 {
		out.Address = &p.Address
	}
	return encode(out, "")
}

// UnmarshalJSON reads the form of MarshalJSON and refuses unknown fields.
func (p *Patch) UnmarshalJSON(data []byte) error {
	var in patchJSON
	if err := decodeStrictly(data, &in); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	if in.Offset == nil {
		return errors.New("patch without an offset")
	}
	oldBytes, err := hex.DecodeString(in.Old)
	if err != nil {
		return fmt.Errorf("patch at offset %#x: old bytes: %w", *in.Offset, err)
	}
	newBytes, err := hex.DecodeString(in.New)
	if err != nil {
		return fmt.Errorf("patch at offset %#x: new bytes: %w", *in.Offset, err)
	}
	*p = Patch{Offset: *in.Offset, Old: oldBytes, New: newBytes, Reason: in.Reason}
	if in.Address != nil {
		p.Address = *in.Address
	}
	return nil
}

// planFields is Plan without its methods, so that these can use the JSON form
// that the field tags give.
type planFields Plan

type planJSON struct {
	Schema string `json:"schema"`
	planFields
}

// MarshalJSON gives {"schema","core","strategy","patches"}.
func (p Plan) MarshalJSON() ([]byte, error) {
	if p.Patches == nil {
		p.Patches = []Patch{}
	}
	return encode(planJSON{PlanSchema, planFields(p)}, "")
}

// UnmarshalJSON reads the form of MarshalJSON and refuses another schema, a
// missing list of patches and unknown fields. It does not Validate.
func (p *Plan) UnmarshalJSON(data []byte) error {
	// The schema first: a later one may well have fields unknown to this.
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.Schema != PlanSchema {
		return fmt.Errorf("not a plan: its schema is %q, expected %q", head.Schema, PlanSchema)
	}
	var in planJSON
	if err := decodeStrictly(data, &in); err != nil {
		return err
	}
	if in.Patches == nil {
		return errors.New("not a plan: it has no list of patches")
	}
	*p = Plan(in.planFields)
	return nil
}

// encode leaves <, > and & as they are: a reason is for people, not for HTML.
func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return out.Bytes(), err
}

func decodeStrictly(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// Read reads one plan up to the end of r and validates it.
func Read(r io.Reader) (*Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPlanSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	if len(data) > maxPlanSize {
		return nil, fmt.Errorf("not a plan: longer than %d bytes", maxPlanSize)
	}
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("not a plan: %w", err)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &p, nil
}

// ReadFile reads and validates the plan in the file at path.
func ReadFile(path string) (*Plan, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Write validates the plan and writes it as an indented JSON document.
func (p *Plan) Write(w io.Writer) error { return p.writeUpTo(maxPlanSize, w) }

func (p *Plan) writeUpTo(limit int, w io.Writer) error {
	if err := p.Validate(); err != nil {
		return err
	}
	data, err := encode(p, "  ")
	if err != nil {
		return err
	}
	// What Read would refuse must not become somebody's undo file.
	if len(data) > limit {
		return fmt.Errorf("plan: %d patches take %d bytes of JSON, more than %d", len(p.Patches), len(data), limit)
	}
	_, err = w.Write(data)
	return err
}

// WriteFile writes the plan to a new file of mode 0600, whole and synced to
// disk, or not at all. The error for a path that exists is fs.ErrExist.
func (p *Plan) WriteFile(path string) error { return p.writeFile(path, WriteOptions{}) }

func (p *Plan) writeFile(path string, opts WriteOptions) error {
	d, err := newDraft(path)
	if err != nil {
		return err
	}
	defer d.discard()
	opts.at("created")
	if err := p.Write(d.file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := d.publish(false, opts); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
