package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/tls"
)

type variableDocument struct {
	// Name is what was asked for; the name as in source where nothing was.
	Name     string          `json:"name"`
	Source   string          `json:"source_name"`
	Linkage  string          `json:"linkage_name"`
	Module   string          `json:"module"`
	ModuleID *uint64         `json:"module_id"`
	Bound    bool            `json:"bound"`
	Offset   uint64          `json:"offset"`
	Size     uint64          `json:"size"`
	Type     *string         `json:"type"`
	Unit     *string         `json:"unit"`
	Values   []valueDocument `json:"values"`
}

type valueDocument struct {
	TID     *int          `json:"tid"`
	Pthread *elfcore.Addr `json:"pthread"`
	State   string        `json:"state"`
	Address *elfcore.Addr `json:"address"`
	Status  string        `json:"status"`
	How     *string       `json:"how"`
	Reason  *string       `json:"reason"`
	Bytes   *string       `json:"bytes"`
	Value   *string       `json:"value"`
}

type tlsModuleDocument struct {
	Module   string  `json:"module"`
	ModuleID *uint64 `json:"module_id"`
	Static   bool    `json:"static"`
	Size     uint64  `json:"size"`
	Align    uint64  `json:"align"`
	From     string  `json:"source"`
	// Blocks are left out where variables were asked for.
	Blocks []blockDocument `json:"blocks,omitempty"`
}

type blockDocument struct {
	TID     *int          `json:"tid"`
	Pthread *elfcore.Addr `json:"pthread"`
	State   string        `json:"state"`
	Address *elfcore.Addr `json:"address"`
	Status  string        `json:"status"`
	Reason  *string       `json:"reason"`
}

// document writes the JSON document. It is written as it is made, since a
// process can have many variables times many threads.
func (r *tlsRun) document(w io.Writer) error {
	out := &documentWriter{w: bufio.NewWriter(w)}
	out.text(`{"schema":"corethreads/tls/1","variables":[`)
	shown := r.found
	if !r.named {
		for _, v := range r.all {
			shown = append(shown, found{v, v.Name})
		}
	}
	for i := range shown {
		out.element(i, r.variable(&shown[i]))
	}
	out.text(`],"modules":[`)
	for i, m := range r.resolver.Modules() {
		out.element(i, r.module(m))
	}
	out.text(`],"not_found":`)
	out.element(0, list(r.missing))
	out.text(`,"warnings":`)
	out.element(0, list(r.warnings()))
	out.text("}\n")
	return out.flush()
}

func (r *tlsRun) variable(v *found) variableDocument {
	d := variableDocument{
		Name: v.asked, Source: v.Name, Linkage: v.Linkage, Type: orNull(v.Type), Unit: orNull(v.Unit), Module: v.Module.String(), ModuleID: orNull(v.Module.ID), Bound: v.Bound,
		Offset: v.Offset, Size: v.Size, Values: []valueDocument{},
	}
	for _, t := range r.threads {
		val := r.resolver.Value(t, &v.Variable)
		x := valueDocument{
			TID: r.tid(t), Pthread: orNull(t.Pthread), State: r.state(t), Address: orNull(val.Address),
			Status: string(val.Status), How: orNull(val.How), Reason: orNull(val.Why),
		}
		if val.Bytes != nil {
			digits, text := hex.EncodeToString(val.Bytes), r.resolver.Format(val.Bytes)
			x.Bytes, x.Value = &digits, &text
		}
		d.Values = append(d.Values, x)
	}
	return d
}

func (r *tlsRun) module(m *tls.Module) tlsModuleDocument {
	d := tlsModuleDocument{Module: m.String(), ModuleID: orNull(m.ID), Static: m.Static, Size: m.Size, Align: m.Align, From: m.From}
	if r.named {
		return d
	}
	for _, t := range r.threads {
		b := r.resolver.Block(t, m)
		d.Blocks = append(d.Blocks, blockDocument{
			TID: r.tid(t), Pthread: orNull(t.Pthread), State: r.state(t), Address: orNull(b.Address), Status: string(b.Status), Reason: orNull(b.Why),
		})
	}
	return d
}

// documentWriter writes a JSON document in pieces. The first error stays.
type documentWriter struct {
	w   *bufio.Writer
	err error
}

func (d *documentWriter) text(s string) {
	if d.err == nil {
		_, d.err = d.w.WriteString(s)
	}
}

// element writes element i of an array.
func (d *documentWriter) element(i int, v any) {
	if i > 0 {
		d.text(",")
	}
	var b bytes.Buffer
	if err := writeJSON(&b, v); err != nil && d.err == nil {
		d.err = err
	}
	d.text(string(bytes.TrimRight(b.Bytes(), "\n")))
}

func (d *documentWriter) flush() error {
	if d.err != nil {
		return d.err
	}
	return d.w.Flush()
}
