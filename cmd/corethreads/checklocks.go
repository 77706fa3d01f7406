package main

import (
	"fmt"
	"strings"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/locks"
)

// addLocks adds to a report what glibc said before it aborted, and one note
// about what locks would say.
func (l *loaded) addLocks() {
	r := locks.Analyze(l.Core, l.Process, l.modules)
	if r.AbortMessage != "" {
		l.Findings = append(l.Findings, diagnose.Finding{
			ID: diagnose.AbortMessage, Severity: diagnose.Note,
			Summary: "glibc aborted the process: " + r.AbortMessage,
		})
	}
	if len(r.Verdicts) == 0 {
		return
	}
	v := r.Verdicts[0]
	f := diagnose.Finding{
		ID: diagnose.Locks, Severity: diagnose.Note,
		Summary: fmt.Sprintf("%s [%s]: %s", v.ID, v.Confidence, v.Summary),
		Detail:  strings.Join(v.Evidence, "; "),
	}
	for _, t := range v.Threads {
		f.TIDs = append(f.TIDs, l.Core.Threads[t].TID)
	}
	l.Findings = append(l.Findings, f)
}
