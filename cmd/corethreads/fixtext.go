package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/fixup"
)

// text tells a repair to a person: what was done, with which bytes, and what is
// left.
func (f *fixRun) text(w io.Writer) error {
	s := newStyle(w, f.color)
	var b strings.Builder
	b.WriteString(f.firstLine(s))
	if !f.quiet {
		if f.flags.dryRun || f.verbose {
			f.writePatches(&b, s)
		}
		f.writeRest(&b, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// firstLine says in a line what became of the core.
func (f *fixRun) firstLine(s *style) string {
	path := printable(coreName(f.path))
	if len(f.plan.Patches) == 0 {
		return fmt.Sprintf("%s: %s, and nothing was written\n", path, s.good.Sprint("nothing to repair"))
	}
	change := fmt.Sprintf("%s (%s)", changeText(f.plan), f.plan.Strategy)
	switch {
	case f.flags.dryRun:
		return fmt.Sprintf("%s: would be repaired by %s\n", path, change)
	case f.flags.patchOnly != "":
		return fmt.Sprintf("%s: plan written to %s: %s\n", path, printable(f.flags.patchOnly), change)
	case f.flags.inPlace:
		return fmt.Sprintf("%s: %s in place: %s\n", path, s.good.Sprint("repaired"), change)
	}
	return fmt.Sprintf("%s: %s to %s: %s, %s\n", path, s.good.Sprint("repaired"), printable(f.flags.output), change, methodText(f.result))
}

// changeText says how much a plan changes.
func changeText(p *fixup.Plan) string {
	n := len(p.Patches)
	if n == 1 {
		return "1 patch, " + bytesChanged(p)
	}
	return fmt.Sprintf("%d patches, %s", n, bytesChanged(p))
}

// undone says why there is no plan although the core misleads, or may do so where
// not all of it can be seen; empty where there is one or needs to be none.
func (f *fixRun) undone() string {
	errs := errorsOf(f.report.Report)
	switch {
	case len(f.plan.Patches) > 0:
	case len(errs) > 0:
		return fmt.Sprintf("misleading, and nothing of it can be repaired: %s", printable(errs[0].Summary))
	case f.report.Verdict == diagnose.Limited:
		return fmt.Sprintf("limited: nothing to repair was found, and nothing written, but not all could be seen: %s", printable(f.report.Process.Limits[0].Text))
	}
	return ""
}

func methodText(r fixup.Result) string {
	switch r.Method {
	case fixup.MethodReflink:
		return "sharing all other blocks (reflink)"
	case fixup.MethodSparseCopy:
		return fmt.Sprintf("%s copied, holes left out", diagnose.Bytes(uint64(r.BytesCopied)))
	}
	return fmt.Sprintf("%s copied", diagnose.Bytes(uint64(r.BytesCopied)))
}

// mostPatches is how many patches are listed without -v.
const mostPatches = 8

// writePatches lists a plan.
func (f *fixRun) writePatches(b *strings.Builder, s *style) {
	for i, x := range f.plan.Patches {
		if left := len(f.plan.Patches) - i; i == mostPatches && left > 1 && !f.verbose {
			fmt.Fprintf(b, "\n  and %d more, which -v lists\n", left)
			return
		}
		where := fmt.Sprintf("offset %#x", x.Offset)
		if x.Address != 0 {
			where = fmt.Sprintf("%s (%s)", x.Address, where)
		}
		fmt.Fprintf(b, "\n  %s: %s -> %s\n", where, hex.EncodeToString(x.Old), hex.EncodeToString(x.New))
		b.WriteString(s.wrap(x.Reason, "    "))
	}
}

// writeRest says what is left, and what to do next.
func (f *fixRun) writeRest(b *strings.Builder, s *style) {
	left := errorsOf(f.after)
	for i, x := range left {
		if i == mostAlike && !f.verbose {
			b.WriteString("\n" + s.wrap(fmt.Sprintf("and %d errors more, which -v lists", len(left)-i), "  "))
			break
		}
		b.WriteString("\n" + s.wrap(fmt.Sprintf("%s: %s", s.bad.Sprint("error remains"), x.Summary), "  ") + s.wrap(x.Detail, "  "))
	}
	if len(f.plan.Patches) == 0 {
		return
	}
	switch {
	case f.flags.inPlace:
		fmt.Fprintf(b, "\n  undo:  corethreads undo %s %s\n", shellQuote(f.undo), shellQuote(f.path))
	case f.flags.patchOnly != "":
		fmt.Fprintf(b, "\n  apply, where the core is:  corethreads apply %s %s -o %s\n", shellQuote(f.flags.patchOnly), shellQuote(f.path), shellQuote(fixedName(f.path)))
	case f.flags.dryRun:
		fmt.Fprintf(b, "\n  repair:  corethreads fix %s -o %s%s\n", coreWord(f.path), shellQuote(fixedName(f.path)),
			repairFlags(fixup.Options{Strategy: fixup.Strategy(f.plan.Strategy), All: f.flags.all}))
	case len(left) == 0:
		gdb := "gdb"
		if !slices.Contains(nativeArchs(), f.report.Core.Arch.Name) {
			gdb = "gdb-multiarch"
		}
		fmt.Fprintf(b, "\n  debug:  %s %s %s\n", gdb, shellQuote(f.report.program()), shellQuote(f.flags.output))
	}
}

// program is the program's file, where it is on this machine.
func (l *loaded) program() string {
	if m := l.modules.Executable(); m != nil && m.File != nil {
		return m.File.Path
	}
	return "PROGRAM"
}
