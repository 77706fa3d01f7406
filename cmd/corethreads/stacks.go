package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/unwind"
)

type stacksDocument struct {
	Schema   string               `json:"schema"`
	Path     string               `json:"path"`
	CrashTID *int                 `json:"crash_tid"`
	Groups   []stackGroupDocument `json:"groups"`
}

type stackGroupDocument struct {
	TIDs    []int           `json:"tids"`
	Crashed bool            `json:"crashed"`
	State   *string         `json:"state"`
	Frames  []frameDocument `json:"frames"`
	Stop    string          `json:"stop"`
	Whole   bool            `json:"whole"`
}

type frameDocument struct {
	PC           elfcore.Addr            `json:"pc"`
	CFA          *elfcore.Addr           `json:"cfa"`
	Symbol       *string                 `json:"symbol"`
	Linkage      *string                 `json:"linkage_name"`
	Offset       *uint64                 `json:"offset"`
	Module       *string                 `json:"module"`
	ModuleOffset *elfcore.Addr           `json:"module_offset"`
	BuildID      *string                 `json:"build_id"`
	File         *string                 `json:"file"`
	Line         *int                    `json:"line"`
	Inlined      bool                    `json:"inlined"`
	Signal       bool                    `json:"signal"`
	Found        string                  `json:"found"`
	Guess        bool                    `json:"guess"`
	BadReturn    *elfcore.Addr           `json:"bad_return_address"`
	Registers    map[string]elfcore.Addr `json:"registers,omitempty"`
}

// stacksFlags are the flags of stacks.
type stacksFlags struct {
	all       bool
	thread    int
	frames    int
	fullNames bool
	noInline  bool
	folded    bool
}

func newStacks(g *globals) *cobra.Command {
	var f stacksFlags
	cmd := &cobra.Command{
		Use:   "stacks CORE...",
		Short: "Show what every thread was doing, equal stacks together",
		Long: `stacks walks the stacks of all threads, and shows equal ones once: the thread
that died first, then the largest group. In brackets is what the threads of a
group were doing: the system call that they waited in, or running.

It uses call-frame information (.eh_frame, .debug_frame, .ARM.exidx). Where a
function has none it goes on by the function's first instructions, the frame
pointer, then by a search of the stack, and marks the frames that it found so as
guesses. Debug information adds files, lines and inlined functions, and the
functions that left by a jump to another (a tail call), where there is only one
way that they can have gone. Frames around main are left out.

With -v it adds addresses, how each frame was found, and the registers.

Exit status: 0, 1 when the thread was not found, 2 for a core that could not be
read.`,
		Example: `  corethreads stacks core.123
  corethreads stacks core.123 --thread 4711 -v
  corethreads stacks core.123 --folded | flamegraph.pl > stacks.svg
  corethreads stacks core.123 --json | jq '.groups[0].frames[].symbol'`,
		Args: wants("CORE..."),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd, "thread", "frames"); err != nil {
				return err
			}
			return notTogether(cmd, "json", "folded")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			first := true
			return eachCore(cmd, args, g.loadModules, func(w io.Writer, path string, o *opened) (int, error) {
				if f.thread != 0 && !hasThread(cmd, o.core, path, f.thread) {
					return exitFindings, nil
				}
				v := newStacksView(o, g, f, path)
				for _, text := range v.warnings() {
					fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: warning: %s\n", printable(text))
				}
				switch {
				case g.json:
					return exitDone, writeJSON(w, v.document())
				case f.folded:
					return exitDone, v.folded(w)
				}
				if !first && !g.quiet {
					fmt.Fprintln(w)
				}
				first = false
				return exitDone, v.text(w, newStyle(w, g.color))
			})
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "every thread by itself, equal stacks not grouped")
	fl.IntVar(&f.thread, "thread", 0, "only this thread")
	fl.IntVar(&f.frames, "frames", 0, "no more than this many frames of each stack, inlined functions counted (default: all)")
	fl.BoolVar(&f.fullNames, "full-names", false, "names of C++ and Rust functions with their parameters")
	fl.BoolVar(&f.noInline, "no-inline", false, "leave inlined functions out")
	fl.BoolVar(&f.folded, "folded", false, "a line for each group, as flame-graph tools read it: frames, outermost first, and a count")
	return cmd
}

// stacksView is the stacks of one core on their way to the reader.
type stacksView struct {
	*opened
	unwinder *unwind.Unwinder
	globals  *globals
	flags    stacksFlags
	path     string
	groups   []*stackGroup
	// mains tells of code whether it is that of main; texts are frames in words,
	// which hundreds of stacks can have in common.
	mains map[elfcore.Addr]bool
	texts map[place]string
}

// place is one of the functions of a frame at one place of the code.
type place struct {
	pc, lookup elfcore.Addr
	found      unwind.Found
	signal     bool
	function   int
}

// stackGroup is threads with equal stacks.
type stackGroup struct {
	threads []int
	crashed bool
	state   string
	stack   unwind.Stack
}

// name gives a function as the flags want it, empty for unknown.
func (v *stacksView) name(f *unwind.Function) string {
	if v.flags.fullNames {
		return f.Signature()
	}
	return f.Demangled()
}

// functions are the functions of a frame, without the inlined ones where the
// flags say so.
func (v *stacksView) functions(f unwind.Frame) []unwind.Function {
	if v.flags.noInline {
		// Its place is in it: where it would have called what was inlined.
		all := v.unwinder.Functions(f)
		return all[len(all)-1:]
	}
	return frameFunctions(v.unwinder, f)
}

func (v *stacksView) document() stacksDocument {
	d := stacksDocument{Schema: "corethreads/stacks/1", Path: v.path, Groups: []stackGroupDocument{}}
	if t := v.core.CrashThread(); t != nil {
		d.CrashTID = &t.TID
	}
	for _, g := range v.groups {
		x := stackGroupDocument{Crashed: g.crashed, State: orNull(g.state), Frames: []frameDocument{}, Stop: g.stack.Stop, Whole: g.stack.Whole}
		for _, t := range g.threads {
			x.TIDs = append(x.TIDs, v.core.Threads[t].TID)
		}
		registers := v.registers(g)
		for _, f := range v.shown(&g.stack) {
			y := v.frame(g.stack.Frames[f.frame], f.Function)
			if f.frame < len(registers) {
				y.Registers = registers[f.frame].values()
			}
			x.Frames = append(x.Frames, y)
		}
		d.Groups = append(d.Groups, x)
	}
	return d
}

func (v *stacksView) frame(f unwind.Frame, fn *unwind.Function) frameDocument {
	d := frameDocument{
		PC: f.PC, CFA: orNull(f.CFA), Symbol: orNull(v.name(fn)), Linkage: orNull(fn.Name), File: orNull(fn.File), Line: orNull(fn.Line),
		Inlined: fn.Inlined, Signal: f.Signal, Found: string(f.Found), Guess: f.Found.Guessed(), BadReturn: f.BadReturn, Module: orNull(fn.ModuleName()),
	}
	if fn.HasOffset {
		d.Offset = &fn.Offset
	}
	if fn.Module != nil {
		d.BuildID = orNull(fn.Module.BuildID.String())
		if fn.Module.BiasKnown {
			at := elfcore.Addr(fn.ModuleOffset)
			d.ModuleOffset = &at
		}
	}
	return d
}
