package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/fixup"
)

// debugFlags are the flags of debug.
type debugFlags struct {
	debugger string
	inPlace  bool
	print    bool
}

func newDebug(g *globals) *cobra.Command {
	var f debugFlags
	cmd := &cobra.Command{
		Use:   "debug CORE [-- DEBUGGER-ARGUMENT...]",
		Short: "Start gdb or lldb on a core so that it is right about it",
		Long: `debug starts a debugger on a core. Where the core misleads debuggers, it is
repaired first, in a temporary copy that shares its blocks with the core where
the file system can (reflink) and keeps its holes where not; the copy has no
name and is gone when the debugger ends, however that happens. With --in-place
the core itself is repaired, and restored afterwards. A core that misleads
nobody is debugged as it is.

The debugger is told where the program, its libraries and their debug files are,
as far as they were found and proved to be the right ones, and is kept from
taking others. gdb also gets the functions of gdb-script: $tls("NAME") works
where there is no libthread_db. lldb gets the command tls NAME THREAD.

What follows -- is handed to the debugger.

Exit status: that of the debugger; 2 where it was not started.`,
		Example: `  corethreads debug core.123
  corethreads debug core.123.zst --sysroot /srv/rootfs -- -batch -ex 'thread apply all bt'
  corethreads debug core.123 --debugger lldb-19
  corethreads debug core.123 --print`,
		Args: wants("CORE..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash < 0 && len(args) > 1 || dash > 1 {
				return usageError(cmd, "debug wants one core; arguments of the debugger stand behind --")
			} else if dash == 0 {
				return usageError(cmd, "debug wants CORE in front of --")
			}
			return runDebug(cmd, g, f, args[0], args[1:])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.debugger, "debugger", "gdb", "gdb, lldb, or the path of one")
	fl.BoolVar(&f.inPlace, "in-place", false, "repair the core itself, and restore it afterwards, instead of a copy")
	fl.BoolVar(&f.print, "print", false, "print the commands and start nothing")
	if err := cmd.RegisterFlagCompletionFunc("debugger", cobra.FixedCompletions([]string{"gdb", "lldb"}, cobra.ShellCompDirectiveDefault)); err != nil {
		panic(err) // only for a flag that does not exist
	}
	return cmd
}

// debugRun is one call of debug.
type debugRun struct {
	*loaded
	cmd     *cobra.Command
	globals *globals
	flags   debugFlags
	path    string
	extra   []string
	program debuggerProgram
	files   debugFiles
	// plan is the repair, nil where nothing misleads.
	plan *fixup.Plan
}

func runDebug(cmd *cobra.Command, g *globals, f debugFlags, path string, extra []string) error {
	l, err := g.load(cmd, path)
	if err != nil {
		return err
	}
	defer l.close()
	r := &debugRun{loaded: l, cmd: cmd, globals: g, flags: f, path: path, extra: extra}
	if f.inPlace && l.Core.Path != path {
		return fmt.Errorf("%s cannot be repaired in place, since it is not a plain file; without --in-place a copy is", coreName(path))
	}
	if f.print && path == "-" {
		return errors.New("--print wants a core in a file: its commands each read it")
	}
	if r.program, err = findDebugger(f.debugger, l.Core.Arch); err != nil {
		return err
	}
	r.files = findDebugFiles(l.modules, &g.files)
	if l.Core.NotesCut {
		r.files.warnings = append(r.files.warnings, "the core is cut inside its notes, and a debugger may refuse it: corethreads threads and stacks show what is left")
	}
	if err := r.makePlan(); err != nil {
		return withPath(path, err)
	}
	for _, warning := range r.files.warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: warning: %s\n", warning)
	}
	if f.print {
		_, err := io.WriteString(cmd.OutOrStdout(), r.commands())
		return err
	}
	return r.run()
}

// makePlan decides the repair. An error that no repair takes away is no reason
// not to look at the core.
func (r *debugRun) makePlan() error {
	if len(errorsOf(r.Report)) == 0 {
		return nil
	}
	plan, err := fixup.Make(r.Report, fixup.Options{})
	var refused *fixup.Refusal
	if errors.As(err, &refused) {
		plan, err = fixup.Make(r.Report, fixup.Options{Strategy: refused.Instead})
	}
	if errors.As(err, &refused) || err == nil && len(plan.Patches) == 0 {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "corethreads: warning: %s misleads the debugger, and cannot be repaired: %s\n", coreName(r.path), errorsOf(r.Report)[0].Summary)
		return nil
	}
	if err == nil {
		r.plan = plan
	}
	return err
}

// run repairs, runs the debugger, and cleans up.
func (r *debugRun) run() (err error) {
	script, err := r.script()
	if err != nil {
		return err
	}
	defer script.close()
	core, cleanUp, err := r.prepare()
	if err != nil {
		return withPath(r.path, err)
	}
	defer func() { err = errors.Join(err, cleanUp()) }()
	program := exec.Command(r.program.path, r.arguments(core, script.path())...)
	program.Stdin, program.Stdout, program.Stderr = r.cmd.InOrStdin(), r.cmd.OutOrStdout(), r.cmd.ErrOrStderr()
	return runDebugger(program)
}

func (r *debugRun) arguments(core, script string) []string {
	if r.program.lldb {
		return lldbArguments(core, script, &r.files, r.extra)
	}
	return gdbArguments(core, script, r.loaded, &r.files, r.extra)
}

