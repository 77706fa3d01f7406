package diagnose

import "github.com/corethreads/corethreads/elfcore"

// Severity is how much a finding matters to who debugs the core.
type Severity string

const (
	// Error: a debugger will say something that is not so, or nothing at all.
	Error Severity = "error"
	// Warning: something is odd or missing, and what is shown can be less
	// than there was.
	Warning Severity = "warning"
	// Note: worth knowing.
	Note Severity = "note"
)

// ID names a kind of finding, for scripts.
type ID string

const (
	ShadowedThread       ID = "shadowed-thread"
	HandleIDMismatch     ID = "handle-id-mismatch"
	ListBroken           ID = "list-broken"
	PhantomThread        ID = "phantom-thread"
	ZombieHandle         ID = "zombie-handle"
	ThreadPointerBad     ID = "thread-pointer-bad"
	RegistersImplausible ID = "registers-implausible"
	ThreadWithoutHandle  ID = "thread-without-handle"
	CoreTruncated        ID = "core-truncated"
	CoreFiltered         ID = "core-filtered"
	NoThreads            ID = "no-threads"
	LibthreadDB          ID = "libthread-db"
	AbortMessage         ID = "abort-message"
	StackOverflow        ID = "stack-overflow"
	BadReturnAddress     ID = "bad-return-address"
	Locks                ID = "locks"
)

// Finding is one thing about a core that a person should know.
type Finding struct {
	ID       ID
	Severity Severity
	// Cause tells kinds of one finding apart; empty for those that have none.
	Cause string
	// Summary is one sentence, Detail what it rests on and what follows.
	Summary, Detail string
	// TIDs are the threads and Pthreads the handles that it is about.
	TIDs     []int
	Pthreads []elfcore.Addr
	// Fixable tells that package fixup has a repair for it.
	Fixable bool
}

// Verdict is the answer in one word.
type Verdict string

const (
	// Misleading: a debugger will show what is not so.
	Misleading Verdict = "misleading"
	// Limited: something that is needed could not be determined.
	Limited Verdict = "limited"
	// Warnings: nothing misleads, but something is missing or odd.
	Warnings Verdict = "warnings"
	// Healthy: debuggers are right about this core.
	Healthy Verdict = "healthy"
)
