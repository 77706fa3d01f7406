package main

import (
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

func newThreads(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "threads CORE...",
		Short: "List every thread and every thread handle of a core",
		Long: `threads lists the threads of a core (LWPs, marked * where the process died) and
glibc's handles for threads (struct pthread), in the order in which libthread_db
goes through them. A handle without a thread is of one that has exited, or that
does not run yet.

With -v it says where each fact comes from.

Exit status: 0, or 2 for a core that could not be read.`,
		Example: `  corethreads threads core.123
  corethreads threads --json core.123 | jq '.handles[] | select(.state == "zombie")'`,
		Args: wants("CORE..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachCore(cmd, args, g.load, func(w io.Writer, path string, r *loaded) (int, error) {
				if g.json {
					return exitDone, writeJSON(w, newThreadsDocument(path, r))
				}
				if len(args) > 1 {
					if _, err := fmt.Fprintf(w, "%s:\n", printable(coreName(path))); err != nil {
						return exitFailed, err
					}
				}
				return exitDone, writeThreads(w, newStyle(w, g.color), g, r)
			})
		},
	}
}

// writeThreads draws the table of threads and handles.
func writeThreads(w io.Writer, s *style, g *globals, r *loaded) error {
	header := []string{"", "TID", "PTHREAD", "STATE", "LIST", "STARTED AT"}
	if g.verbose {
		header = append(header, "STACK", "THREAD POINTER")
	}
	var rows [][]string
	var remarks []string
	add := func(thread, handle int) {
		row, remark := threadRow(g, r, thread, handle)
		rows, remarks = append(rows, row), append(remarks, remark)
	}
	for i := range r.Process.Handles {
		add(r.Process.Handles[i].Owner, i)
	}
	for i := range r.Core.Threads {
		if r.Process.Threads[i].Handle < 0 {
			add(i, -1)
		}
	}
	if err := writeRemarkedTable(w, s, g, header, rows, remarks); err != nil {
		return err
	}
	var b strings.Builder
	if !g.quiet {
		b.WriteString("\n" + s.wrap(describe(r.Report), ""))
		writeLeak(&b, s, r.Report, "")
		for _, l := range r.Process.Limits {
			b.WriteString(s.wrap("not determined: "+l.Text, ""))
		}
	}
	if g.verbose {
		writeProvenance(&b, s, r.Report)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRemarkedTable draws a table with a last column of remarks where that has
// room, else with the remarks below their rows. With -v tables are wide anyway.
func writeRemarkedTable(w io.Writer, s *style, g *globals, header []string, rows [][]string, remarks []string) error {
	wide := make([][]string, len(rows))
	for i := range rows {
		wide[i] = append(slices.Clone(rows[i]), remarks[i])
	}
	if wideHeader := append(slices.Clone(header), ""); g.verbose || tableWidth(wideHeader, wide) <= s.width {
		return writeTable(w, wideHeader, wide)
	}
	var table, b strings.Builder
	if err := writeTable(&table, header, rows); err != nil {
		return err
	}
	i := -1 // the header has no remark
	for line := range strings.Lines(table.String()) {
		b.WriteString(line)
		if i >= 0 && remarks[i] != "" {
			b.WriteString(s.wrap(remarks[i], "     "))
		}
		i++
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// threadRow is one line of the table and what there is to remark; thread or
// handle is −1 where there is none.
func threadRow(g *globals, r *loaded, thread, handle int) (row []string, remark string) {
	mark, tid, pthread, state, where, start, stack, pointer := "", "-", "-", "thread", "-", "-", "-", "-"
	var remarks []string
	if thread >= 0 {
		t := &r.Core.Threads[thread]
		n := r.Process.Threads[thread]
		tid = fmt.Sprint(t.TID)
		if t == r.Core.CrashThread() {
			mark = "*"
		}
		if n.Pthread != 0 {
			pthread = n.Pthread.String()
		}
		if n.PointerSource != nptl.FromNowhere {
			pointer = fmt.Sprintf("%s (%s)", n.Pointer, n.PointerSource)
		}
		if seen := r.Debugger.Handle[thread]; seen >= 0 && seen != handle {
			remarks = append(remarks, fmt.Sprintf("gdb takes %s for it", r.Process.Handles[seen].Pthread))
		}
	}
	if handle >= 0 {
		h := r.Process.Handles[handle]
		pthread, state, where = h.Pthread.String(), string(h.State), h.List.String()
		if h.Position >= 0 {
			where = fmt.Sprintf("%s %d", h.List, h.Position)
		}
		if at := r.startedAt(h); at != "" {
			start = at
		}
		if h.Stack != nil {
			stack = h.Stack.Range.String()
		}
		if h.Owner >= 0 && r.Debugger.Reported[handle] != r.Core.Threads[h.Owner].TID {
			remarks = append(remarks, fmt.Sprintf("carries the id %d", h.TID))
		}
		if t := r.Debugger.Shadows[handle]; t >= 0 {
			remarks = append(remarks, fmt.Sprintf("stands for %d", r.Core.Threads[t].TID))
		}
		if h.Exiting() && h.Owner >= 0 {
			remarks = append(remarks, "exiting")
		}
		if h.Detached != nil && *h.Detached {
			remarks = append(remarks, "detached")
		}
		if g.verbose && h.OwnerSource != "" {
			remarks = append(remarks, "by "+h.OwnerSource)
		}
	}
	row = []string{mark, tid, pthread, state, where, printable(start)}
	if g.verbose {
		row = append(row, stack, pointer)
	}
	return row, strings.Join(remarks, ", ")
}

// startedAt names the function that a thread began in, empty for unknown.
func (l *loaded) startedAt(h *nptl.Handle) string {
	switch {
	case h.Initial:
		return "main"
	case h.StartRoutine != nil:
		return l.code(*h.StartRoutine)
	}
	return ""
}

// code names an address of code: by its symbol, else by the mapped file.
func (l *loaded) code(a elfcore.Addr) string {
	if name := l.symbol(a); name != "" {
		return name
	}
	if file, offset, ok := diagnose.Place(l.Core, a); ok {
		return fmt.Sprintf("%s+%#x", file, offset)
	}
	return a.String()
}

// symbol names an address by its symbol, empty for none.
func (l *loaded) symbol(a elfcore.Addr) string {
	sym, offset, ok := l.modules.Symbolize(a)
	if offset == 1 && sym.Type == elf.STT_FUNC && l.thumb {
		offset = 0
	}
	switch {
	case !ok:
		return ""
	case offset == 0:
		return sym.Demangled()
	}
	return fmt.Sprintf("%s+%#x", sym.Demangled(), offset)
}
