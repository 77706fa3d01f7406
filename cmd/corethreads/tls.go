package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/tls"
)

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
libraries. A VAR is a name as in the symbol table or as in source, its last
parts (var, Class::var, ns::Class::var), or a pattern such as 'ns::*'. Where
several modules have a variable of the name, all are shown. With debug
information, a member of it can be asked for too: 'var.member', 'var->member'.

Without VAR it lists the modules with thread-local storage and where each
thread's block lies.

Exit status: 0, 1 when a VAR or the thread was not found, 2 for a core that
could not be read.`,
		Example: `  corethreads tls core.123 my_counter
  corethreads tls core.123 --exe ./server --lib-dir ./libs 'server::current_*'
  corethreads tls core.123 --thread 4711 my_counter
  corethreads tls core.123`,
		Args: wantsFirst("CORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := g.load(cmd, args[0])
			if err != nil {
				return coreFirst(cmd, args, err)
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

// coreFirst adds to an error that there is no core of the first name what to type
// where a later one is a file.
func coreFirst(cmd *cobra.Command, args []string, err error) error {
	i := slices.IndexFunc(args, isFile)
	if i < 1 || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	line := cmd.CommandPath() + " " + shellQuote(args[i])
	for _, name := range slices.Delete(slices.Clone(args), i, i+1) {
		line += " " + shellWord(name)
	}
	return usageError(cmd, "%w; the core comes first: %s", err, line)
}

// tlsRun is one call of tls.
type tlsRun struct {
	*loaded
	globals  *globals
	flags    tlsFlags
	resolver *tls.Resolver
	threads  []tls.Thread
	all      []tls.Variable
	found    []found
	// missing are the words of the command line that name nothing here, and
	// reasons why.
	missing, reasons []string
	// named tells that variables were asked for.
	named bool
}

// found is a variable with the name by which it was asked for.
type found struct {
	tls.Variable
	asked string
}

func runTLS(cmd *cobra.Command, g *globals, f tlsFlags, l *loaded, names []string) error {
	r := &tlsRun{loaded: l, globals: g, flags: f, resolver: tls.New(l.Core, l.Process, l.modules), named: len(names) > 0}
	r.all = r.resolver.Variables()
	r.choose(f.thread)
	for _, name := range names {
		r.find(name)
	}
	for _, text := range r.warnings() {
		fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: warning: %s\n", printable(text))
	}
	w := cmd.OutOrStdout()
	var err error
	switch s := newStyle(w, g.color); {
	case g.json:
		err = r.document(w)
	case len(r.threads) == 0:
	case r.named:
		err = r.writeValues(w, s)
	default:
		err = r.writeBlocks(w, s)
	}
	if err != nil {
		return err
	}
	for i, name := range r.missing {
		fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: %s: %s\n", printable(name), printable(r.reasons[i]))
	}
	if len(r.missing) > 0 {
		return exit(exitFindings)
	}
	return nil
}

// warnings are what makes the answer less than it could be, or less sure.
func (r *tlsRun) warnings() []string {
	out := slices.Clone(r.resolver.Warnings())
	for _, w := range r.modules.Warnings {
		m := w.Module
		if m == nil || m.File != nil && !m.File.Proof.Certain() && (m.TLS != nil || m.IsExecutable) {
			out = append(out, w.Text)
		}
	}
	return out
}

func (r *tlsRun) miss(word, why string) {
	r.missing = append(r.missing, word)
	r.reasons = append(r.reasons, why)
}

// find adds the variables of a name.
func (r *tlsRun) find(name string) {
	vars, err := r.resolver.Find(r.all, name)
	switch {
	case err != nil:
		r.miss(name, err.Error())
	case len(vars) == 0:
		r.miss(name, "no such thread-local variable: "+r.whyMissing(name))
	}
	for _, v := range vars {
		x := found{v, name}
		if tls.IsPattern(name) {
			x.asked = v.Name
		}
		r.found = append(r.found, x)
	}
}

// choose picks the threads to show: all, or those with an id or a descriptor.
func (r *tlsRun) choose(want string) {
	r.threads = r.resolver.Threads()
	if want == "" {
		return
	}
	id, err := strconv.ParseUint(want, 0, 64)
	r.threads = slices.DeleteFunc(slices.Clone(r.threads), func(t tls.Thread) bool {
		tid := r.tid(t)
		return err != nil || (tid == nil || uint64(*tid) != id) && (t.Pthread == 0 || uint64(t.Pthread) != id)
	})
	if len(r.threads) == 0 {
		r.miss(want, "no thread of the core has this id, and no handle this address; corethreads threads lists them")
	}
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
