package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/tls"
)

// gdbFunctions is the part of a script that gdb's Python runs; the data that it
// works on is different for each core.
//
//go:embed gdbscript.py
var gdbFunctions string

// gdbPython begins what gdb's Python runs: the modules that gdbFunctions needs.
const gdbPython = "python\nimport gdb\nimport json\nimport re\n\n"

// gdbData is what gdbFunctions works on.
type gdbData struct {
	Core      string        `json:"core"`
	Threads   []gdbThread   `json:"threads"`
	Modules   []gdbModule   `json:"modules"`
	Variables []gdbVariable `json:"variables"`
	Notes     []string      `json:"notes"`
	Files     []gdbFile     `json:"files"`
}

type gdbThread struct {
	TID     *int          `json:"tid"`
	Pthread *elfcore.Addr `json:"pthread"`
	State   string        `json:"state"`
	Start   *string       `json:"start"`
}

type gdbModule struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Blocks has, for each thread, the address of its block or, in words, why
	// there is none.
	Blocks []string `json:"blocks"`
}

// gdbFile is a file whose symbols gdb should have.
type gdbFile struct {
	Path    string `json:"path"`
	Program bool   `json:"program"`
	// Load is the command by which gdb takes the symbols to where the file was
	// mapped; Text is where its code then begins.
	Load string       `json:"load"`
	Text elfcore.Addr `json:"text"`
}

type gdbVariable struct {
	Linkage string `json:"linkage"`
	Name    string `json:"name"`
	Module  int    `json:"module"`
	Offset  uint64 `json:"offset"`
	Size    uint64 `json:"size"`
	Bound   bool   `json:"bound"`
}

func newGDBScript(g *globals) *cobra.Command {
	var output string
	var force bool
	cmd := &cobra.Command{
		Use:   "gdb-script CORE [-o FILE]",
		Short: "Write a gdb script with what gdb cannot find by itself",
		Long: `gdb-script writes a script for gdb 9 and later (with Python) that needs no other
file of ours and no libthread_db. It tells gdb where the program and its
libraries are, loads the core unless one is loaded, and adds

  $tls("NAME")                 a thread-local variable of the selected thread
  $tls_of("THREAD", "NAME")    of another thread: its id, or the address of its
                               descriptor, also of a thread that has exited
  info corethreads             the threads, those that have exited included

The addresses are computed here and stand in the script. A variable has its type
where gdb knows that, else it is shown as a number of its size. The script fits
the core and its repaired copies.`,
		Example: `  corethreads gdb-script core.123 -o core.123.gdb && gdb -x core.123.gdb
  (gdb) thread apply all print $tls("current_request")
  (gdb) print $tls_of("0x7f8f3113d6c0", "current_request")`,
		Args: wants("CORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := g.load(cmd, args[0])
			if err != nil {
				return err
			}
			defer l.close()
			files := findDebugFiles(l.modules, &g.files)
			for _, warning := range files.warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: warning: %s\n", warning)
			}
			script, err := gdbScript(args[0], l, &files)
			if err != nil {
				return err
			}
			if output != "" && output != "-" {
				if err := writeNew(output, script, l.Core.File(), force); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.ErrOrStderr(), "corethreads: now: gdb -x %s\n", shellQuote(output))
				return err
			}
			_, err = cmd.OutOrStdout().Write(script)
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the script to this file (default: standard output)")
	cmd.Flags().BoolVar(&force, "force", false, "replace the file that -o names")
	return cmd
}

// gdbScript makes the script of a core.
func gdbScript(path string, l *loaded, files *debugFiles) ([]byte, error) {
	var b bytes.Buffer
	name := coreName(path)
	fmt.Fprintf(&b, "# For gdb 9 and later. Made by corethreads from %q: the addresses in it fit no other core.\n", name)
	for _, s := range files.gdbSettings(l) {
		fmt.Fprintln(&b, s)
	}
	b.WriteString(gdbPython)
	writeGDBLoad(&b, l.Core, files)
	b.WriteString("\n")
	if err := writeGDBFunctions(&b, name, l); err != nil {
		return nil, err
	}
	b.WriteString("end\n")
	return b.Bytes(), nil
}

// writeGDBLoad has gdb load the program and the core, unless it has: that is
// when the script is read in a session.
func writeGDBLoad(w io.Writer, c *elfcore.Core, files *debugFiles) {
	if files.exe != "" {
		fmt.Fprintf(w, "if gdb.current_progspace().filename is None:\n    gdb.execute(%s)\n", pyString("file "+gdbQuote(files.exe)))
	}
	core := absolute(c.Path)
	if c.Path == "" {
		fmt.Fprintf(w, "if gdb.selected_inferior().pid == 0:\n    gdb.write(%s)\n",
			pyString("corethreads: load the unpacked core now, with core-file: the one that this script was made from was packed, and gdb cannot read it\n"))
		return
	}
	// From gdb 16 on a file name can be quoted here, and must be.
	fmt.Fprintf(w, "if gdb.selected_inferior().pid == 0:\n    quoted = int(gdb.VERSION.split(\".\")[0]) >= 16\n    gdb.execute(%s if quoted else %s)\n",
		pyString("core-file "+gdbQuote(core)), pyString("core-file "+core))
}

