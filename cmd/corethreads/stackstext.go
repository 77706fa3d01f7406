package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/unwind"
)

const (
	// shownFrames is how many frames of a stack are shown at most where nobody
	// asked for a number; of a longer one, the last are the outermost.
	shownFrames    = 120
	shownOutermost = 20
	// shownThreads is how many ids of a group are listed.
	shownThreads = 12
)

// text shows the groups to a person.
func (v *stacksView) text(w io.Writer, s *style) error {
	var b strings.Builder
	what := "different stack"
	if len(v.groups) == 1 {
		what = "stack"
	}
	fmt.Fprintf(&b, "%s: %s, %s", printable(coreName(v.path)), plural(len(v.core.Threads), "thread"), plural(len(v.groups), what))
	if place := v.crashPlace(); place != "" {
		fmt.Fprintf(&b, "; %s", place)
	}
	b.WriteString("\n")
	if !v.globals.quiet {
		for _, g := range v.groups {
			b.WriteString("\n")
			v.group(&b, s, g)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// crashPlace says where the process died, in the first frame that is not the C
// library's: who called abort. It is empty where the core does not tell, or where
// the thread that died was not asked for.
func (v *stacksView) crashPlace() string {
	for _, g := range v.groups {
		if g.crashed && len(g.stack.Frames) > 0 {
			f := findCrash(v.core, v.modules, v.unwinder).frame
			return fmt.Sprintf("%s in thread %d in %s", v.core.Signal.Name(), v.core.Threads[g.threads[0]].TID, v.placed(f, &v.functions(f)[0]))
		}
	}
	return ""
}

func (v *stacksView) group(b *strings.Builder, s *style, g *stackGroup) {
	var who string
	switch n := len(g.threads); {
	case n == 1:
		who = fmt.Sprintf("thread %d", v.core.Threads[g.threads[0]].TID)
	default:
		who = fmt.Sprintf("%d threads", n)
		defer func() { b.WriteString(s.wrap(listIDs(v.core, g.threads, v.globals.verbose), "     ")) }()
	}
	if g.state != "" {
		who += fmt.Sprintf(" [%s]", g.state)
	}
	if g.crashed {
		fmt.Fprintf(b, "%s: %s\n", s.bad.Sprint(who), v.died())
	} else {
		fmt.Fprintf(b, "%s:\n", s.strong.Sprint(who))
	}
	v.frames(b, s, g)
	if !g.stack.Whole && g.stack.Stop != unwind.StopEnough {
		b.WriteString(s.wrap("stopped: "+g.stack.Stop, "     "))
	}
}

// listIDs lists threads, by default the first of them.
func listIDs(c *elfcore.Core, threads []int, all bool) string {
	more := len(threads) - shownThreads
	if all || more < 0 {
		more = 0
	}
	var out []string
	for _, t := range threads[:len(threads)-more] {
		out = append(out, fmt.Sprint(c.Threads[t].TID))
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, " ")
}

// died says what ended the process.
func (v *stacksView) died() string {
	out := "died here, " + v.core.Signal.Name()
	if v.core.Signal.Address != nil {
		out += fmt.Sprintf(" at address %s", *v.core.Signal.Address)
	}
	return out
}

// frames lists the frames of a group, numbered like gdb's: inlined functions
// count.
func (v *stacksView) frames(b *strings.Builder, s *style, g *stackGroup) {
	registers := v.registers(g)
	all := v.shown(&g.stack)
	n := len(all)
	from, to := n, n
	if v.flags.frames == 0 && n > shownFrames {
		from, to = shownFrames-shownOutermost, n-shownOutermost
	}
	for i := range all {
		if i == from {
			fmt.Fprintf(b, "     … %d more frames; --frames %d shows them …\n", to-from, n)
		}
		if i >= from && i < to {
			continue
		}
		f := g.stack.Frames[all[i].frame]
		v.line(b, s, i, f, all[i])
		if k := all[i].frame; k < len(registers) && (all[i].last || i == n-1) {
			v.details(b, s, f, registers[k])
		}
	}
}

func (v *stacksView) line(b *strings.Builder, s *style, number int, f unwind.Frame, fn shownFrame) {
	at := place{f.PC, f.Lookup(), f.Found, f.Signal, fn.function}
	text, known := v.texts[at]
	if !known {
		text = v.placed(f, fn.Function)
		if fn.Inlined {
			text += s.faint.Sprint(" (inlined)")
		}
		if f.Found == unwind.FromTailCall {
			text += s.faint.Sprint(" (tail call)")
		}
		if f.Found.Guessed() {
			text += s.warn.Sprintf(" (a guess by %s)", guesses[f.Found])
		}
		v.texts[at] = text
	}
	fmt.Fprintf(b, "%5s  %s\n", fmt.Sprintf("#%d", number), text)
	if f.BadReturn != nil && !fn.Inlined {
		b.WriteString(s.wrap(s.warn.Sprintf("its return address, %s, leads to no code", *f.BadReturn), "       "))
	}
}

// guesses say by what a frame was guessed.
var guesses = map[unwind.Found]string{
	unwind.FromTablesInside: "tables that hold at calls only",
	unwind.FromEntry:        "the return address of the last call",
	unwind.FromPrologue:     "the instructions at the function's start",
	unwind.FromPointer:      "the frame pointer",
	unwind.FromScan:         "a search of the stack",
}

// placed names a function with its place, as the flags want it.
func (v *stacksView) placed(f unwind.Frame, fn *unwind.Function) string {
	return printable(placed(f, fn, v.name(fn)))
}

// details are what -v adds to a frame.
func (v *stacksView) details(b *strings.Builder, s *style, f unwind.Frame, registers frameRegisters) {
	text := fmt.Sprintf("pc %s", f.PC)
	if f.CFA != 0 {
		text += fmt.Sprintf(", cfa %s", f.CFA)
	}
	var values []string
	for _, r := range registers {
		values = append(values, fmt.Sprintf("%s=%s", r.name, r.value))
	}
	fmt.Fprintf(b, "       %s\n", s.faint.Sprint(text+", by "+string(f.Found)))
	if len(values) > 0 { // a function that left by a jump has none
		b.WriteString(s.wrap(strings.Join(values, " "), "       "))
	}
}

// folded writes a line for each group as Brendan Gregg's stackcollapse scripts
// do: frames from the outermost inwards, separated by semicolons, and a count.
func (v *stacksView) folded(w io.Writer) error {
	var b strings.Builder
	for _, g := range v.groups {
		var names []string
		for _, x := range v.shown(&g.stack) {
			f := g.stack.Frames[x.frame]
			name := v.name(x.Function)
			switch {
			case f.Signal:
				name = "<signal handler called>"
			case name == "" && x.Module != nil:
				name = fmt.Sprintf("%s+%#x", x.ModuleName(), x.ModuleOffset)
			case name == "":
				name = f.PC.String()
			}
			names = append(names, printable(strings.ReplaceAll(name, ";", ":")))
		}
		slices.Reverse(names)
		fmt.Fprintf(&b, "%s %d\n", strings.Join(names, ";"), len(g.threads))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
