package main

import (
	"fmt"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/unwind"
)

// crashDocument is the frame in which the process died.
type crashDocument struct {
	TID          int           `json:"tid"`
	PC           elfcore.Addr  `json:"pc"`
	Symbol       *string       `json:"symbol"`
	Offset       *uint64       `json:"offset"`
	Module       *string       `json:"module"`
	ModuleOffset *elfcore.Addr `json:"module_offset"`
	Guess        bool          `json:"guess"`
}

func (l *loaded) crashDocument() *crashDocument {
	c := l.crash
	if c == nil {
		return nil
	}
	d := &crashDocument{
		TID: l.Core.Threads[c.thread].TID, PC: c.frame.PC, Symbol: orNull(c.function.Demangled()),
		Module: orNull(c.function.ModuleName()), Guess: c.frame.Found.Guessed(),
	}
	if c.function.HasOffset {
		d.Offset = &c.function.Offset
	}
	if c.function.Module != nil && c.function.Module.BiasKnown {
		at := elfcore.Addr(c.function.ModuleOffset)
		d.ModuleOffset = &at
	}
	return d
}

// addCrash finds where the process died, and notes a return address that was
// written over. The program changing stacks, as Go's does, leaves one as well.
func (l *loaded) addCrash() {
	l.crash = findCrash(l.Core, l.modules, unwind.New(l.Core, l.modules))
	if l.crash == nil || l.crash.bad == nil || l.Process.Libc.Kind == nptl.NoLibc || l.Core.Signal.Number == sigABRT {
		return
	}
	tid := l.Core.Threads[l.crash.thread].TID
	l.Findings = append(l.Findings, diagnose.Finding{
		ID: diagnose.BadReturnAddress, Severity: diagnose.Note,
		Summary: fmt.Sprintf("the stack of thread %d has been written over: a return address, %s, leads to no code", tid, *l.crash.bad),
		Detail:  "What debuggers show behind that frame is not what called it. corethreads stacks marks its guesses.",
		TIDs:    []int{tid},
	})
}

// sigABRT is the signal of abort(), which is no proof of a damaged stack.
const sigABRT = 6
