package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/fixup"
	"github.com/corethreads/corethreads/nptl"
)

// The types in this file are the JSON documents of the command line's contract:
// addresses are strings, what is not known is null.

type coreDocument struct {
	Path         string          `json:"path"`
	Size         int64           `json:"size"`
	Arch         string          `json:"arch"`
	Class        int             `json:"class"`
	ByteOrder    string          `json:"byte_order"`
	Compression  *string         `json:"compression"`
	Producer     string          `json:"producer"`
	Truncated    bool            `json:"truncated"`
	MissingBytes int64           `json:"missing_bytes"`
	NotesCut     bool            `json:"notes_cut"`
	PID          *int            `json:"pid"`
	Command      *string         `json:"command"`
	CrashTID     *int            `json:"crash_tid"`
	Signal       *signalDocument `json:"signal"`
	Kernel       *string         `json:"kernel"`
	Warnings     []string        `json:"warnings"`
}

type signalDocument struct {
	Number  int           `json:"number"`
	Name    string        `json:"name"`
	Code    *int          `json:"code"`
	Address *elfcore.Addr `json:"address"`
	Sender  *int          `json:"sender_pid"`
}

type libcDocument struct {
	Kind          string  `json:"kind"`
	Version       *string `json:"version"`
	VersionMin    *string `json:"version_min"`
	VersionMax    *string `json:"version_max"`
	VersionSource *string `json:"version_source"`
	Layout        string  `json:"layout"`
}

type listDocument struct {
	Kind    string       `json:"kind"`
	Head    elfcore.Addr `json:"head"`
	Found   string       `json:"found_in"`
	Why     string       `json:"why"`
	End     string       `json:"end"`
	Handles int          `json:"handles"`
}

type debuggerDocument struct {
	ThreadDebugging bool              `json:"thread_debugging"`
	Reason          *string           `json:"reason"`
	Phantoms        []phantomDocument `json:"phantoms"`
}

type phantomDocument struct {
	TID     int          `json:"tid"`
	Pthread elfcore.Addr `json:"pthread"`
}

type threadDocument struct {
	TID           int           `json:"tid"`
	Crashed       bool          `json:"crashed"`
	ThreadPointer *elfcore.Addr `json:"thread_pointer"`
	PointerSource string        `json:"thread_pointer_source"`
	Pthread       *elfcore.Addr `json:"pthread"`
	PthreadSource *string       `json:"pthread_source"`
	GDBPthread    *elfcore.Addr `json:"gdb_pthread"`
	PC            *elfcore.Addr `json:"pc"`
	SP            *elfcore.Addr `json:"sp"`
}

type handleDocument struct {
	Pthread        elfcore.Addr   `json:"pthread"`
	List           *string        `json:"list"`
	Position       *int           `json:"position"`
	TID            int            `json:"tid"`
	State          string         `json:"state"`
	OwnerTID       *int           `json:"owner_tid"`
	ReportedTID    int            `json:"reported_tid"`
	Shadows        *int           `json:"shadows"`
	Detached       *bool          `json:"detached"`
	CancelHandling uint32         `json:"cancelhandling"`
	Stack          *stackDocument `json:"stack"`
	UserStack      *bool          `json:"user_stack"`
	StartRoutine   *elfcore.Addr  `json:"start_routine"`
	StartSymbol    *string        `json:"start_symbol"`
}

type stackDocument struct {
	Start elfcore.Addr `json:"start"`
	End   elfcore.Addr `json:"end"`
	Guard uint64       `json:"guard"`
}

type findingDocument struct {
	ID       string         `json:"id"`
	Severity string         `json:"severity"`
	Cause    string         `json:"cause,omitempty"`
	Summary  string         `json:"summary"`
	Detail   string         `json:"detail"`
	TIDs     []int          `json:"tids"`
	Pthreads []elfcore.Addr `json:"pthreads"`
	Fixable  bool           `json:"fixable"`
}

