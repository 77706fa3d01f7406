package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/module/debuginfod"
	"github.com/corethreads/corethreads/nptl"
)

// fileFlags say where the files of the dead process are on this machine.
type fileFlags struct {
	exe      string
	sysroots []string
	libDirs  []string
	maps     []string
	servers  string
}

// register adds the flags to all commands.
func (f *fileFlags) register(root *cobra.Command) {
	fl := root.PersistentFlags()
	fl.StringVar(&f.exe, "exe", "", "the program's file")
	fl.StringArrayVar(&f.sysroots, "sysroot", nil, "a folder with the file system of the process (repeatable)")
	fl.StringArrayVar(&f.libDirs, "lib-dir", nil, "a folder with libraries, searched by name and build-id (repeatable)")
	fl.StringArrayVar(&f.maps, "map", nil, "FROM=TO: paths that start with FROM in the core start with TO here (repeatable)")
	fl.StringVar(&f.servers, "debuginfod", "auto", "ask the servers in DEBUGINFOD_URLS for files that are not here: auto or never")
	for _, name := range []string{"sysroot", "lib-dir"} {
		if err := root.MarkPersistentFlagDirname(name); err != nil {
			panic(err) // only for a flag that does not exist
		}
	}
	if err := root.MarkPersistentFlagFilename("exe"); err != nil {
		panic(err) // only for a flag that does not exist
	}
}

// config turns the flags into a search order.
func (f *fileFlags) config() (module.Config, error) {
	cfg := module.Config{Exe: f.exe, LibDirs: f.libDirs, Sysroots: f.sysroots}
	if f.servers != "auto" && f.servers != "never" {
		return cfg, fmt.Errorf("--debuginfod is auto or never, not %q", f.servers)
	}
	for _, m := range f.maps {
		from, to, ok := strings.Cut(m, "=")
		if !ok || from == "" || to == "" {
			return cfg, fmt.Errorf("--map wants FROM=TO, two prefixes of paths, not %q", m)
		}
		cfg.PathMap = append(cfg.PathMap, module.PathMapping{From: from, To: to})
	}
	return cfg, nil
}

// load finds the modules of a core.
func (f *fileFlags) load(ctx context.Context, c *elfcore.Core) (*module.Set, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	for flag, dirs := range map[string][]string{"lib-dir": f.libDirs, "sysroot": f.sysroots} {
		for _, dir := range dirs {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return nil, fmt.Errorf("--%s: there is no folder %s", flag, dir)
			}
		}
	}
	if f.servers == "auto" {
		client, err := debuginfod.FromEnvironment()
		if err != nil {
			return nil, err
		}
		if client != nil {
			cfg.Remote = func(buildID, kind string) (string, error) { return client.Find(ctx, buildID, kind) }
		}
	}
	return module.Load(ctx, c, cfg)
}

// tellRejected says which of the files that the command line gives were not
// used.
func tellRejected(w io.Writer, set *module.Set) {
	for _, m := range set.Modules {
		for _, r := range m.Rejected {
			if strings.HasPrefix(r.How, "--") {
				fmt.Fprintf(w, "corethreads: warning: %s\n", printable(fmt.Sprintf("%s (%s) is not used for %s: %s", r.Path, r.How, m, r.Problem.Text)))
			}
		}
	}
}

// symbols are those of the process's libc for nptl, nil where its file is not
// here.
func symbols(set *module.Set) nptl.Symbols {
	db, err := set.ThreadDB()
	if err != nil {
		return nil
	}
	return libcSymbols{db}
}

// libcSymbols gives package nptl what package module found; neither knows the
// other.
type libcSymbols struct{ *module.ThreadDB }

// Field is the descriptor _thread_db_NAME.
func (s libcSymbols) Field(name string) (nptl.Field, bool) {
	f, ok := s.ThreadDB.Field(name)
	return nptl.Field(f), ok
}
