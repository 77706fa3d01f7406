package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// wants checks the arguments of a command: one for each name, and more of the
// last where it ends in "...".
func wants(names ...string) cobra.PositionalArgs {
	last := len(names) - 1
	kind, more := strings.CutSuffix(names[last], "...")
	names[last] = kind
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError(cmd, "%s wants %s", cmd.Name(), strings.Join(names, " and "))
		case len(args) > len(names) && !more:
			return usageError(cmd, "%s wants no more than %s, and was given %q too", cmd.Name(), strings.Join(names, " and "), args[len(names):])
		}
		return nil
	}
}

// wantsFirst checks that there is an argument of a kind; others may follow.
func wantsFirst(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError(cmd, "%s wants %s", cmd.Name(), name)
		}
		return nil
	}
}

// noSuchCommand refuses what stands where a command should.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usageError(cmd, "there is no command %q; did you mean %s?", args[0], orList(near))
	}
	if _, err := os.Stat(args[0]); err == nil {
		return usageError(cmd, "a command comes first: corethreads check %s", shellQuote(args[0]))
	}
	return usageError(cmd, "there is no command %q", args[0])
}

// knownTopic refuses help about what is no command.
func knownTopic(cmd *cobra.Command, args []string) error {
	if found, _, err := cmd.Root().Find(args); err != nil || found == cmd.Root() {
		return noSuchCommand(cmd.Root(), args)
	}
	return nil
}

// noSuchShell refuses what stands where the name of a shell should.
func noSuchShell(cmd *cobra.Command, args []string) error {
	var shells []string
	for _, shell := range cmd.Commands() {
		shells = append(shells, shell.Name())
	}
	if len(args) == 0 {
		return usageError(cmd, "completion wants a shell: %s", orList(shells))
	}
	return usageError(cmd, "there is no completion for %q, but for %s", args[0], andList(shells))
}

// positive checks numbers that were given by flags.
func positive(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		if n, err := strconv.Atoi(f.Value.String()); f.Changed && (err != nil || n < 1) {
			return usageError(cmd, "--%s wants a number from 1 on, not %s", name, f.Value)
		}
	}
	return nil
}

// notTogether checks that no more than one of several flags was given.
func notTogether(cmd *cobra.Command, flags ...string) error {
	var given []string
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return usageError(cmd, "%s cannot be given together", andList(given))
	}
	return nil
}

// exactlyOne checks that one of several flags was given, each of which says
// where the result goes.
func exactlyOne(cmd *cobra.Command, flags ...string) error {
	var all, given []string
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		text := "--" + name
		if f.Shorthand != "" {
			text = "-" + f.Shorthand
		}
		if f.Changed {
			if f.Value.String() == "" {
				return usageError(cmd, "%s wants the name of a file", text)
			}
			given = append(given, text)
		}
		if f.Value.Type() == "string" {
			text += " FILE"
		}
		all = append(all, text)
	}
	switch len(given) {
	case 0:
		return usageError(cmd, "%s wants one of %s", cmd.Name(), orList(all))
	case 1:
		return nil
	}
	return usageError(cmd, "%s cannot be given together", andList(given))
}

// undoGoesWithInPlace checks the flag --undo.
func undoGoesWithInPlace(cmd *cobra.Command) error {
	undo := cmd.Flags().Lookup("undo")
	switch {
	case !undo.Changed:
		return nil
	case undo.Value.String() == "":
		return usageError(cmd, "--undo wants the name of a file")
	case !cmd.Flags().Lookup("in-place").Changed:
		return usageError(cmd, "--undo names the undo file of --in-place, which was not given")
	}
	return nil
}

func usageError(cmd *cobra.Command, format string, args ...any) error {
	return fmt.Errorf("%w\ntry: %s --help", fmt.Errorf(format, args...), cmd.CommandPath())
}

func orList(words []string) string  { return joined(words, "or") }
func andList(words []string) string { return joined(words, "and") }

// joined is "a, b or c".
func joined(words []string, last string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}
