package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// groupFrom is the number of threads from which on equal values are grouped.
const groupFrom = 25

// label names a thread in the first column of a table.
func (r *tlsRun) label(t tls.Thread) string {
	if t.LWP < 0 {
		return fmt.Sprintf("%s (%s)", t.Pthread, r.state(t))
	}
	out := fmt.Sprint(r.Core.Threads[t.LWP].TID)
	if &r.Core.Threads[t.LWP] == r.Core.CrashThread() {
		out += " *"
	}
	return out
}

// show gives a value for a cell.
func (r *tlsRun) show(x tls.Value) string {
	switch {
	case x.Status != tls.OK:
		return string(x.Status)
	case x.Bytes == nil:
		return x.Why
	case r.flags.raw:
		return hex.EncodeToString(x.Bytes)
	}
	return r.resolver.Format(x.Bytes)
}

// writeValues draws the variables: threads down and variables across where that
// fits, else a table for each variable.
func (r *tlsRun) writeValues(w io.Writer, s *style) error {
	if len(r.found) == 0 {
		return nil
	}
	if len(r.found) > 1 && (len(r.threads) < groupFrom || r.flags.all) {
		header, rows := r.across()
		if tableWidth(header, rows) <= s.width {
			if err := writeTable(w, header, rows); err != nil {
				return err
			}
			return r.hint(w, s)
		}
	}
	for i := range r.found {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := r.writeVariable(w, s, &r.found[i]); err != nil {
			return err
		}
	}
	return r.hint(w, s)
}

// across is the table of threads by variables.
func (r *tlsRun) across() (header []string, rows [][]string) {
	header = []string{"THREAD"}
	for i := range r.found {
		header = append(header, r.heading(&r.found[i]))
	}
	for _, t := range r.threads {
		row := []string{r.label(t)}
		for i := range r.found {
			row = append(row, r.show(r.resolver.Value(t, &r.found[i].Variable)))
		}
		rows = append(rows, row)
	}
	return header, rows
}

// heading names a variable, with its module, or its place in that, where another
// one has the name too.
func (r *tlsRun) heading(v *found) string {
	for i := range r.found {
		o := &r.found[i]
		switch {
		case o == v || o.asked != v.asked:
		case o.Name != v.Name:
			return v.Name
		case o.Module != v.Module:
			return fmt.Sprintf("%s (%s)", v.asked, shortModule(v.Module))
		case v.Unit != "":
			return fmt.Sprintf("%s (%s)", v.asked, path.Base(v.Unit))
		default:
			return fmt.Sprintf("%s (at +%#x)", v.asked, v.Offset)
		}
	}
	return v.asked
}

// title names a variable by what was asked for, and by its full name.
func (v *found) title() string {
	if v.asked == v.Name || strings.Contains(v.asked, v.Name) {
		return v.asked
	}
	return fmt.Sprintf("%s (%s)", v.asked, v.Name)
}

func shortModule(m *tls.Module) string {
	name := m.String()
	return name[strings.LastIndexByte(name, '/')+1:]
}

// writeVariable draws one variable of all threads.
func (r *tlsRun) writeVariable(w io.Writer, s *style, v *found) error {
	title := fmt.Sprintf("%s in %s, %s", v.title(), shortModule(v.Module), plural(int(v.Size), "byte"))
	if v.Unit != "" {
		title += ", of " + v.Unit
	}
	if !v.Bound {
		title += ", which code most likely does not use: an earlier module defines it too"
	}
	if _, err := io.WriteString(w, s.strong.Sprint(printable(title))+"\n"); err != nil {
		return err
	}
	if len(r.threads) >= groupFrom && !r.flags.all {
		return r.table(w, s, []string{"THREADS", "VALUE", "FOR EXAMPLE"}, r.grouped(v), 1)
	}
	header := []string{"THREAD", "ADDRESS", "VALUE"}
	if r.globals.verbose {
		header = append(header, "HOW")
	}
	var rows [][]string
	for _, t := range r.threads {
		x := r.resolver.Value(t, &v.Variable)
		address := "-"
		if x.Address != 0 {
			address = x.Address.String()
		}
		row := []string{r.label(t), address, r.show(x)}
		if r.globals.verbose {
			row = append(row, how(x.How, x.Why))
		}
		rows = append(rows, row)
	}
	return r.table(w, s, header, rows, 2)
}

// how says how something was found, and why it is not there.
func how(way, why string) string {
	if way != "" && why != "" {
		return way + ": " + why
	}
	return way + why
}

// longNumber is room for any number, so that two that differ never look alike.
const longNumber = 32

// table draws a table, with long values of one column cut to what fits; all of
// them is shown by --raw and -v.
func (r *tlsRun) table(w io.Writer, s *style, header []string, rows [][]string, column int) error {
	if !r.flags.raw && !r.globals.verbose {
		fit(s.width, header, rows, column, longNumber, cutEnd)
	}
	return writeTable(w, header, rows)
}

// grouped counts the threads that have equal values, in the order in which the
// values appear.
func (r *tlsRun) grouped(v *found) [][]string {
	counts := make(map[string]int)
	var rows [][]string
	for _, t := range r.threads {
		value := r.show(r.resolver.Value(t, &v.Variable))
		if t.LWP < 0 {
			value += " (" + r.state(t) + ")"
		}
		if counts[value]++; counts[value] == 1 {
			rows = append(rows, []string{"", value, r.label(t)})
		}
	}
	for _, row := range rows {
		row[0] = fmt.Sprint(counts[row[1]])
	}
	return rows
}

