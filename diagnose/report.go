package diagnose

import (
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// Report is what is to be said about one core.
type Report struct {
	Core     *elfcore.Core
	Process  *nptl.Process
	Debugger Debugger
	// Findings come in the order of severity, errors first.
	Findings []Finding
	Verdict  Verdict

	name func(elfcore.Addr) string
}

// Option changes what Core says.
type Option func(*Report)

// WithNames gives the names of routines, for sentences. Name is asked for an
// address of code, and gives an empty text for one that it does not know.
func WithNames(name func(elfcore.Addr) string) Option {
	return func(r *Report) { r.name = name }
}

// Core diagnoses a core. It does not fail: what cannot be told is in the report.
func Core(c *elfcore.Core, p *nptl.Process, opts ...Option) *Report {
	r := &Report{Core: c, Process: p, Debugger: model(c, p)}
	for _, o := range opts {
		o(r)
	}
	var all []Finding
	for _, find := range []func(*Report) []Finding{
		brokenLists, shadowedThreads, mismatchedIDs,
		phantoms, threadsWithoutHandle, badThreadPointers, implausibleRegisters, noThreads, truncated, filtered,
		zombies, stackOverflows, libthreadDB,
	} {
		all = append(all, find(r)...)
	}
	for _, s := range []Severity{Error, Warning, Note} {
		for _, f := range all {
			if f.Severity == s {
				r.Findings = append(r.Findings, f)
			}
		}
	}
	r.Verdict = r.verdict()
	return r
}

// verdict follows the order of the contract: an error misleads, whatever else
// could not be determined.
func (r *Report) verdict() Verdict {
	worst := Note
	for _, f := range r.Findings {
		if f.Severity == Error {
			return Misleading
		}
		if f.Severity == Warning {
			worst = Warning
		}
	}
	if len(r.Process.Limits) > 0 {
		return Limited
	}
	if worst == Warning {
		return Warnings
	}
	return Healthy
}

// Find gives the findings of a kind.
func (r *Report) Find(id ID) []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.ID == id {
			out = append(out, f)
		}
	}
	return out
}

// leader tells whether a thread is the one that the process id names, which
// people call main.
func (r *Report) leader(thread int) bool {
	return r.Core.Process != nil && r.Core.Threads[thread].TID == r.Core.Process.PID
}

// usesPthreads tells whether the process ever had glibc's threads.
func (r *Report) usesPthreads() bool {
	return r.Process.Libc.Kind == nptl.Glibc && len(r.Process.Lists) > 0
}