// writeGDBFunctions gives gdb the functions, and the data of one core.
func writeGDBFunctions(w io.Writer, name string, l *loaded) error {
	data, err := json.MarshalIndent(newGDBData(name, l), "", " ")
	if err != nil {
		return err
	}
	// Inside JSON's strings, nothing of Python's then has a meaning.
	_, err = fmt.Fprintf(w, "%s\ncorethreads(json.loads(r'''%s'''))\n", gdbFunctions, strings.ReplaceAll(string(data), "'", `\u0027`))
	return err
}

// newGDBData finds every variable of every thread. Modules without a variable
// that has a name are left out.
func newGDBData(name string, l *loaded) gdbData {
	resolver := tls.New(l.Core, l.Process, l.modules)
	d := gdbData{Core: name, Threads: []gdbThread{}, Modules: []gdbModule{}, Variables: []gdbVariable{}, Notes: []string{}, Files: gdbFiles(l.modules)}
	threads := resolver.Threads()
	for _, t := range threads {
		d.Threads = append(d.Threads, newGDBThread(l, t))
	}
	index := make(map[*tls.Module]int)
	for _, v := range resolver.Variables() {
		i, ok := index[v.Module]
		if !ok {
			i = len(d.Modules)
			index[v.Module] = i
			d.Modules = append(d.Modules, newGDBModule(resolver, threads, v.Module))
		}
		d.Variables = append(d.Variables, gdbVariable{Linkage: v.Linkage, Name: v.Name, Module: i, Offset: v.Offset, Size: v.Size, Bound: v.Bound})
	}
	for _, f := range errorsOf(l.Report) {
		d.Notes = append(d.Notes, "Without a repair, "+f.Summary+".")
	}
	return d
}

// gdbFiles are the files that were proved and have a section of code.
func gdbFiles(set *module.Set) []gdbFile {
	out := []gdbFile{}
	for _, m := range set.Modules {
		if m.File == nil || !m.File.Proof.Certain() || m.IsVDSO || !m.BiasKnown || m.Original != nil {
			continue
		}
		path := absolute(m.File.Path)
		f := gdbFile{Path: path, Program: m.IsExecutable}
		if f.Program {
			f.Load = fmt.Sprintf("symbol-file -o %s %s", m.Bias, gdbQuote(path))
		} else {
			f.Load = fmt.Sprintf("add-symbol-file %s -o %s", gdbQuote(path), m.Bias)
		}
		for _, s := range m.File.Sections {
			if s.Name == ".text" {
				f.Text = m.Bias + elfcore.Addr(s.Addr)
				out = append(out, f)
				break
			}
		}
	}
	return out
}

func newGDBThread(l *loaded, t tls.Thread) gdbThread {
	x := gdbThread{Pthread: orNull(t.Pthread), State: (&tlsRun{loaded: l}).state(t)}
	if t.LWP >= 0 {
		x.TID = &l.Core.Threads[t.LWP].TID
	}
	if t.Handle >= 0 {
		x.Start = orNull(l.startedAt(l.Process.Handles[t.Handle]))
	}
	return x
}

func newGDBModule(r *tls.Resolver, threads []tls.Thread, m *tls.Module) gdbModule {
	x := gdbModule{Name: m.String(), File: m.String(), Blocks: []string{}}
	if m.Module != nil && m.File != nil {
		x.File = m.File.Path
	}
	for _, t := range threads {
		b := r.Block(t, m)
		text := b.Address.String()
		if b.Status != tls.OK {
			text = fmt.Sprintf("%s (%s)", b.Status, b.Why)
		}
		x.Blocks = append(x.Blocks, text)
	}
	return x
}

// gdbSettings are the commands that gdb must have seen before it loads the core.
func (d *debugFiles) gdbSettings(l *loaded) []string {
	var out []string
	if d.sysroot != "" {
		out = append(out, "set sysroot "+d.sysroot)
	}
	if len(d.libDirs) > 0 {
		out = append(out, "set solib-search-path "+joinPaths(d.libDirs))
	}
	if len(d.debugDirs) > 0 {
		out = append(out, "set debug-file-directory "+joinPaths(append(d.debugDirs[:len(d.debugDirs):len(d.debugDirs)], usualDebugDir)))
	}
	if native := nativeArchs(); d.threadDB != "" && len(native) > 0 && native[0] == l.Core.Arch.Name {
		// $sdir and $pdir are where gdb looks by itself.
		out = append(out, "add-auto-load-safe-path "+d.threadDB, "set libthread-db-search-path "+d.threadDB+":$sdir:$pdir")
	}
	return out
}

func joinPaths(dirs []string) string { return strings.Join(dirs, string(filepath.ListSeparator)) }

// gdbQuote makes one word of a gdb command (gdb_buildargv of libiberty).
func gdbQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// pyString makes a literal of Python, of which those of JSON are a part.
func pyString(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // no string cannot be written
	}
	return string(b)
}