// hint says in a line when gdb will disagree about what was shown.
func (r *tlsRun) hint(w io.Writer, s *style) error {
	if r.globals.quiet {
		return nil
	}
	for _, f := range errorsOf(r.Report) {
		if r.concerns(&f) {
			_, err := io.WriteString(w, "\n"+s.wrap(fmt.Sprintf("gdb will disagree: %s (corethreads check says why)", f.Summary), ""))
			return err
		}
	}
	return nil
}

// concerns tells whether a finding is about a thread that is shown, or about all.
func (r *tlsRun) concerns(f *diagnose.Finding) bool {
	return len(f.TIDs) == 0 || slices.ContainsFunc(r.threads, func(t tls.Thread) bool {
		tid := r.tid(t)
		return tid != nil && slices.Contains(f.TIDs, *tid)
	})
}

// writeBlocks lists the modules with thread-local storage and each thread's
// blocks.
func (r *tlsRun) writeBlocks(w io.Writer, s *style) error {
	var rows [][]string
	for _, m := range r.resolver.Modules() {
		kind := "dynamic"
		if m.Static {
			kind = "static"
		}
		counts := make(map[tls.Status]int)
		for _, t := range r.threads {
			counts[r.resolver.Block(t, m).Status]++
		}
		rows = append(rows, []string{fmt.Sprint(m.ID), shortModule(m), fmt.Sprint(m.Size), kind, fmt.Sprint(counts[tls.OK]), fmt.Sprint(counts[tls.NotAllocated]), fmt.Sprint(len(r.threads) - counts[tls.OK] - counts[tls.NotAllocated])})
	}
	if len(rows) == 0 {
		return r.noModules(w, s)
	}
	if err := r.table(w, s, []string{"ID", "MODULE", "SIZE", "KIND", "ALLOCATED", "NOT", "UNKNOWN"}, rows, 1); err != nil {
		return err
	}
	rows = nil
	shown := r.threads
	if len(shown) >= groupFrom && !r.flags.all {
		shown = shown[:groupFrom]
	}
	for _, m := range r.resolver.Modules() {
		for _, t := range shown {
			b := r.resolver.Block(t, m)
			where := string(b.Status)
			if b.Status == tls.OK {
				where = b.Address.String()
			}
			rows = append(rows, []string{shortModule(m), r.label(t), where, how(b.How, b.Why)})
		}
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := r.table(w, s, []string{"MODULE", "THREAD", "BLOCK", "HOW"}, rows, 3); err != nil {
		return err
	}
	if n := len(r.threads) - len(shown); n > 0 {
		if _, err := fmt.Fprintf(w, "… and %d more threads; --all shows them\n", n); err != nil {
			return err
		}
	}
	return r.hint(w, s)
}

// noModules says why there is nothing to list.
func (r *tlsRun) noModules(w io.Writer, s *style) error {
	text := "no module with thread-local storage was found"
	for _, x := range r.resolver.Warnings() {
		text += "; " + x
	}
	if exe := r.modules.Executable(); exe != nil && exe.Problem != nil {
		text += "; " + exe.Problem.Text
	}
	_, err := io.WriteString(w, s.wrap(text, ""))
	return err
}

// whyMissing says why a variable was not found, and what to do next.
func (r *tlsRun) whyMissing(name string) string {
	exe := r.modules.Executable()
	if exe != nil && exe.File == nil && exe.Problem != nil {
		return fmt.Sprintf("the program's symbols are not here: %s", exe.Problem.Text)
	}
	var without []string
	for _, m := range r.resolver.Modules() {
		if m.Module != nil && m.File == nil && m.Problem != nil && m.Problem.Kind != module.DebugOnly {
			without = append(without, shortModule(m))
		}
	}
	switch {
	case len(r.resolver.Modules()) == 0:
		return "where thread-local storage lies cannot be told: the loader's records are not in the core"
	case len(without) > 0:
		return fmt.Sprintf("%s have thread-local storage but no file here (corethreads modules says why)", strings.Join(without, ", "))
	case exe != nil && len(exe.TLSSymbols()) == 0 && exe.TLS != nil:
		return fmt.Sprintf("%s has thread-local variables, but was stripped of their names: its debug file has them", exe)
	}
	if ordinary := r.modules.Lookup(name); len(ordinary) > 0 {
		return fmt.Sprintf("%s in %s is an ordinary variable or function, the same for all threads", name, ordinary[0].Module)
	}
	if near := closest(r.all, name); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return fmt.Sprintf("%d others are there; a name of '*' shows them", len(r.all))
}

// closest finds a variable whose name contains the one that was asked for, or
// else its last part, in whatever case.
func closest(all []tls.Variable, name string) string {
	lower := strings.ToLower(name)
	for _, part := range []string{lower, lower[strings.LastIndex(lower, ":")+1:]} {
		for i := range all {
			if part != "" && strings.Contains(strings.ToLower(all[i].Name), part) {
				return all[i].Name
			}
		}
	}
	return ""
}
