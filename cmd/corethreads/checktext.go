package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/fixup"
	"github.com/corethreads/corethreads/nptl"
)

// writeCheck tells a report to a person: the verdict, why, what kind of core it
// is, and the remedy.
func writeCheck(w io.Writer, s *style, g *globals, path string, r *loaded) error {
	var b strings.Builder
	colour := map[diagnose.Verdict]func(...any) string{
		diagnose.Misleading: s.bad.Sprint,
		diagnose.Limited:    s.warn.Sprint,
		diagnose.Warnings:   s.warn.Sprint,
		diagnose.Healthy:    s.good.Sprint,
	}[r.Verdict]
	headline, rest := headline(r.Report)
	fmt.Fprintf(&b, "%s: %s: %s\n", path, colour(r.Verdict), headline)
	if g.quiet {
		_, err := io.WriteString(w, b.String())
		return err
	}
	for i, f := range rest {
		if f.ID == diagnose.LibthreadDB && r.Verdict == diagnose.Healthy && !g.verbose {
			continue
		}
		b.WriteString("\n")
		if i > 0 || !strings.HasPrefix(headline, f.Summary) {
			fmt.Fprintf(&b, "%s", s.wrap(fmt.Sprintf("%s: %s", f.Severity, f.Summary), "  "))
		}
		if f.Detail != "" && (f.Severity != diagnose.Note || g.verbose) {
			b.WriteString(s.wrap(f.Detail, "  "))
		}
	}
	if g.verbose {
		writeProvenance(&b, s, r.Report)
	}
	b.WriteString("\n" + s.wrap(describe(r.Report), "  "))
	writeRemedies(&b, path, r.Report)
	_, err := io.WriteString(w, b.String())
	return err
}

// headline is what the first line says, and the findings that follow it. The
// one that it already tells comes first, for its detail.
func headline(r *diagnose.Report) (string, []diagnose.Finding) {
	errors := 0
	for _, f := range r.Findings {
		if f.Severity == diagnose.Error {
			errors++
		}
	}
	switch {
	case r.Verdict == diagnose.Limited:
		return r.Process.Limits[0].Text, r.Findings
	case r.Verdict == diagnose.Healthy:
		return "nothing in it misleads a debugger", r.Findings
	case errors > 1:
		return fmt.Sprintf("%s (and %d more)", r.Findings[0].Summary, errors-1), r.Findings
	}
	return r.Findings[0].Summary, r.Findings
}

// describe is the line about the core as a whole.
func describe(r *diagnose.Report) string {
	c := r.Core
	var parts []string
	if c.Signal != nil {
		part := c.Signal.Name()
		if t := c.CrashThread(); t != nil {
			part += fmt.Sprintf(" in thread %d", t.TID)
		}
		if c.Signal.Address != nil {
			part += fmt.Sprintf(" at address %s", c.Signal.Address)
		}
		parts = append(parts, part)
	}
	parts = append(parts, c.Arch.Name, plural(len(c.Threads), "thread")+unjoined(r))
	parts = append(parts, libcText(r.Process))
	size := diagnose.Bytes(uint64(c.Size))
	switch {
	case c.Truncated():
		size += fmt.Sprintf(" of %s, cut", diagnose.Bytes(uint64(c.Size+c.MissingBytes)))
	default:
		size += ", complete"
	}
	if c.Compression != "" {
		size += ", unpacked from " + c.Compression
	}
	parts = append(parts, size)
	if c.Producer != "kernel" && c.Producer != "unknown" {
		parts = append(parts, "written by "+string(c.Producer))
	}
	if c.Process != nil && c.Process.Command() != "" {
		parts = append(parts, "command "+c.Process.Command())
	}
	return strings.Join(parts, " · ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func unjoined(r *diagnose.Report) string {
	n := 0
	for _, h := range r.Process.Handles {
		if h.State == nptl.Zombie {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d exited unjoined", n)
}

// libcText names the C library for people.
func libcText(p *nptl.Process) string {
	switch p.Libc.Kind {
	case nptl.Glibc:
		text := "glibc"
		if v := diagnose.VersionRange(p.Libc); v != "" {
			text += " " + v
		}
		if p.Found {
			text += ", layout " + p.Layout.Source
		}
		return text
	case nptl.NoLibc:
		return "no libc"
	case nptl.Musl:
		return "musl (a thread that exits leaves no handle)"
	}
	return "libc unknown"
}

// writeProvenance says where the facts come from.
func writeProvenance(b *strings.Builder, s *style, r *diagnose.Report) {
	for _, l := range r.Process.Lists {
		fmt.Fprintf(b, "\n%s", s.wrap(fmt.Sprintf("%s: head %s in %s, %s, %s: %s", l.Kind, l.Head, l.Place, plural(len(l.Nodes), "handle"), l.End, l.Why), "  "))
	}
	if r.Process.Libc.Source != "" {
		fmt.Fprintf(b, "%s", s.wrap("libc: "+r.Process.Libc.Source, "  "))
	}
	for _, l := range r.Process.Limits {
		fmt.Fprintf(b, "%s", s.wrap("not determined: "+l.Text, "  "))
	}
	for _, w := range r.Core.Warnings {
		fmt.Fprintf(b, "%s", s.wrap("odd: "+w.String(), "  "))
	}
}

// writeRemedies gives the commands to paste.
func writeRemedies(b *strings.Builder, path string, r *diagnose.Report) {
	fixable := false
	for _, f := range r.Findings {
		fixable = fixable || f.Fixable && f.Severity == diagnose.Error
	}
	if !fixable {
		return
	}
	plan, err := fixup.Make(r, fixup.Options{})
	if err != nil {
		fmt.Fprintf(b, "\n  repair:  %v\n", err)
		return
	}
	n := 0
	for _, p := range plan.Patches {
		n += len(p.New)
	}
	fmt.Fprintf(b, "\n  repair:  corethreads fix %s -o %s   (changes %d bytes)\n", shellQuote(path), shellQuote(fixedName(path)), n)
	if r.Core.Arch.TLS.GDBLookup {
		fmt.Fprintf(b, "  or, in gdb 17 and later:  maint set force-internal-tls-address-lookup on\n")
	}
}
