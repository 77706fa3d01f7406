package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp keeps every help text within 80 columns, and every example in it one
// that the command line takes.
func TestHelp(t *testing.T) {
	for _, cmd := range append(newRoot().Commands(), newRoot()) {
		_, flags, _ := strings.Cut(cmd.UsageString(), "Flags:\n")
		flags, _, _ = strings.Cut(flags, "\nUse ")
		if !strings.Contains(flags, "--lib-dir") {
			t.Errorf("%s --help lacks the flags that all commands have:\n%s", cmd.Name(), flags)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Short + "\n" + flags) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
				t.Errorf("%s --help: a line of %d columns: %s", cmd.Name(), n, line)
			}
		}
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		if cmd.Example == "" {
			t.Errorf("%s --help has no example", cmd.Name())
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s --help: the example is not indented: %s", cmd.Name(), line)
			}
			if strings.HasPrefix(line, "  (gdb) ") {
				continue
			}
			tried := false
			for part := range strings.SplitSeq(strings.ReplaceAll(line, "&&", "|"), "|") {
				if words := strings.Fields(part); words[0] == "corethreads" {
					tried = true
					if err := parse(newRoot(), words[1:]); err != nil {
						t.Errorf("%s --help: %s: %v", cmd.Name(), strings.TrimSpace(line), err)
					}
				}
			}
			if !tried {
				t.Errorf("%s --help: not a command line: %s", cmd.Name(), line)
			}
		}
	}
}

// parse does what a command does before it runs.
func parse(root *cobra.Command, words []string) error {
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if err := root.PersistentPreRunE(cmd, nil); err != nil {
		return err
	}
	if cmd.PreRunE != nil {
		if err := cmd.PreRunE(cmd, nil); err != nil {
			return err
		}
	}
	return cmd.ValidateFlagGroups()
}
