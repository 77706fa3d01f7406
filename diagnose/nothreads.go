package diagnose

import "github.com/corethreads/corethreads/nptl"

// noThreads says that the core does not tell which threads there were, so that
// no debugger can show them.
func noThreads(r *Report) []Finding {
	for _, l := range r.Process.Limits {
		if l.Kind == nptl.NoThreads {
			return []Finding{{
				ID:       NoThreads,
				Severity: Warning,
				Summary:  l.Text,
				Detail:   "Debuggers can show its memory, and no thread.",
			}}
		}
	}
	return nil
}
