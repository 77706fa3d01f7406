package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/locks"
	"github.com/corethreads/corethreads/unwind"
)

type locksDocument struct {
	Schema       string            `json:"schema"`
	Path         string            `json:"path"`
	AbortMessage *string           `json:"abort_message"`
	Waits        []waitDocument    `json:"waits"`
	Waking       []int             `json:"waking"`
	Verdicts     []verdictDocument `json:"verdicts"`
	Held         []heldDocument    `json:"held"`
	Limits       []string          `json:"limits"`
}

type waitDocument struct {
	TID        int            `json:"tid"`
	Kind       string         `json:"kind"`
	Address    *elfcore.Addr  `json:"address"`
	Symbol     *string        `json:"symbol"`
	Name       *string        `json:"name"`
	Mutex      *elfcore.Addr  `json:"mutex"`
	OwnerTID   *int           `json:"owner_tid"`
	OwnerState string         `json:"owner_state"`
	Timed      bool           `json:"timed"`
	Guess      bool           `json:"guess"`
	Futex      *futexDocument `json:"futex"`
	Evidence   []string       `json:"evidence"`
}

type futexDocument struct {
	Address elfcore.Addr `json:"address"`
	Op      uint32       `json:"op"`
	Value   uint32       `json:"value"`
}

type verdictDocument struct {
	ID          string   `json:"id"`
	Confidence  string   `json:"confidence"`
	TIDs        []int    `json:"tids"`
	Summary     string   `json:"summary"`
	Explanation *string  `json:"explanation"`
	Remedy      *string  `json:"remedy"`
	Evidence    []string `json:"evidence"`
	WeakPoints  []string `json:"weak_points"`
	// Frames are those of each thread, from the first that is not the C
	// library's; Constructors what the loader was running in each.
	Frames       [][]string `json:"frames"`
	Constructors []*string  `json:"constructors"`
}

type heldDocument struct {
	TID     int          `json:"tid"`
	Kind    string       `json:"kind"`
	Address elfcore.Addr `json:"address"`
	Symbol  *string      `json:"symbol"`
}

// locksFlags are the flags of locks.
type locksFlags struct {
	all     bool
	thread  int
	dot     bool
	held    bool
	explain string
}

// locksForms are flags of which each shows something else.
var locksForms = []string{"all", "thread", "dot", "held", "explain"}

func newLocks(g *globals) *cobra.Command {
	var f locksFlags
	cmd := &cobra.Command{
		Use:   "locks CORE...",
		Short: "Show who waits for what, who holds it, and deadlocks",
		Long: `locks tells what each blocked thread waits for: mutexes of every kind, condition
variables, read-write locks, semaphores, barriers, once, join, the locks of
FILEs and of malloc, the dynamic loader's, and other people's futexes. It names
the owners, and says in its first line whether there is a deadlock. The threads
in a verdict come first, then what most of the others wait for; with --json
threads stand in the core's order.

It needs nothing but the core. The files of the program and its libraries add
names.

Exit status: 0, 1 for a deadlock or an inconsistency, 2 for a core that could
not be read.`,
		Example: `  corethreads locks core.123
  corethreads locks core.123 --all
  corethreads locks core.123 --thread 4711
  corethreads locks core.123 --held
  corethreads locks core.123 --explain 0x7ff7462590a0
  corethreads locks core.123 --dot | dot -Tsvg > locks.svg`,
		Args: wants("CORE..."),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd, "thread"); err != nil {
				return err
			}
			if err := notTogether(cmd, "json", "dot"); err != nil {
				return err
			}
			return notTogether(cmd, locksForms...)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			object, err := f.address()
			if err != nil {
				return usageError(cmd, "%v", err)
			}
			first := true
			return eachCore(cmd, args, g.load, func(w io.Writer, path string, l *loaded) (int, error) {
				view := newLocksView(l, locks.Analyze(l.Core, l.Process, l.modules), g, f, path)
				if f.held {
					if err := view.findHeld(cmd); err != nil {
						return exitFailed, err
					}
				}
				if !first && !g.json && !g.quiet {
					fmt.Fprintln(w)
				}
				first = false
				style := newStyle(w, g.color)
				switch {
				case f.explain != "":
					return view.explain(w, cmd.ErrOrStderr(), style, object)
				case f.thread != 0 && !hasThread(cmd, l.Core, path, f.thread):
					return exitFindings, nil
				case g.json:
					return view.code(), writeJSON(w, view.document())
				case f.dot:
					return view.code(), view.dot(w)
				}
				return view.code(), view.text(w, style)
			})
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "a line for every blocked thread, equal ones not grouped")
	fl.IntVar(&f.thread, "thread", 0, "only this thread, with all evidence")
	fl.BoolVar(&f.dot, "dot", false, "write the graph of threads and locks for graphviz")
	fl.BoolVar(&f.held, "held", false, "list the mutexes that each thread holds, by a search of memory")
	fl.StringVar(&f.explain, "explain", "", "decode the object at this address (0x…) as each thing it could be")
	cmd.MarkFlagsMutuallyExclusive(locksForms...) // completion leaves the others out
	return cmd
}

