package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
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
	headline := headline(r.Report)
	fmt.Fprintf(&b, "%s: %s: %s\n", printable(coreName(path)), colour(r.Verdict), printable(headline))
	if g.quiet {
		_, err := io.WriteString(w, b.String())
		return err
	}
	writeFindings(&b, s, g, path, r.Report, headline)
	if g.verbose {
		writeProvenance(&b, s, r.Report)
	}
	b.WriteString("\n" + s.wrap(describe(r.Report), "  "))
	if r.crash != nil {
		b.WriteString(s.wrap("died in "+r.crash.text(), "  "))
	}
	writeLeak(&b, s, r.Report, "  ")
	writeRemedies(&b, s, path, r)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLeak says what the threads that nobody joined still hold.
func writeLeak(b *strings.Builder, s *style, r *diagnose.Report, indent string) {
	if leak := r.Leak(); leak != "" {
		b.WriteString(s.wrap("exited unjoined: "+leak, indent))
	}
}

// mostAlike is how many findings of a kind are told without -v.
const mostAlike = 3

// writeFindings tells why. The headline need not be repeated.
func writeFindings(b *strings.Builder, s *style, g *globals, path string, r *diagnose.Report, headline string) {
	type kind struct {
		diagnose.ID
		diagnose.Severity
		cause string
	}
	kindOf := func(f *diagnose.Finding) kind { return kind{f.ID, f.Severity, f.Cause} }
	left := make(map[kind]int)
	for i := range r.Findings {
		left[kindOf(&r.Findings[i])]++
	}
	told := make(map[kind]int)
	for i := range r.Findings {
		f := &r.Findings[i]
		k := kindOf(f)
		told[k]++
		left[k]--
		if f.ID == diagnose.LibthreadDB && r.Verdict == diagnose.Healthy && !g.verbose || told[k] > mostAlike && !g.verbose {
			continue
		}
		b.WriteString("\n")
		if i > 0 || !strings.HasPrefix(headline, f.Summary) {
			b.WriteString(s.wrap(fmt.Sprintf("%s: %s", f.Severity, f.Summary), "  "))
		}
		if f.ID == diagnose.Locks {
			fmt.Fprintf(b, "  more:  corethreads locks %s\n", coreWord(path))
		}
		if f.Detail != "" && (f.Severity != diagnose.Note || g.verbose) {
			b.WriteString(s.wrap(f.Detail, "  "))
		}
		if told[k] == mostAlike && left[k] > 0 && !g.verbose {
			b.WriteString("\n" + s.wrap(fmt.Sprintf("%s: and %d more like these (%s), which -v lists", f.Severity, left[k], f.ID), "  "))
		}
	}
}

// headline is what the first line says behind the verdict.
func headline(r *diagnose.Report) string {
	errors := 0
	for _, f := range r.Findings {
		if f.Severity == diagnose.Error {
			errors++
		}
	}
	switch {
	case r.Verdict == diagnose.Limited && r.Process.Limits[0].Kind == nptl.ListLeaves:
		return r.Process.Limits[0].Text + ": libthread_db will refuse the whole process"
	case r.Verdict == diagnose.Limited:
		return r.Process.Limits[0].Text
	case r.Verdict == diagnose.Healthy:
		return "nothing in it misleads a debugger"
	case errors > 1:
		return fmt.Sprintf("%s (and %d more)", r.Findings[0].Summary, errors-1)
	}
	return r.Findings[0].Summary
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
	case len(r.Find(diagnose.CoreFiltered)) > 0:
		size += ", not all memory"
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
		parts = append(parts, "command "+printable(c.Process.Command()))
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
		return "no libc: " + p.Libc.Source
	case nptl.Musl:
		return "musl (a thread that exits leaves no handle)"
	case nptl.UnknownLibc:
		if p.Libc.Source != "" {
			return "libc: " + p.Libc.Source
		}
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
func writeRemedies(b *strings.Builder, s *style, path string, r *loaded) {
	o, plan, err := r.remedy()
	switch {
	case err != nil:
		b.WriteString("\n" + s.wrap(fmt.Sprintf("no repair: %v", err), "  "))
		return
	case plan == nil:
		return
	}
	fmt.Fprintf(b, "\n  repair (%s):  corethreads fix %s -o %s%s\n", bytesChanged(plan), coreWord(path), shellQuote(fixedName(path)), repairFlags(o))
	if r.Core.Arch.TLS.GDBLookup && len(r.Find(diagnose.ShadowedThread))+len(r.Find(diagnose.HandleIDMismatch)) > 0 {
		fmt.Fprintf(b, "  or, in gdb 17 and later:  maint set force-internal-tls-address-lookup on\n")
	}
}

// remedy finds the repair to propose: the default, else another strategy where
// that is refused, or all handles where only these can be repaired. There is no
// plan where there is nothing to repair.
func (l *loaded) remedy() (o fixup.Options, plan *fixup.Plan, err error) {
	if l.Verdict == diagnose.Healthy {
		return o, nil, nil
	}
	try := func() bool {
		plan, err = fixup.Make(l.Report, o)
		return err == nil && len(plan.Patches) > 0
	}
	if try() {
		return o, plan, nil
	}
	refusal := new(fixup.Refusal)
	switch {
	case errors.As(err, &refusal) && refusal.Instead != "":
		o.Strategy = refusal.Instead
	case err == nil && slices.ContainsFunc(l.Findings, func(f diagnose.Finding) bool {
		return f.Fixable && f.Severity == diagnose.Warning
	}):
		o.All = true
	default:
		return o, nil, err
	}
	if try() {
		return o, plan, nil
	}
	return o, nil, err
}

func bytesChanged(p *fixup.Plan) string {
	n := 0
	for _, x := range p.Patches {
		n += len(x.New)
	}
	return plural(n, "byte")
}

// repairFlags are the flags of fix that ask for a repair.
func repairFlags(o fixup.Options) string {
	var out string
	if o.Strategy != "" && o.Strategy != fixup.Retire {
		out += " --strategy " + string(o.Strategy)
	}
	if o.All {
		out += " --all"
	}
	return out
}
