package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/fixup"
)

func newApply(g *globals) *cobra.Command {
	var output, undo string
	var inPlace, force bool
	cmd := &cobra.Command{
		Use:   "apply PLAN CORE {-o OUT | --in-place}",
		Short: "Carry out a plan that fix made elsewhere",
		Long: `apply carries out a plan that "fix --patch-only" has written, where the core is.
It checks every old byte first and refuses another core.

Exit status: 0 when the core is repaired, 2 when nothing was written.`,
		Example: `  corethreads fix --patch-only plan.json core.123
  corethreads apply plan.json core.123 -o core.123.fixed`,
		Args: wants("PLAN", "CORE"),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := exactlyOne(cmd, "output", "in-place"); err != nil {
				return err
			}
			return undoGoesWithInPlace(cmd)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := openPlan(cmd, args[0])
			if err != nil {
				return err
			}
			path := args[1]
			c, err := g.open(cmd, path)
			if err != nil {
				return withPath(path, err)
			}
			defer c.Close()
			bar := newProgress(cmd.ErrOrStderr(), g.progress)
			defer bar.done()
			opts := fixup.WriteOptions{Force: force, Progress: func(done, total int64) {
				bar.show("copying "+filepath.Base(path), done, total, done)
			}}
			var result fixup.Result
			if inPlace {
				if err := editable(path, c); err != nil {
					return err
				}
				if undo == "" {
					undo = path + undoSuffix
				}
				result, err = fixup.ApplyInPlace(cmd.Context(), path, undo, plan, opts)
			} else {
				result, err = fixup.Apply(cmd.Context(), c.File(), output, plan, opts)
			}
			if err != nil {
				return err
			}
			bar.done()
			return tellApplied(cmd, g, path, output, undo, plan, result)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "write the repaired core to this file")
	f.BoolVar(&inPlace, "in-place", false, "edit the core itself, after writing an undo file")
	f.StringVar(&undo, "undo", "", "name of the undo file of --in-place (default: CORE.undo.json)")
	f.BoolVar(&force, "force", false, "replace the file that -o names")
	cmd.MarkFlagsMutuallyExclusive("output", "in-place")
	cmd.MarkFlagsOneRequired("output", "in-place")
	return cmd
}

// undoSuffix makes the name of an undo file from that of its core.
const undoSuffix = ".undo.json"

// tellWarnings says what of a written core is not as it was.
func tellWarnings(cmd *cobra.Command, result fixup.Result) {
	for _, warning := range result.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: warning: %s\n", warning)
	}
}

// tellApplied reports what apply did, as fix would.
func tellApplied(cmd *cobra.Command, g *globals, path, output, undo string, plan *fixup.Plan, result fixup.Result) error {
	tellWarnings(cmd, result)
	w := cmd.OutOrStdout()
	if g.json {
		d := fixDocument{
			Schema: "corethreads/apply/1", Input: path, Output: orNull(output), Strategy: plan.Strategy,
			Method: string(result.Method), BytesCopied: result.BytesCopied, Undo: orNull(undo),
			Patches: list(plan.Patches), Remaining: []findingDocument{}, Warnings: list(result.Warnings),
		}
		if output == "" {
			d.Output = &path
		}
		return writeJSON(w, d)
	}
	s := newStyle(w, g.color)
	repaired := fmt.Sprintf("%s: %s", printable(coreName(path)), s.good.Sprint("repaired"))
	change := fmt.Sprintf("%s (%s)", changeText(plan), plan.Strategy)
	if output != "" {
		_, err := fmt.Fprintf(w, "%s to %s: %s, %s\n", repaired, printable(output), change, methodText(result))
		return err
	}
	text := fmt.Sprintf("%s in place: %s\n", repaired, change)
	if !g.quiet {
		text += fmt.Sprintf("\n  undo:  corethreads undo %s %s\n", shellQuote(undo), shellQuote(path))
	}
	_, err := io.WriteString(w, text)
	return err
}

func newUndo(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "undo PLAN CORE",
		Short: "Take a repair in place back, byte for byte",
		Long: `undo takes back what "fix --in-place" or "apply --in-place" has changed, by the
undo file that they left, and removes CORE.undo.json. It refuses a core that is
not the one, or that somebody has changed since.

Exit status: 0 when the core is as it was, 2 when it was left alone.`,
		Example: `  corethreads undo core.123.undo.json core.123`,
		Args:    wants("PLAN", "CORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			plan, err := openPlan(cmd, args[0])
			if err != nil {
				return err
			}
			path := args[1]
			result, err := fixup.Undo(cmd.Context(), plan, path, fixup.WriteOptions{})
			already := errors.Is(err, fixup.ErrAlreadyUndone)
			if err != nil && !already {
				return err
			}
			tellWarnings(cmd, result)
			// A plan of another name is somebody's own.
			if args[0] == path+undoSuffix {
				if err := os.Remove(args[0]); err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: warning: the undo file is of no more use, but could not be removed: %s\n", plain(err))
				}
			}
			w := cmd.OutOrStdout()
			if g.json {
				return writeJSON(w, fixDocument{
					Schema: "corethreads/undo/1", Input: path, Output: &path, Strategy: plan.Strategy, Method: string(result.Method),
					Patches: list(plan.Inverse().Patches), Remaining: []findingDocument{}, Warnings: list(result.Warnings),
				})
			}
			what := "is as it was before the repair"
			if already {
				what = "is as it was before the repair already; nothing was changed"
			}
			_, err = fmt.Fprintf(w, "%s: %s\n", printable(path), what)
			return err
		},
	}
}
