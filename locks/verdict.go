package locks

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// VerdictID names a kind of conclusion, for scripts.
type VerdictID string

const (
	DeadlockCycle     VerdictID = "deadlock-cycle"
	SelfDeadlock      VerdictID = "self-deadlock"
	OwnerExited       VerdictID = "owner-exited"
	OwnerInParent     VerdictID = "owner-in-parent"
	OwnerMissing      VerdictID = "owner-not-in-core"
	LoaderLockChain   VerdictID = "loader-lock-chain"
	CondvarABIMix     VerdictID = "condvar-abi-mix"
	PIWaitersBit      VerdictID = "pi-waiters-bit"
	PIWordOverwritten VerdictID = "pi-word-overwritten"
	PIOwnerDied       VerdictID = "pi-owner-died"
	RobustOwnerDied   VerdictID = "robust-owner-died"
	MisalignedFutex   VerdictID = "misaligned-futex"
	CondDestroyInUse  VerdictID = "cond-destroy-in-use"
)

// Confidence is how sure a verdict is.
type Confidence string

const (
	Certain Confidence = "certain"
	High    Confidence = "high"
	Medium  Confidence = "medium"
	Low     Confidence = "low"
)

func (c Confidence) rank() int {
	switch c {
	case Certain:
		return 0
	case High:
		return 1
	case Medium:
		return 2
	}
	return 3
}

// Verdict is what follows from the waits.
type Verdict struct {
	ID         VerdictID
	Confidence Confidence
	// Threads are the indices of the threads that it is about, in the order of
	// the chain or cycle; Objects what each of them waits for.
	Threads []int
	Objects []elfcore.Addr
	// Summary is one sentence, Explanation what happened in words for people
	// who do not know the C library, Remedy what to change; the last two can be
	// empty.
	Summary, Explanation, Remedy string
	// Evidence are the facts that it rests on, WeakPoints what could make it
	// wrong.
	Evidence, WeakPoints []string
}

func (v *Verdict) fact(format string, args ...any) {
	v.Evidence = append(v.Evidence, fmt.Sprintf(format, args...))
}

func (v *Verdict) doubt(format string, args ...any) {
	v.WeakPoints = append(v.WeakPoints, fmt.Sprintf(format, args...))
}

// lower makes a verdict less sure by one step.
func (v *Verdict) lower() {
	switch v.Confidence {
	case Certain:
		v.Confidence = High
	case High:
		v.Confidence = Medium
	default:
		v.Confidence = Low
	}
}

// judgeAll draws all conclusions.
func (a *analyzer) judgeAll() {
	g := a.graph()
	inCycle := make(map[int]bool)
	for _, v := range g.cycles() {
		for _, t := range v.Threads {
			inCycle[t] = true
		}
		a.report.Verdicts = append(a.report.Verdicts, v)
	}
	for _, find := range []func(*graph) []Verdict{a.loaderChains, a.abiMixes, a.inconsistentPI, a.deadPIOwners, a.robustDeaths, a.goneOwners, a.arenaSelf, a.condDestroys} {
		a.report.Verdicts = append(a.report.Verdicts, find(g)...)
	}
}