// address is what --explain names, 0 without it.
func (f *locksFlags) address() (elfcore.Addr, error) {
	if f.explain == "" {
		return 0, nil
	}
	digits, ok := strings.CutPrefix(f.explain, "0x")
	at, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("--explain wants an address such as 0x7ff7462590a0, not %q", f.explain)
	}
	return elfcore.Addr(at), nil
}

// locksView is one report on its way to the reader.
type locksView struct {
	*loaded
	report  *locks.Report
	globals *globals
	flags   locksFlags
	path    string
	held    *locks.HeldMutexes // with --held
	// waits finds a thread's wait in the report.
	waits map[int]*locks.Wait
	// unwinder walks the stacks of threads in verdicts.
	unwinder *unwind.Unwinder
}

func newLocksView(l *loaded, r *locks.Report, g *globals, f locksFlags, path string) *locksView {
	v := &locksView{loaded: l, report: r, globals: g, flags: f, path: path, waits: make(map[int]*locks.Wait), unwinder: unwind.New(l.Core, l.modules)}
	for i := range r.Waits {
		v.waits[r.Waits[i].Thread] = &r.Waits[i]
	}
	return v
}

// code is the exit status: 1 where something is wrong.
func (v *locksView) code() int {
	if len(v.report.Verdicts) > 0 {
		return exitFindings
	}
	return exitDone
}

func (v *locksView) tids(threads []int) []int {
	out := []int{}
	for _, t := range threads {
		out = append(out, v.Core.Threads[t].TID)
	}
	return out
}

// symbol names an address by its symbol or file, empty for none.
func (v *locksView) symbol(a elfcore.Addr) string {
	if a == 0 {
		return ""
	}
	return locks.Symbol(v.modules, a)
}

func (v *locksView) document() locksDocument {
	d := locksDocument{
		Schema: "corethreads/locks/1", Path: v.path, AbortMessage: orNull(v.report.AbortMessage),
		Waits: []waitDocument{}, Waking: v.tids(v.report.Waking), Verdicts: []verdictDocument{}, Held: []heldDocument{}, Limits: list(v.report.Limits),
	}
	for i := range v.report.Waits {
		w := &v.report.Waits[i]
		tid := v.Core.Threads[w.Thread].TID
		if v.flags.thread != 0 && tid != v.flags.thread {
			continue
		}
		d.Waits = append(d.Waits, waitDocument{
			TID: tid, Kind: string(w.Kind), Address: orNull(w.Object), Symbol: orNull(v.symbol(w.Object)), Name: orNull(w.Name),
			Mutex: orNull(w.Mutex), OwnerTID: orNull(w.OwnerTID), OwnerState: string(w.OwnerState), Timed: w.Timed, Guess: w.Guess,
			Futex: &futexDocument{w.Futex.Address, w.Futex.Op, w.Futex.Value}, Evidence: list(w.Evidence()),
		})
	}
	if v.held != nil {
		for _, h := range v.held.Mutexes {
			d.Held = append(d.Held, heldDocument{TID: v.Core.Threads[h.Thread].TID, Kind: string(h.Kind), Address: h.Object, Symbol: orNull(v.symbol(h.Object))})
		}
	}
	for _, x := range v.report.Verdicts {
		y := verdictDocument{
			ID: string(x.ID), Confidence: string(x.Confidence), TIDs: v.tids(x.Threads), Summary: x.Summary,
			Explanation: orNull(x.Explanation), Remedy: orNull(x.Remedy), Evidence: list(x.Evidence), WeakPoints: list(x.WeakPoints),
			Frames: [][]string{}, Constructors: []*string{},
		}
		for _, t := range x.Threads {
			y.Frames = append(y.Frames, list(v.ownFrames(v.unwinder, t, verdictFrames)))
			y.Constructors = append(y.Constructors, orNull(v.constructor(v.unwinder, t)))
		}
		d.Verdicts = append(d.Verdicts, y)
	}
	return d
}