// script gives the debugger what it cannot find by itself, in a file without a
// name.
func (r *debugRun) script() (*nameless, error) {
	s, err := newNameless("", ".corethreads-script-*")
	if err != nil {
		return nil, err
	}
	if r.program.lldb {
		err = writeLLDBCommands(s.file, r.loaded)
	} else {
		fmt.Fprint(s.file, gdbPython)
		err = writeGDBFunctions(s.file, coreName(r.path), r.loaded)
		fmt.Fprint(s.file, "end\n")
	}
	if err != nil {
		s.close()
	}
	return s, err
}

// prepare gives the core that the debugger is to see, and what undoes all that
// was done for it.
func (r *debugRun) prepare() (core string, cleanUp func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case r.plan == nil && r.Core.Path != "":
		return absolute(r.Core.Path), nothing, nil
	case r.flags.inPlace:
		return r.repairInPlace()
	case r.Core.Path == "":
		// It was unpacked for this run alone, and is the copy.
		if r.plan != nil {
			for _, p := range r.plan.Patches {
				if _, err := r.Core.File().WriteAt(p.New, p.Offset); err != nil {
					return "", nil, err
				}
			}
		}
		path := openPath(r.Core.File())
		_, err := os.Stat(path)
		return path, nothing, err
	}
	copied, method, err := r.repairedCopy()
	if err != nil {
		return "", nil, err
	}
	r.say("debugging a repaired copy of it (%s)", method)
	return copied.path(), func() error { copied.close(); return nil }, nil
}

// repairInPlace edits the core, and restores it when the debugger has ended,
// also where a signal has asked us to end.
func (r *debugRun) repairInPlace() (string, func() error, error) {
	undo := r.path + ".undo.json"
	res, err := fixup.ApplyInPlace(r.cmd.Context(), r.path, undo, r.plan, fixup.WriteOptions{})
	for _, warning := range res.Warnings {
		fmt.Fprintf(r.cmd.ErrOrStderr(), "corethreads: warning: %s\n", warning)
	}
	if err != nil {
		return "", nil, err
	}
	r.say("repaired in place until the debugger ends")
	return absolute(r.path), func() error {
		ctx := context.WithoutCancel(r.cmd.Context())
		if _, err := fixup.Undo(ctx, r.plan, r.path, fixup.WriteOptions{}); err != nil {
			return fmt.Errorf("the repair could not be taken back: %w\nlater: corethreads undo %s %s", err, shellQuote(undo), shellQuote(r.path))
		}
		return os.Remove(undo)
	}, nil
}

// say tells what was done about a core that misleads.
func (r *debugRun) say(format string, args ...any) {
	if r.globals.quiet {
		return
	}
	fmt.Fprintf(r.cmd.ErrOrStderr(), "corethreads: %s: misleading: %s; %s\n", coreName(r.path), errorsOf(r.Report)[0].Summary, fmt.Sprintf(format, args...))
}

// runDebugger runs the program to its end, whatever signals come: those of the
// terminal reach it by themselves, and those that ask us to end are handed on.
func runDebugger(program *exec.Cmd) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := program.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				program.Process.Signal(s)
			}
		case err := <-ended:
			var failed *exec.ExitError
			switch {
			case !errors.As(err, &failed):
				return err
			case failed.ExitCode() >= 0:
				return exit(failed.ExitCode())
			}
			return fmt.Errorf("%s: %w", program.Path, err)
		}
	}
}

// commands are the same steps for a shell, one a line.
func (r *debugRun) commands() string {
	var b strings.Builder
	original := fileWord(r.path)
	core := original
	line := func(words ...string) {
		for i, word := range words {
			words[i] = shellWord(word)
		}
		b.WriteString(strings.Join(words, " ") + "\n")
	}
	switch {
	case r.plan != nil && r.flags.inPlace:
		line("corethreads", "fix", "--in-place", original)
	case r.plan != nil:
		core = fileWord(fixedName(r.path))
		line("corethreads", "fix", original, "-o", core)
	case r.Core.Path == "":
		core = fileWord(strings.TrimSuffix(fixedName(r.path), ".fixed") + ".unpacked")
		fmt.Fprintf(&b, "(umask 077 && %s %s >%s)\n", unpackers[r.Core.Compression], shellWord(original), shellWord(core))
	}
	script := ""
	if !r.program.lldb {
		script = core + ".gdb"
		line(append([]string{"corethreads", "gdb-script", original, "-o", script}, r.globals.files.words()...)...)
	}
	line(append([]string{r.program.path}, r.arguments(core, script)...)...)
	if r.plan != nil && r.flags.inPlace {
		line("corethreads", "undo", original+undoSuffix, original)
	}
	return b.String()
}

// unpackers are the programs that unpack a core for --print.
var unpackers = map[string]string{
	"zstd": "zstd -dc --long=31", "lz4": "lz4 -dc", "xz": "xz -dc", "gzip": "gzip -dc", "bzip2": "bzip2 -dc",
}

// words gives the flags as they can be given again.
func (f *fileFlags) words() []string {
	var out []string
	add := func(flag string, values ...string) {
		for _, v := range values {
			if v != "" {
				out = append(out, "--"+flag+"="+v)
			}
		}
	}
	add("exe", f.exe)
	add("sysroot", f.sysroots...)
	add("lib-dir", f.libDirs...)
	add("map", f.maps...)
	return out
}
