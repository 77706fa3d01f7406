package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/fixup"
)

// fixFlags are the flags of fix.
type fixFlags struct {
	output    string
	inPlace   bool
	dryRun    bool
	patchOnly string
	undo      string
	strategy  string
	all       bool
	force     bool
}

func newFix(g *globals) *cobra.Command {
	var f fixFlags
	cmd := &cobra.Command{
		Use:   "fix CORE {-o OUT | --in-place | --dry-run | --patch-only FILE}",
		Short: "Repair a core so that every debugger is right about it",
		Long: `fix decides the smallest edit that makes debuggers right about a core, and
writes a repaired copy, or with --in-place edits the core itself and leaves an
undo file beside it. Where nothing misleads, nothing is written.

Strategies for the handle of a thread that is gone:
  retire     (default) set its id to -1, glibc's mark of a joined thread: gdb
             7.9 and later pass over it. Four bytes; the lists and all evidence
             stay
  unlink     take it off its list: for gdb before 7.9, and where the descriptor
             is not in the core
  remap-tls  point its dtv at that of the thread that it stands for: gdb goes on
             to show the exited thread, with the right thread-locals
  expose     give it an id of its own: gdb shows the exited thread, without
             registers, and its thread-locals can be read
The handle of a living thread always gets its owner's id, a list that does not
close is closed, and a wrong thread pointer in the notes is corrected.

The copy shares its blocks with the core where the file system can (reflink),
else holes stay holes. It appears under its name only when it is complete.

Exit status: 0 when every error is gone or there was none, 1 when one remains in
what was written, 2 when nothing was written although there is something to
repair or may be: not all of a cut or filtered core can be seen.`,
		Example: `  corethreads fix core.123 -o core.123.fixed
  corethreads fix core.123 --dry-run
  corethreads fix core.123 --in-place
  corethreads undo core.123.undo.json core.123
  corethreads fix core.123 --patch-only plan.json
  corethreads apply plan.json core.123 -o core.123.fixed`,
		Args: wants("CORE"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := exactlyOne(cmd, "output", "in-place", "dry-run", "patch-only"); err != nil {
				return err
			}
			return undoGoesWithInPlace(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runFix(cmd, g, f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.output, "output", "o", "", "write the repaired core to this file")
	fl.BoolVar(&f.inPlace, "in-place", false, "edit the core itself, after writing an undo file")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show the plan and write nothing")
	fl.StringVar(&f.patchOnly, "patch-only", "", "write the plan to this file and leave the core alone")
	fl.StringVar(&f.undo, "undo", "", "name of the undo file of --in-place (default: CORE.undo.json)")
	fl.StringVar(&f.strategy, "strategy", string(fixup.Retire), "how to repair: retire, unlink, remap-tls or expose")
	fl.BoolVar(&f.all, "all", false, "repair every handle whose thread is gone, not only those that mislead")
	fl.BoolVar(&f.force, "force", false, "replace the file that -o names")
	cmd.MarkFlagsMutuallyExclusive("output", "in-place", "dry-run", "patch-only")
	cmd.MarkFlagsOneRequired("output", "in-place", "dry-run", "patch-only")
	var names []string
	for _, s := range fixup.Strategies() {
		names = append(names, string(s))
	}
	if err := cmd.RegisterFlagCompletionFunc("strategy", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // only for a flag that does not exist
	}
	return cmd
}

// runFix plans, writes and reports one repair.
func runFix(cmd *cobra.Command, g *globals, f fixFlags, path string) error {
	if f.output == "-" {
		return errors.New("-o wants the name of a file: a repaired core is checked and synced before it appears, which standard output cannot do")
	}
	strategy, err := fixup.ParseStrategy(f.strategy)
	if err != nil {
		return err
	}
	r, err := g.load(cmd, path)
	if err != nil {
		return err
	}
	defer r.close()
	if f.inPlace {
		if err := editable(path, r.Core); err != nil {
			return err
		}
	}
	fix := &fixRun{cmd: cmd, globals: g, flags: f, path: path, report: r, after: r.Report}
	options := fixup.Options{Strategy: strategy, All: f.all, StaticTLS: r.staticTLS}
	plan, err := fixup.Make(r.Report, options)
	if err != nil {
		return fix.refused(options, err)
	}
	fix.plan = plan
	if len(plan.Patches) > 0 {
		// The plan is tried before anything is written.
		if fix.after, err = fixup.Preview(r.Core, r.symbols, plan); err != nil {
			return withPath(path, err)
		}
		if err := fix.write(); err != nil {
			return err
		}
	}
	if why := fix.undone(); why != "" {
		if g.json {
			if err := fix.document(cmd.OutOrStdout()); err != nil {
				return err
			}
		}
		return withPath(path, errors.New(why))
	}
	if err := fix.tell(cmd.OutOrStdout()); err != nil {
		return err
	}
	if len(errorsOf(fix.after)) > 0 {
		return exit(exitFindings)
	}
	return nil
}

// fixRun is one repair on its way.
type fixRun struct {
	*globals
	cmd   *cobra.Command
	flags fixFlags
	path  string

	report *loaded
	after  *diagnose.Report // of the repaired core
	plan   *fixup.Plan
	result fixup.Result
	undo   string
}

// refused names the strategy that can work in an error that says which cannot,
// by the command line to give instead.
func (f *fixRun) refused(o fixup.Options, err error) error {
	err = withPath(f.path, err)
	refusal := new(fixup.Refusal)
	if !errors.As(err, &refusal) || refusal.Instead == "" {
		return err
	}
	o.Strategy = refusal.Instead
	return fmt.Errorf("%w\ntry: %s", err, f.commandLine(o))
}

// commandLine is this run with other options.
func (f *fixRun) commandLine(o fixup.Options) string {
	line := "corethreads fix " + coreWord(f.path)
	switch {
	case f.flags.inPlace:
		line += " --in-place"
		if f.flags.undo != "" {
			line += " --undo " + shellQuote(f.flags.undo)
		}
	case f.flags.dryRun:
		line += " --dry-run"
	case f.flags.patchOnly != "":
		line += " --patch-only " + shellQuote(f.flags.patchOnly)
	default:
		line += " -o " + shellQuote(f.flags.output)
	}
	return line + repairFlags(o)
}

// editable says why a core cannot be edited in place.
func editable(path string, c *elfcore.Core) error {
	switch {
	case path == "-":
		return errors.New("standard input cannot be edited in place; write the repaired core to a file with -o")
	case c.Compression != "":
		return fmt.Errorf("%s: is compressed (%s) and cannot be edited in place; write the repaired core to another file with -o", path, c.Compression)
	}
	return nil
}

// write carries the plan out, in the way that the flags ask for.
func (f *fixRun) write() error {
	f.result.Method = fixup.MethodNone
	bar := newProgress(f.cmd.ErrOrStderr(), f.progress)
	defer bar.done()
	opts := fixup.WriteOptions{Force: f.flags.force, Progress: func(done, total int64) {
		bar.show("copying "+filepath.Base(f.path), done, total, done)
	}}
	var err error
	switch {
	case f.flags.inPlace:
		f.undo = f.flags.undo
		if f.undo == "" {
			f.undo = f.path + undoSuffix
		}
		f.result, err = fixup.ApplyInPlace(f.cmd.Context(), f.path, f.undo, f.plan, opts)
	case f.flags.output != "":
		f.result, err = fixup.Apply(f.cmd.Context(), f.report.Core.File(), f.flags.output, f.plan, opts)
	case f.flags.patchOnly != "":
		err = f.plan.WriteFile(f.flags.patchOnly)
	}
	return err
}

// errorsOf are the findings that mislead.
func errorsOf(r *diagnose.Report) []diagnose.Finding {
	var out []diagnose.Finding
	for _, f := range r.Findings {
		if f.Severity == diagnose.Error {
			out = append(out, f)
		}
	}
	return out
}

// tell reports the repair, as a document or to a person.
func (f *fixRun) tell(w io.Writer) error {
	tellWarnings(f.cmd, f.result)
	if f.json {
		return f.document(w)
	}
	return f.text(w)
}

func (f *fixRun) document(w io.Writer) error {
	d := fixDocument{
		Schema:      "corethreads/fix/1",
		Input:       f.path,
		Strategy:    f.plan.Strategy,
		Method:      string(fixup.MethodNone),
		BytesCopied: f.result.BytesCopied,
		Undo:        orNull(f.undo),
		Patches:     list(f.plan.Patches),
		Remaining:   []findingDocument{},
		Warnings:    list(f.result.Warnings),
	}
	if f.result.Method != "" {
		d.Method = string(f.result.Method)
	}
	if len(f.plan.Patches) > 0 {
		d.Output, d.PatchFile = orNull(f.flags.output), orNull(f.flags.patchOnly)
		if f.flags.inPlace {
			d.Output = &f.path
		}
	}
	for _, x := range f.after.Findings {
		if x.Severity != diagnose.Note {
			d.Remaining = append(d.Remaining, newFindingDocument(x))
		}
	}
	return writeJSON(w, d)
}

// openPlan reads a plan, from standard input for "-".
func openPlan(cmd *cobra.Command, path string) (*fixup.Plan, error) {
	var plan *fixup.Plan
	var err error
	if path == "-" {
		plan, err = fixup.Read(cmd.InOrStdin())
	} else {
		plan, err = fixup.ReadFile(path)
	}
	var perr *os.PathError
	if err != nil && !errors.As(err, &perr) {
		return nil, withPath(path, err)
	}
	return plan, err
}
