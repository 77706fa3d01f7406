package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

type modulesDocument struct {
	Schema   string           `json:"schema"`
	Path     string           `json:"path"`
	Modules  []moduleDocument `json:"modules"`
	Warnings []string         `json:"warnings"`
}

type moduleDocument struct {
	Path      *string       `json:"path"`
	Name      *string       `json:"name"`
	Namespace int           `json:"namespace"`
	LinkMap   *elfcore.Addr `json:"link_map"`
	Bias      *elfcore.Addr `json:"bias"`
	BuildID   *string       `json:"build_id"`
	File      *string       `json:"file"`
	FoundBy   *string       `json:"found_by"`
	Proof     *string       `json:"proof"`
	DebugFile *string       `json:"debug_file"`
	Problem   *string       `json:"problem"`
	Rejected  []string      `json:"rejected"`
	TLS       *tlsSegment   `json:"tls"`
	Role      *string       `json:"role"`
}

type tlsSegment struct {
	Size  uint64 `json:"size"`
	Align uint64 `json:"align"`
}

func newModules(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "modules CORE",
		Short: "List the mapped files: build-id, the file found here, or why none",
		Long: `modules lists the ELF files that were mapped into the process: the build-id that
the core has, the file on this machine that was proved to be that one, or why
there is none, and the size of the thread-local storage of each.

A file whose build-id differs is never used. Files are looked for by --exe, in
--lib-dir (by name, then by build-id), under --sysroot, with --map, at the
recorded path; debug files under /usr/lib/debug and by .gnu_debuglink.

Exit status: 0, or 2 for a core that could not be read.`,
		Example: `  corethreads modules core.123
  corethreads modules --sysroot /srv/rootfs core.123
  corethreads modules --map /opt/app=$PWD/build --lib-dir ./libs core.123`,
		Args: wants("CORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachCore(cmd, args, g.loadModules, func(w io.Writer, path string, o *opened) (int, error) {
				if g.json {
					return exitDone, writeJSON(w, newModulesDocument(path, o.modules))
				}
				return exitDone, writeModules(w, newStyle(w, g.color), g, o.modules)
			})
		},
	}
}

func newModulesDocument(path string, set *module.Set) modulesDocument {
	d := modulesDocument{Schema: "corethreads/modules/1", Path: path, Modules: []moduleDocument{}, Warnings: []string{}}
	for _, m := range set.Modules {
		x := moduleDocument{
			Path: orNull(m.Path), Name: orNull(m.Name), Namespace: m.Namespace, LinkMap: orNull(m.LinkMap),
			Rejected: []string{}, Role: orNull(role(m)),
		}
		if m.BiasKnown {
			x.Bias = &m.Bias
		}
		if m.BuildID != nil {
			digits := m.BuildID.String()
			x.BuildID = &digits
		}
		if m.File != nil {
			proof := string(m.File.Proof)
			x.File, x.FoundBy, x.Proof = &m.File.Path, &m.File.How, &proof
			if f := m.DebugFile(); f != nil {
				x.DebugFile = &f.Path
			}
		}
		if m.Problem != nil {
			x.Problem = &m.Problem.Text
		}
		for _, r := range m.Rejected {
			x.Rejected = append(x.Rejected, fmt.Sprintf("%s (%s): %s", r.Path, r.How, r.Problem.Text))
		}
		if m.TLS != nil {
			x.TLS = &tlsSegment{Size: m.TLS.MemSize, Align: m.TLS.Align}
		}
		d.Modules = append(d.Modules, x)
	}
	for _, w := range set.Warnings {
		d.Warnings = append(d.Warnings, w.Text)
	}
	return d
}

// role names what a module is to the process.
func role(m *module.Module) string {
	switch {
	case m.IsExecutable:
		return "program"
	case m.IsLoader:
		return "loader"
	case m.IsVDSO:
		return "vdso"
	}
	return ""
}

// writeModules draws the table, then the remedy for each file that is missing.
func writeModules(w io.Writer, s *style, g *globals, set *module.Set) error {
	var rows [][]string
	for _, m := range set.Modules {
		id, tls, file := "-", "-", "-"
		if m.BuildID != nil {
			id = m.BuildID.String()
			if !g.verbose && len(id) > 12 {
				id = id[:12] + "…"
			}
		}
		if m.TLS != nil {
			tls = fmt.Sprint(m.TLS.MemSize)
		}
		switch {
		case m.File != nil && m.File.Path == m.Path:
			file = fmt.Sprintf("same path (%s)", m.File.Proof)
		case m.File != nil:
			file = fmt.Sprintf("%s (%s)", m.File.Path, m.File.Proof)
		case m.Problem != nil:
			file = string(m.Problem.Kind)
		case m.IsVDSO:
			file = "in the core"
		}
		rows = append(rows, []string{m.String(), id, tls, file})
	}
	header := []string{"MODULE", "BUILD-ID", "TLS", "FILE HERE"}
	if !g.verbose {
		fit(s.width, header, rows, 3, 24, cutStart)
		fit(s.width, header, rows, 0, 24, cutStart)
	}
	if err := writeTable(w, header, rows); err != nil {
		return err
	}
	if g.quiet {
		return nil
	}
	var b strings.Builder
	for _, m := range set.Modules {
		if m.Problem != nil {
			b.WriteString("\n" + s.wrap(fmt.Sprintf("%s: %s", m, m.Problem.Text), ""))
		}
		for _, r := range m.Rejected {
			if m.Problem != nil && strings.Contains(m.Problem.Text, r.Problem.Text) {
				continue // that has been said
			}
			b.WriteString(s.wrap(fmt.Sprintf("not used: %s (%s): %s", r.Path, r.How, r.Problem.Text), "  "))
		}
	}
	for _, x := range set.Warnings {
		if x.Module == nil {
			b.WriteString("\n" + s.wrap(x.Text, ""))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
