package main

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/tls"
)

type tlsDocument struct {
	Schema    string              `json:"schema"`
	Variables []variableDocument  `json:"variables"`
	Modules   []tlsModuleDocument `json:"modules"`
	NotFound  []string            `json:"not_found"`
	Warnings  []string            `json:"warnings"`
}

type variableDocument struct {
	// Name is what was asked for; the name as in source where nothing was.
	Name     string          `json:"name"`
	Source   string          `json:"source_name"`
	Linkage  string          `json:"linkage_name"`
	Module   string          `json:"module"`
	ModuleID *uint64         `json:"module_id"`
	Bound    bool            `json:"bound"`
	Offset   uint64          `json:"offset"`
	Size     uint64          `json:"size"`
	Type     *string         `json:"type"`
	Values   []valueDocument `json:"values"`
}

type valueDocument struct {
	TID     *int          `json:"tid"`
	Pthread *elfcore.Addr `json:"pthread"`
	State   string        `json:"state"`
	Address *elfcore.Addr `json:"address"`
	Status  string        `json:"status"`
	How     *string       `json:"how"`
	Reason  *string       `json:"reason"`
	Bytes   *string       `json:"bytes"`
	Value   *string       `json:"value"`
}

type tlsModuleDocument struct {
	Module   string          `json:"module"`
	ModuleID *uint64         `json:"module_id"`
	Static   bool            `json:"static"`
	Size     uint64          `json:"size"`
	Align    uint64          `json:"align"`
	From     string          `json:"source"`
	Blocks   []blockDocument `json:"blocks"`
}

type blockDocument struct {
	TID     *int          `json:"tid"`
	Pthread *elfcore.Addr `json:"pthread"`
	State   string        `json:"state"`
	Address *elfcore.Addr `json:"address"`
	Status  string        `json:"status"`
	Reason  *string       `json:"reason"`
}

// tlsFlags are the flags of tls.
type tlsFlags struct {
	thread string
	all    bool
	raw    bool
}

func newTLS(g *globals) *cobra.Command {
	var f tlsFlags
	cmd := &cobra.Command{
		Use:   "tls CORE [VAR...]",
		Short: "Show thread-local variables of every thread, exited ones included",
		Long: `tls gives the address and the value of thread-local variables for every thread,
and for every handle whose thread has exited, without libthread_db and without
debug information: names come from the symbol tables of the program and its
libraries. A VAR is a name as in the symbol table or as in source, its last parts
(var, Class::var, ns::Class::var), or a pattern such as 'ns::*'. Where several
modules have a variable of the name, all are shown. With debug information, a
member of it can be asked for too: 'var.member', 'var->member'.

Without VAR it lists the modules with thread-local storage and where each
thread's block lies.

Exit status: 0, 1 when a VAR or the thread was not found, 2 for a core that could
not be read.`,
		Example: `  corethreads tls core.123 my_counter
  corethreads tls core.123 --exe ./server --lib-dir ./libs 'server::current_*'
  corethreads tls core.123 --thread 4711 my_counter
  corethreads tls core.123`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := g.load(cmd, args[0])
			if err != nil {
				return err
			}
			defer l.close()
			return runTLS(cmd, g, f, l, args[1:])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.thread, "thread", "", "only this thread: its id, or the address of its descriptor (0x…)")
	fl.BoolVar(&f.all, "all", false, "a line for every thread, equal values not grouped")
	fl.BoolVar(&f.raw, "raw", false, "show the bytes as the core has them")
	return cmd
}

// tlsRun is one call of tls.
type tlsRun struct {
	*loaded
	globals  *globals
	flags    tlsFlags
	resolver *tls.Resolver
	threads  []tls.Thread
	found    []found
	missing  []string
}

// found is a variable with the name by which it was asked for.
type found struct {
	tls.Variable
	asked string
}

