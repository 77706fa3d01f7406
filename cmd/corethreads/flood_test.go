package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/fixup"
)

// TestFlood tells of thousands of findings and patches alike in a few lines, and
// of all with -v.
func TestFlood(t *testing.T) {
	const many = 5000
	report := &diagnose.Report{Verdict: diagnose.Warnings}
	plan := &fixup.Plan{Strategy: "retire"}
	for i := range many {
		report.Findings = append(report.Findings, diagnose.Finding{
			ID: diagnose.PhantomThread, Severity: diagnose.Warning,
			Summary: fmt.Sprintf("gdb will show a thread %d", i), Detail: "It is not there.",
		})
		plan.Patches = append(plan.Patches, fixup.Patch{Offset: int64(8 * i), Old: []byte{0}, New: []byte{1}, Reason: "it is gone"})
	}
	s := newStyle(nil, "never")
	for _, verbose := range []bool{false, true} {
		g := &globals{verbose: verbose}
		var findings, patches strings.Builder
		writeFindings(&findings, s, g, "core", report, "")
		(&fixRun{globals: g, plan: plan}).writePatches(&patches, s)
		for what, x := range map[string]struct{ text, each, rest string }{
			"findings": {findings.String(), "gdb will show a thread", "and 4997 more like these"},
			"patches":  {patches.String(), "it is gone", "and 4992 more"},
		} {
			told := strings.Count(x.text, x.each)
			if verbose && told != many || !verbose && (told > 10 || !strings.Contains(x.text, x.rest)) {
				t.Errorf("verbose %v: %d of %d %s are told: %.300s", verbose, told, many, what, x.text)
			}
		}
	}
}