type checkDocument struct {
	Schema   string            `json:"schema"`
	Verdict  string            `json:"verdict"`
	Core     coreDocument      `json:"core"`
	Libc     libcDocument      `json:"libc"`
	Lists    []listDocument    `json:"lists"`
	Debugger debuggerDocument  `json:"debugger"`
	Threads  []threadDocument  `json:"threads"`
	Handles  []handleDocument  `json:"handles"`
	Limits   []string          `json:"limits"`
	Findings []findingDocument `json:"findings"`
	// Crash is null where the core does not tell which thread died.
	Crash *crashDocument `json:"crash"`
}

type threadsDocument struct {
	Schema  string           `json:"schema"`
	Core    coreDocument     `json:"core"`
	Libc    libcDocument     `json:"libc"`
	Lists   []listDocument   `json:"lists"`
	Threads []threadDocument `json:"threads"`
	Handles []handleDocument `json:"handles"`
	Limits  []string         `json:"limits"`
}

// writeJSON writes one document on a line of its own.
func writeJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(document)
}

// orNull gives a pointer to a value, nil for the zero value that stands for
// "not known".
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// list makes an empty JSON array of what would be null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func newCheckDocument(path string, r *loaded) checkDocument {
	d := checkDocument{
		Schema:  "corethreads/check/1",
		Verdict: string(r.Verdict),
		Core:    newCoreDocument(path, r.Core),
		Libc:    newLibcDocument(r.Process),
		Lists:   newListDocuments(r.Process),
		Debugger: debuggerDocument{
			ThreadDebugging: r.Debugger.ThreadDebugging,
			Reason:          orNull(r.Debugger.Reason),
			Phantoms:        []phantomDocument{},
		},
		Threads:  newThreadDocuments(r.Report),
		Handles:  newHandleDocuments(r),
		Limits:   newLimits(r.Process),
		Findings: []findingDocument{},
		Crash:    r.crashDocument(),
	}
	for _, p := range r.Debugger.Phantoms {
		d.Debugger.Phantoms = append(d.Debugger.Phantoms, phantomDocument{p.TID, r.Process.Handles[p.Handle].Pthread})
	}
	for _, f := range r.Findings {
		d.Findings = append(d.Findings, newFindingDocument(f))
	}
	return d
}

func newThreadsDocument(path string, r *loaded) threadsDocument {
	return threadsDocument{
		Schema:  "corethreads/threads/1",
		Core:    newCoreDocument(path, r.Core),
		Libc:    newLibcDocument(r.Process),
		Lists:   newListDocuments(r.Process),
		Threads: newThreadDocuments(r.Report),
		Handles: newHandleDocuments(r),
		Limits:  newLimits(r.Process),
	}
}

func newCoreDocument(path string, c *elfcore.Core) coreDocument {
	d := coreDocument{
		Path:         path,
		Size:         c.Size,
		Arch:         c.Arch.Name,
		Class:        8 * c.Arch.WordSize(),
		ByteOrder:    "little",
		Compression:  orNull(c.Compression),
		Producer:     string(c.Producer),
		Truncated:    c.Truncated(),
		MissingBytes: c.MissingBytes,
		NotesCut:     c.NotesCut,
		Kernel:       orNull(c.Kernel),
		Warnings:     []string{},
	}
	if c.ByteOrder.String() == "BigEndian" {
		d.ByteOrder = "big"
	}
	if c.Process != nil {
		pid, command := c.Process.PID, c.Process.Command()
		d.PID, d.Command = &pid, &command
	}
	if t := c.CrashThread(); t != nil {
		d.CrashTID = &t.TID
	}
	if s := c.Signal; s != nil {
		d.Signal = &signalDocument{Number: s.Number, Name: s.Name(), Code: s.Code, Address: s.Address, Sender: s.Sender}
	}
	for _, w := range c.Warnings {
		d.Warnings = append(d.Warnings, w.String())
	}
	return d
}

func newLibcDocument(p *nptl.Process) libcDocument {
	d := libcDocument{Kind: string(p.Libc.Kind), Layout: "none", VersionSource: orNull(p.Libc.Source)}
	if p.Found {
		d.Layout = p.Layout.Source
	}
	version := func(minor int) *string {
		if minor == 0 {
			return nil
		}
		s := nptl.VersionString(minor)
		return &s
	}
	d.VersionMin, d.VersionMax = version(p.Libc.Min), version(p.Libc.Max)
	d.Version = version(p.Libc.Version)
	return d
}

