package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/fixup"
	"github.com/corethreads/corethreads/internal/stream"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
	"github.com/corethreads/corethreads/tls"
)

// loaded is one core with all that is known of it.
type loaded struct {
	*diagnose.Report
	modules *module.Set
	symbols nptl.Symbols
	// thumb tells that bit 0 of a pointer to a function marks Thumb code.
	thumb bool
	// crash is where the process died, once it has been looked for.
	crash *crash
}

func (l *loaded) close() {
	l.modules.Close()
	l.Core.Close()
}

// load opens a core, finds its files and diagnoses it. The caller closes it.
func (g *globals) load(cmd *cobra.Command, path string) (*loaded, error) {
	o, err := g.loadModules(cmd, path)
	if err != nil {
		return nil, err
	}
	l := &loaded{modules: o.modules, symbols: symbols(o.modules), thumb: o.core.Arch.Name == "armhf"}
	l.Report = diagnose.Core(o.core, nptl.Read(o.core, l.symbols), diagnose.WithNames(l.symbol))
	return l, nil
}

// opened is one core with its files, for what needs no descriptors of threads.
type opened struct {
	core    *elfcore.Core
	modules *module.Set
}

func (o *opened) close() {
	o.modules.Close()
	o.core.Close()
}

// loadModules opens a core and finds its files. The caller closes it.
func (g *globals) loadModules(cmd *cobra.Command, path string) (*opened, error) {
	c, err := g.open(cmd, path)
	if err != nil {
		return nil, withPath(path, err)
	}
	set, err := g.files.load(cmd.Context(), c)
	if err != nil {
		c.Close()
		return nil, withPath(path, err)
	}
	tellRejected(cmd.ErrOrStderr(), set)
	return &opened{c, set}, nil
}

// staticTLS tells package fixup which modules have thread-locals beside each
// thread's descriptor.
func (l *loaded) staticTLS() ([]fixup.TLSModule, error) {
	resolver := tls.New(l.Core, l.Process, l.modules)
	if w := resolver.Warnings(); len(w) > 0 {
		return nil, errors.New(w[0])
	}
	var out []fixup.TLSModule
	for _, m := range resolver.Modules() {
		if m.Static {
			out = append(out, fixup.TLSModule{Name: m.String(), ID: m.ID, Generation: m.Generation})
		}
	}
	return out, nil
}

// open opens a core, and says where it was unpacked to.
func (g *globals) open(cmd *cobra.Command, path string) (*elfcore.Core, error) {
	bar := newProgress(cmd.ErrOrStderr(), g.progress)
	defer bar.done()
	opts := []elfcore.Option{
		elfcore.WithContext(cmd.Context()),
		elfcore.WithTempDir(g.tempDir),
		elfcore.WithProgress(func(read, total, unpacked int64) {
			bar.show("unpacking "+filepath.Base(path), read, total, unpacked)
		}),
	}
	if g.keep {
		opts = append(opts, elfcore.WithKeep())
	}
	var c *elfcore.Core
	var err error
	if path == "-" {
		c, err = elfcore.OpenReader(cmd.InOrStdin(), opts...)
	} else {
		c, err = elfcore.Open(path, opts...)
	}
	var taken *stream.KeptError
	if errors.As(err, &taken) && isFile(taken.Path) {
		return nil, fmt.Errorf("%w\ntry: %s", err, commandFor(cmd, path, taken.Path))
	}
	if err != nil {
		return nil, err
	}
	bar.done()
	if g.keep && c.Compression != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: the unpacked core is %s\n", c.Path)
	}
	return c, nil
}

// commandFor is the command line with another core, one that need not be unpacked.
func commandFor(cmd *cobra.Command, core, other string) string {
	line := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case f.Name == "keep" || f.Name == "tmp-dir":
			case f.Value.Type() == "bool" && v == "true":
				line += " --" + f.Name
			default:
				line += " " + shellWord("--"+f.Name+"="+v)
			}
		}
	})
	for i, arg := range cmd.Flags().Args() {
		if i == cmd.ArgsLenAtDash() {
			line += " --"
		}
		if arg == core {
			arg = fileWord(other)
		}
		line += " " + shellWord(arg)
	}
	return line
}

// eachCore runs a command for several cores, which it loads. One that fails does
// not keep the others from being looked at; the worst exit code wins.
func eachCore[T interface{ close() }](cmd *cobra.Command, paths []string, load func(*cobra.Command, string) (T, error), one func(w io.Writer, path string, l T) (int, error)) error {
	worst := exitDone
	for _, path := range paths {
		code := exitFailed
		l, err := load(cmd, path)
		if err == nil {
			code, err = one(cmd.OutOrStdout(), path, l)
			l.close()
		}
		if err != nil {
			if cmd.Context().Err() != nil || len(paths) == 1 {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: %s\n", plain(withPath(path, err)))
			code = exitFailed
		}
		worst = max(worst, code)
	}
	if worst != exitDone {
		return exit(worst)
	}
	return nil
}

// hasThread says so where a core does not have the thread that was asked for.
func hasThread(cmd *cobra.Command, c *elfcore.Core, path string, tid int) bool {
	if c.Thread(tid) != nil {
		return true
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: %s has no thread %d; corethreads threads lists them\n", printable(coreName(path)), tid)
	return false
}

// fixedName proposes a name for the repaired core: beside the core, or in the
// working directory where that cannot be written.
func fixedName(path string) string {
	dir, name := filepath.Split(path)
	for _, suffix := range []string{".zst", ".lz4", ".xz", ".gz", ".bz2"} {
		name = strings.TrimSuffix(name, suffix)
	}
	if name == "" || name == "-" {
		name = "core"
	}
	if !writable(filepath.Clean(dir)) {
		dir = ""
	}
	return filepath.Join(dir, name+".fixed")
}
