package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/locks"
)

// findHeld searches for the mutexes that threads hold.
func (v *locksView) findHeld(cmd *cobra.Command) error {
	bar := newProgress(cmd.ErrOrStderr(), v.globals.progress)
	defer bar.done()
	held, err := locks.FindHeld(cmd.Context(), v.Core, v.Process, v.modules, locks.HeldOptions{
		Progress: func(done, total int64) { bar.show("searching "+v.path, done, total, done) },
	})
	v.held = held
	return err
}

// heldText lists each thread with what it waits for and what it holds, in the
// order of Java's thread dumps.
func (v *locksView) heldText(b *strings.Builder, s *style) {
	byThread := make(map[int][]locks.Held)
	for _, h := range v.held.Mutexes {
		byThread[h.Thread] = append(byThread[h.Thread], h)
	}
	for i := range v.Core.Threads {
		if len(byThread[i]) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n  thread %d\n", v.Core.Threads[i].TID)
		if w := v.waits[i]; w != nil {
			b.WriteString(s.wrap("- "+v.predicate(w), "    "))
		}
		for _, h := range byThread[i] {
			text := fmt.Sprintf("- holds %s %s", h.Kind.Noun(), h.Object)
			if sym := v.symbol(h.Object); sym != "" {
				text += " <" + sym + ">"
			}
			text += " (" + h.Name + ")"
			if h.Listed {
				text += ", on its robust list"
			}
			b.WriteString(s.wrap(text, "    "))
		}
	}
	for _, i := range slices.Sorted(maps.Keys(v.held.BrokenLists)) {
		why := v.held.BrokenLists[i]
		b.WriteString("\n" + s.wrap(fmt.Sprintf("the robust list of thread %d is broken: %s", v.Core.Threads[i].TID, why), "  "))
	}
	found := "no mutex is"
	switch n := len(v.held.Mutexes); {
	case n == 1:
		found = "1 mutex is"
	case n > 1:
		found = fmt.Sprintf("%d mutexes are", n)
	}
	fmt.Fprintf(b, "\n  %s held; %s of writable memory searched\n", found, diagnose.Bytes(v.held.Searched))
}

// explain decodes one object.
func (v *locksView) explain(w io.Writer, s *style) error {
	digits, ok := strings.CutPrefix(v.flags.explain, "0x")
	at, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("--explain wants an address such as 0x7ff7462590a0, not %q", v.flags.explain)
	}
	readings, err := locks.Explain(v.Core, v.Process, v.modules, elfcore.Addr(at))
	if err != nil {
		return err
	}
	if v.globals.json {
		return writeJSON(w, newExplainDocument(elfcore.Addr(at), v.symbol(elfcore.Addr(at)), readings))
	}
	var b strings.Builder
	name := elfcore.Addr(at).String()
	if sym := v.symbol(elfcore.Addr(at)); sym != "" {
		name += " <" + sym + ">"
	}
	var waiting []string
	for i := range v.report.Waits {
		x := &v.report.Waits[i]
		if x.Object != elfcore.Addr(at) && x.Mutex != elfcore.Addr(at) {
			continue
		}
		as := x.Kind.Noun()
		if x.Mutex == elfcore.Addr(at) {
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
		for _, f := range r.Fields {
			line := fmt.Sprintf("  +%-3d %-16s %#x", f.Offset, f.Name, f.Value)
			if f.Meaning != "" {
				line += "  " + f.Meaning
			}
			b.WriteString(line + "\n")
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
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
