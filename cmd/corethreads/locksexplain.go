package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/locks"
)

// explain decodes the object at an address. The exit status is 1 where the memory
// is not in the core.
func (v *locksView) explain(w, stderr io.Writer, s *style, at elfcore.Addr) (int, error) {
	readings, err := locks.Explain(v.Core, v.Process, v.modules, at)
	if err != nil {
		fmt.Fprintf(stderr, "corethreads: %s: %v\n", printable(coreName(v.path)), err)
		return exitFindings, nil
	}
	if v.globals.json {
		return exitDone, writeJSON(w, newExplainDocument(at, v.symbol(at), readings))
	}
	var b strings.Builder
	name := at.String()
	if sym := v.symbol(at); sym != "" {
		name += " <" + printable(sym) + ">"
	}
	var waiting []string
	for i := range v.report.Waits {
		x := &v.report.Waits[i]
		if x.Object != at && x.Mutex != at {
			continue
		}
		as := x.Kind.Noun()
		if x.Mutex == at {
			as = "the mutex of a condition variable"
		}
		waiting = append(waiting, fmt.Sprintf("thread %d as %s", v.Core.Threads[x.Thread].TID, as))
	}
	switch n := len(waiting); {
	case n == 0:
		fmt.Fprintf(&b, "%s: no thread waits for it\n", name)
	case n == 1:
		fmt.Fprintf(&b, "%s: waited for by %s\n", name, waiting[0])
	default:
		fmt.Fprintf(&b, "%s: waited for by %s, and %s more\n", name, waiting[0], plural(n-1, "thread"))
	}
	if v.globals.quiet {
		readings = nil
	}
	for _, r := range readings {
		fit := s.good.Sprint("fits")
		if len(r.Against) > 0 {
			fit = s.warn.Sprint("does not fit")
		}
		if len(r.Against) > 0 && !v.globals.verbose {
			b.WriteString("\n" + s.wrap(fmt.Sprintf("as %s: %s: %s", r.What, fit, strings.Join(r.Against, "; ")), ""))
			continue
		}
		fmt.Fprintf(&b, "\nas %s: %s\n", r.What, fit)
		for _, x := range r.Against {
			b.WriteString(s.wrap("against it: "+x, "  "))
		}
		width := 16
		for _, f := range r.Fields {
			width = max(width, len(f.Name))
		}
		for _, f := range r.Fields {
			line := fmt.Sprintf("  +%-3d %-*s %#x", f.Offset, width, f.Name, f.Value)
			if f.Meaning != "" {
				line += "  " + f.Meaning
			}
			b.WriteString(line + "\n")
		}
	}
	_, err = io.WriteString(w, b.String())
	return exitDone, err
}

type explainDocument struct {
	Schema   string            `json:"schema"`
	Address  elfcore.Addr      `json:"address"`
	Symbol   *string           `json:"symbol"`
	Readings []readingDocument `json:"readings"`
}

type readingDocument struct {
	What    string          `json:"what"`
	Fits    bool            `json:"fits"`
	Against []string        `json:"against"`
	Fields  []fieldDocument `json:"fields"`
}

type fieldDocument struct {
	Name    string  `json:"name"`
	Offset  uint64  `json:"offset"`
	Value   uint64  `json:"value"`
	Meaning *string `json:"meaning"`
}

func newExplainDocument(at elfcore.Addr, symbol string, readings []locks.Reading) explainDocument {
	d := explainDocument{Schema: "corethreads/explain/1", Address: at, Symbol: orNull(symbol), Readings: []readingDocument{}}
	for _, r := range readings {
		x := readingDocument{What: r.What, Fits: len(r.Against) == 0, Against: list(r.Against), Fields: []fieldDocument{}}
		for _, f := range r.Fields {
			x.Fields = append(x.Fields, fieldDocument{f.Name, f.Offset, f.Value, orNull(f.Meaning)})
		}
		d.Readings = append(d.Readings, x)
	}
	return d
}
