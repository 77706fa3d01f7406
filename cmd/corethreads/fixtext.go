package main

import (
	"encoding/hex"
	"fmt"
	"io"
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
			writePatches(&b, s, f.plan)
		}
		f.writeRest(&b, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// firstLine says in a line what became of the core.
func (f *fixRun) firstLine(s *style) string {
	if len(f.plan.Patches) == 0 {
		return f.nothing(s)
	}
	n := 0
	for _, p := range f.plan.Patches {
		n += len(p.New)
	}
	change := fmt.Sprintf("%s, %d bytes", plural(len(f.plan.Patches), "patch"), n)
	if len(f.plan.Patches) != 1 {
		change = fmt.Sprintf("%d patches, %d bytes", len(f.plan.Patches), n)
	}
	switch {
	case f.flags.dryRun:
		return fmt.Sprintf("%s: would be repaired by %s (%s)\n", f.path, change, f.plan.Strategy)
	case f.flags.patchOnly != "":
		return fmt.Sprintf("%s: plan written to %s: %s (%s)\n", f.path, f.flags.patchOnly, change, f.plan.Strategy)
	case f.flags.inPlace:
		return fmt.Sprintf("%s: %s in place: %s (%s)\n", f.path, s.good.Sprint("repaired"), change, f.plan.Strategy)
	}
	return fmt.Sprintf("%s: %s to %s: %s (%s), by %s\n", f.path, s.good.Sprint("repaired"), f.flags.output, change, f.plan.Strategy, methodText(f.result))
}

func (f *fixRun) nothing(s *style) string {
	errs := errorsOf(f.report)
	switch {
	case len(errs) > 0:
		return fmt.Sprintf("%s: %s: nothing can be repaired: %s\n", f.path, s.bad.Sprint("misleading"), errs[0].Summary)
	case f.report.Verdict == diagnose.Limited:
		return fmt.Sprintf("%s: %s: nothing to repair was found, but not all could be seen: %s; nothing was written\n", f.path, s.warn.Sprint("limited"), f.report.Process.Limits[0].Text)
	}
	return fmt.Sprintf("%s: %s: nothing in it misleads a debugger; nothing was written\n", f.path, s.good.Sprint("nothing to repair"))
}

func methodText(r fixup.Result) string {
	switch r.Method {
	case fixup.MethodReflink:
		return "reflink, nothing was copied"
	case fixup.MethodSparseCopy:
		return fmt.Sprintf("sparse copy of %s", diagnose.Bytes(uint64(r.BytesCopied)))
	}
	return fmt.Sprintf("copy of %s", diagnose.Bytes(uint64(r.BytesCopied)))
}

// writePatches lists a plan.
func writePatches(b *strings.Builder, s *style, p *fixup.Plan) {
	for _, x := range p.Patches {
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
	for _, x := range left {
		b.WriteString("\n" + s.wrap(fmt.Sprintf("%s: %s", s.bad.Sprint("error remains"), x.Summary), "  ") + s.wrap(x.Detail, "  "))
	}
	if len(f.plan.Patches) == 0 {
		return
	}
	switch {
	case f.flags.inPlace:
		fmt.Fprintf(b, "\n  undo:    corethreads undo %s %s\n", shellQuote(f.undo), shellQuote(f.path))
	case f.flags.patchOnly != "":
		fmt.Fprintf(b, "\n  apply:   corethreads apply %s %s -o %s\n", shellQuote(f.flags.patchOnly), shellQuote(f.path), shellQuote(fixedName(f.path)))
	case f.flags.dryRun:
		fmt.Fprintf(b, "\n  repair:  corethreads fix %s -o %s%s\n", shellQuote(f.path), shellQuote(fixedName(f.path)), f.repeatFlags())
	default:
		if len(left) == 0 {
			fmt.Fprintf(b, "\n  debug:   gdb PROGRAM %s\n", shellQuote(f.flags.output))
		}
	}
}

// repeatFlags are the flags that a repair must have again.
func (f *fixRun) repeatFlags() string {
	var out string
	if f.plan.Strategy != string(fixup.Retire) {
		out += " --strategy " + f.plan.Strategy
	}
	if f.flags.all {
		out += " --all"
	}
	return out
}