func runTLS(cmd *cobra.Command, g *globals, f tlsFlags, l *loaded, names []string) error {
	r := &tlsRun{loaded: l, globals: g, flags: f, resolver: tls.New(l.Core, l.Process, l.modules)}
	threads, err := r.choose(f.thread)
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: %v\n", err)
		return exit(exitFindings)
	}
	r.threads = threads
	all := r.resolver.Variables()
	for _, name := range names {
		vars, err := r.resolver.Find(all, name)
		if err != nil {
			return err
		}
		if len(vars) == 0 {
			r.missing = append(r.missing, name)
		}
		for _, v := range vars {
			x := found{v, name}
			if tls.IsPattern(name) {
				x.asked = v.Name
			}
			r.found = append(r.found, x)
		}
	}
	w := cmd.OutOrStdout()
	if g.json && len(names) == 0 {
		for _, v := range all {
			r.found = append(r.found, found{v, v.Name})
		}
	}
	if g.json {
		err = writeJSON(w, r.document())
	} else {
		err = r.text(w, newStyle(w, g.color), len(names) == 0)
	}
	if err != nil {
		return err
	}
	for _, name := range r.missing {
		fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: no thread-local variable %q: %s\n", name, r.whyMissing(all, name))
	}
	if len(r.missing) > 0 {
		return exit(exitFindings)
	}
	return nil
}

// choose picks the threads to show.
func (r *tlsRun) choose(want string) ([]tls.Thread, error) {
	all := r.resolver.Threads()
	if want == "" {
		return all, nil
	}
	var out []tls.Thread
	for _, t := range all {
		if t.LWP >= 0 && fmt.Sprint(r.Core.Threads[t.LWP].TID) == want || t.Pthread != 0 && t.Pthread.String() == want {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no thread or handle %s in this core; corethreads threads lists them", want)
	}
	return out, nil
}

// state is what has become of a thread.
func (r *tlsRun) state(t tls.Thread) string {
	switch {
	case t.Handle >= 0:
		return string(r.Process.Handles[t.Handle].State)
	case t.LWP >= 0:
		return string(nptl.Live)
	}
	return string(nptl.Zombie) // of musl, which keeps no handles
}

func (r *tlsRun) tid(t tls.Thread) *int {
	if t.LWP < 0 {
		return nil
	}
	return &r.Core.Threads[t.LWP].TID
}

func (r *tlsRun) document() tlsDocument {
	d := tlsDocument{
		Schema: "corethreads/tls/1", Variables: []variableDocument{}, Modules: []tlsModuleDocument{},
		NotFound: list(r.missing), Warnings: list(r.resolver.Warnings()),
	}
	for i := range r.found {
		v := &r.found[i]
		x := variableDocument{
			Name: v.asked, Source: v.Name, Linkage: v.Linkage, Type: orNull(v.Type), Module: v.Module.String(), ModuleID: orNull(v.Module.ID), Bound: v.Bound,
			Offset: v.Offset, Size: v.Size, Values: []valueDocument{},
		}
		for _, t := range r.threads {
			val := r.resolver.Value(t, &v.Variable)
			y := valueDocument{
				TID: r.tid(t), Pthread: orNull(t.Pthread), State: r.state(t), Address: orNull(val.Address),
				Status: string(val.Status), How: orNull(val.How), Reason: orNull(val.Why),
			}
			if val.Bytes != nil {
				digits, text := hex.EncodeToString(val.Bytes), r.resolver.Format(val.Bytes)
				y.Bytes, y.Value = &digits, &text
			}
			x.Values = append(x.Values, y)
		}
		d.Variables = append(d.Variables, x)
	}
	for _, m := range r.resolver.Modules() {
		x := tlsModuleDocument{Module: m.String(), ModuleID: orNull(m.ID), Static: m.Static, Size: m.Size, Align: m.Align, From: m.From, Blocks: []blockDocument{}}
		for _, t := range r.threads {
			b := r.resolver.Block(t, m)
			x.Blocks = append(x.Blocks, blockDocument{
				TID: r.tid(t), Pthread: orNull(t.Pthread), State: r.state(t), Address: orNull(b.Address), Status: string(b.Status), Reason: orNull(b.Why),
			})
		}
		d.Modules = append(d.Modules, x)
	}
	return d
}

// text draws tables for people.
func (r *tlsRun) text(w io.Writer, s *style, noNames bool) error {
	if noNames {
		return r.writeBlocks(w)
	}
	return r.writeValues(w, s)
}
