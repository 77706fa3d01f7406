package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/diagnose"
)

func newCheck(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "check CORE...",
		Short: "Say whether debuggers will be right about a core, and why not",
		Long: `check says in its first line whether debuggers will be right about a core: that
is misleading, limited (something needed could not be determined), warnings, or
healthy. Then it says why, and how to repair it.

It needs nothing but the core, which may be compressed. It reads what the
threads need and no more: the size of the core does not matter.

Exit status: 0 for nothing that misleads, 1 for errors or warnings, 2 for a core
that could not be read.`,
		Example: `  corethreads check core.123
  corethreads check --json core.123 | jq .verdict
  corethreads check /var/lib/systemd/coredump/*.zst
  ssh host cat core | corethreads check -`,
		Args: wants("CORE..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			first := true
			return eachCore(cmd, args, g.load, func(w io.Writer, path string, r *loaded) (int, error) {
				r.addLocks()
				r.addCrash()
				code := exitDone
				for _, f := range r.Findings {
					if f.Severity != diagnose.Note {
						code = exitFindings
					}
				}
				if g.json {
					return code, writeJSON(w, newCheckDocument(path, r))
				}
				if !first && !g.quiet {
					if _, err := io.WriteString(w, "\n"); err != nil {
						return exitFailed, err
					}
				}
				first = false
				return code, writeCheck(w, newStyle(w, g.color), g, path, r)
			})
		},
	}
}
