package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"

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
			fmt.Fprintln(w)
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

// heading names a variable, with its module where another one has the name too.
func (r *tlsRun) heading(v *found) string {
	for i := range r.found {
		if o := &r.found[i]; o.asked == v.asked && o.Module != v.Module {
			return fmt.Sprintf("%s (%s)", v.asked, shortModule(v.Module))
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
	if !v.Bound {
		title += ", not the one that code uses: an earlier module defines it too"
	}
	fmt.Fprintln(w, s.strong.Sprint(title))
	var rows [][]string
	if len(r.threads) >= groupFrom && !r.flags.all {
		rows = r.grouped(v)
		return writeTable(w, []string{"THREADS", "VALUE", "FOR EXAMPLE"}, rows)
	}
	header := []string{"THREAD", "ADDRESS", "VALUE"}
	if r.globals.verbose {
		header = append(header, "HOW")
	}
	for _, t := range r.threads {
		x := r.resolver.Value(t, &v.Variable)
		address := "-"
		if x.Address != 0 {
			address = x.Address.String()
		}
		row := []string{r.label(t), address, r.show(x)}
		if r.globals.verbose {
			row = append(row, strings.TrimSpace(x.How+" "+x.Why))
		}
		rows = append(rows, row)
	}
	return writeTable(w, header, rows)
}

// grouped counts the threads that have equal values, in the order in which the
// values appear.
func (r *tlsRun) grouped(v *found) [][]string {
	type group struct {
		n     int
		value string
		first string
	}
	var order []*group
	groups := make(map[string]*group)
	for _, t := range r.threads {
		x := r.resolver.Value(t, &v.Variable)
		key := r.show(x)
		if t.LWP < 0 {
			key = r.state(t) + "\x00" + key
		}
		g := groups[key]
		if g == nil {
			value := r.show(x)
			if t.LWP < 0 {
				value += " (" + r.state(t) + ")"
			}
			g = &group{value: value, first: r.label(t)}
			groups[key] = g
			order = append(order, g)
		}
		g.n++
	}
	var rows [][]string
	for _, g := range order {
		rows = append(rows, []string{fmt.Sprint(g.n), g.value, g.first})
	}
	return rows
}

// hint says in a line when gdb will disagree.
func (r *tlsRun) hint(w io.Writer, s *style) error {
	errs := errorsOf(r.Report)
	if len(errs) == 0 || r.globals.quiet {
		return nil
	}
	_, err := io.WriteString(w, "\n"+s.wrap(fmt.Sprintf("gdb will disagree: %s (corethreads check says why)", errs[0].Summary), ""))
	return err
}

// writeBlocks lists the modules with thread-local storage and each thread's
// blocks.
func (r *tlsRun) writeBlocks(w io.Writer) error {
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
	if err := writeTable(w, []string{"ID", "MODULE", "SIZE", "KIND", "ALLOCATED", "NOT", "UNKNOWN"}, rows); err != nil {
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
			rows = append(rows, []string{shortModule(m), r.label(t), where, strings.TrimSpace(b.How + " " + b.Why)})
		}
	}
	fmt.Fprintln(w)
	if err := writeTable(w, []string{"MODULE", "THREAD", "BLOCK", "HOW"}, rows); err != nil {
		return err
	}
	if n := len(r.threads) - len(shown); n > 0 {
		fmt.Fprintf(w, "… and %d more threads; --all shows them\n", n)
	}
	return nil
}

// whyMissing says why a variable was not found, and what to do next.
func (r *tlsRun) whyMissing(all []tls.Variable, name string) string {
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
	case len(without) > 0:
		return fmt.Sprintf("%s have thread-local storage but no file here (corethreads modules says why)", strings.Join(without, ", "))
	case exe != nil && len(exe.TLSSymbols()) == 0 && exe.TLS != nil:
		return fmt.Sprintf("%s has thread-local variables, but was stripped of their names: its debug file has them", exe)
	}
	if near := closest(all, name); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return fmt.Sprintf("%d others are there; corethreads tls --json CORE lists them", len(all))
}

// closest finds a variable whose name contains the one that was asked for, or
// differs from it in case only.
func closest(all []tls.Variable, name string) string {
	lower := strings.ToLower(name)
	for i := range all {
		if strings.Contains(strings.ToLower(all[i].Name), lower) {
			return all[i].Name
		}
	}
	return ""
}