func newListDocuments(p *nptl.Process) []listDocument {
	out := []listDocument{}
	for _, l := range p.Lists {
		out = append(out, listDocument{
			Kind: l.Kind.String(), Head: l.Head, Found: l.Place, Why: l.Why,
			End: l.End.String(), Handles: len(l.Nodes),
		})
	}
	return out
}

func newLimits(p *nptl.Process) []string {
	out := []string{}
	for _, l := range p.Limits {
		out = append(out, l.Text)
	}
	return out
}

func newThreadDocuments(r *diagnose.Report) []threadDocument {
	out := make([]threadDocument, 0, len(r.Core.Threads))
	crashed := r.Core.CrashThread()
	for i := range r.Core.Threads {
		t := &r.Core.Threads[i]
		d := threadDocument{TID: t.TID, Crashed: t == crashed, PointerSource: string(nptl.FromNowhere)}
		if pc, ok := t.PC(); ok {
			d.PC = &pc
		}
		if sp, ok := t.SP(); ok {
			d.SP = &sp
		}
		n := r.Process.Threads[i]
		d.Pthread = orNull(n.Pthread)
		if n.PointerSource != nptl.FromNowhere {
			d.ThreadPointer, d.PointerSource = &n.Pointer, string(n.PointerSource)
		}
		if n.Handle >= 0 {
			d.PthreadSource = orNull(r.Process.Handles[n.Handle].OwnerSource)
		} else if n.Pthread != 0 {
			source := "thread pointer"
			d.PthreadSource = &source
		}
		if h := r.Debugger.Handle[i]; h >= 0 {
			d.GDBPthread = &r.Process.Handles[h].Pthread
		}
		out = append(out, d)
	}
	return out
}

func newHandleDocuments(r *loaded) []handleDocument {
	out := make([]handleDocument, 0, len(r.Process.Handles))
	for i, h := range r.Process.Handles {
		d := handleDocument{
			Pthread:        h.Pthread,
			TID:            h.TID,
			State:          string(h.State),
			ReportedTID:    r.Debugger.Reported[i],
			Detached:       h.Detached,
			CancelHandling: h.CancelHandling,
			UserStack:      h.UserStack,
			StartRoutine:   h.StartRoutine,
		}
		if h.StartRoutine != nil {
			if sym, offset, ok := r.modules.Symbolize(*h.StartRoutine); ok {
				name := fmt.Sprintf("%s+%#x", sym.Demangled(), offset)
				d.StartSymbol = &name
			}
		}
		if h.List == nptl.StackUser || h.List == nptl.StackUsed {
			name := h.List.String()
			d.List = &name
		}
		if h.Position >= 0 {
			position := h.Position
			d.Position = &position
		}
		if h.Owner >= 0 {
			d.OwnerTID = &r.Core.Threads[h.Owner].TID
		}
		if t := r.Debugger.Shadows[i]; t >= 0 {
			d.Shadows = &r.Core.Threads[t].TID
		}
		if h.Stack != nil {
			d.Stack = &stackDocument{Start: h.Stack.Start, End: h.Stack.End, Guard: h.Stack.Guard}
		}
		out = append(out, d)
	}
	return out
}

func newFindingDocument(f diagnose.Finding) findingDocument {
	return findingDocument{
		ID: string(f.ID), Severity: string(f.Severity), Cause: f.Cause,
		Summary: f.Summary, Detail: f.Detail,
		TIDs: list(f.TIDs), Pthreads: list(f.Pthreads), Fixable: f.Fixable,
	}
}

type fixDocument struct {
	Schema      string            `json:"schema"`
	Input       string            `json:"input"`
	Output      *string           `json:"output"`
	Strategy    string            `json:"strategy"`
	Method      string            `json:"method"`
	BytesCopied int64             `json:"bytes_copied"`
	Undo        *string           `json:"undo"`
	PatchFile   *string           `json:"patch_file"`
	Patches     []fixup.Patch     `json:"patches"`
	Remaining   []findingDocument `json:"remaining"`
	Warnings    []string          `json:"warnings"`
}
