package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// globals are the flags that all commands have.
type globals struct {
	json     bool
	color    string
	progress string
	tempDir  string
	keep     bool
	quiet    bool
	verbose  bool
	files    fileFlags
}

func newRoot() *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:     "corethreads",
		Version: version(),
		Short:   "What the threads of a dead process were doing, from its core",
		Long: `corethreads reads the core of a Linux process and reconstructs glibc's thread
descriptors, without libthread_db and without the program's files. It says where
debuggers will be wrong about the core, and repairs it so that they are right.`,
		Example: `  corethreads check core.123
  corethreads fix core.123 -o core.123.fixed
  corethreads threads core.123`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchCommand,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return g.validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.BoolVar(&g.json, "json", false, "write one JSON document for each core")
	f.StringVar(&g.color, "color", "auto", "colour the output: auto, always or never")
	f.StringVar(&g.progress, "progress", "auto", "show progress on standard error: auto, always or never")
	f.StringVar(&g.tempDir, "tmp-dir", "", "unpack compressed cores into this folder (default: beside the core)")
	f.BoolVar(&g.keep, "keep", false, "keep the unpacked copy of a compressed core for the next call, and say where it is")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "say only the first line; of a table, nothing but the table")
	f.BoolVarP(&g.verbose, "verbose", "v", false, "say where each fact comes from")
	g.files.register(root)
	root.SuggestionsMinimumDistance = 2
	// Flags within the width of the texts above them.
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", textWidth)))
	when := cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp)
	for _, flag := range []string{"color", "progress"} {
		if err := root.RegisterFlagCompletionFunc(flag, when); err != nil {
			panic(err) // only for a flag that does not exist
		}
	}
	if err := root.MarkPersistentFlagDirname("tmp-dir"); err != nil {
		panic(err) // only for a flag that does not exist
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// What the words of a flag could not be read as says less than which
		// flag it was.
		var number *strconv.NumError
		if errors.As(err, &number) {
			text, _, _ := strings.Cut(err.Error(), ": strconv.")
			err = fmt.Errorf("%s: not a number, or too large", text)
		}
		if cmd.Name() == "debug" {
			err = fmt.Errorf("%w; arguments of the debugger stand behind --", err)
		}
		return fmt.Errorf("%w\ntry: %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newCheck(g), newFix(g), newApply(g), newUndo(g), newThreads(g), newModules(g), newTLS(g), newLocks(g), newDebug(g), newGDBScript(g), newStacks(g))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = knownTopic
		case "completion":
			cmd.Args = noSuchShell
			cmd.RunE = func(*cobra.Command, []string) error { return nil } // Args refuses all
		}
	}
	return root
}

// version is that of the module, as the Go toolchain recorded it in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

func (g *globals) validate() error {
	for flag, value := range map[string]string{"color": g.color, "progress": g.progress} {
		switch value {
		case "auto", "always", "never":
		default:
			return fmt.Errorf("--%s is auto, always or never, not %q", flag, value)
		}
	}
	if g.tempDir != "" && !isFolder(g.tempDir) {
		return fmt.Errorf("--tmp-dir: there is no folder %s", g.tempDir)
	}
	if g.quiet && g.verbose {
		return errors.New("-q (quiet) and -v (verbose) cannot be given together")
	}
	_, err := g.files.config()
	return err
}
