package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// debuggerProgram is a debugger that was found.
type debuggerProgram struct {
	path string
	lldb bool
}

// findDebugger finds the program: gdb, lldb, or what a path names. For a core
// of another architecture gdb stands for gdb-multiarch where there is one.
func findDebugger(name string, arch *elfcore.Arch) (debuggerProgram, error) {
	p := debuggerProgram{lldb: strings.Contains(filepath.Base(name), "lldb")}
	names := []string{name}
	if name == "gdb" && !slices.Contains(nativeArchs(), arch.Name) {
		names = []string{"gdb-multiarch", "gdb"}
	}
	for _, n := range names {
		var err error
		if p.path, err = exec.LookPath(n); err == nil {
			return p, nil
		}
		if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			return p, fmt.Errorf("%s cannot be run: %w", n, withoutPath(errors.Unwrap(err)))
		}
	}
	return p, fmt.Errorf("there is no debugger %s here; --debugger names another", name)
}

// nativeArchs are the architectures that a debugger for this machine alone
// knows; the first is its own, of which it can load a libthread_db.
func nativeArchs() []string {
	return map[string][]string{
		"amd64": {"x86_64", "x32", "i386"}, "386": {"i386"},
		"arm64": {"aarch64", "armhf"}, "arm": {"armhf"},
		"riscv64": {"riscv64"}, "ppc64le": {"ppc64le"}, "s390x": {"s390x"},
	}[runtime.GOARCH]
}

// gdbArguments start gdb on a core. What extra says comes last, and so wins.
func gdbArguments(core, script string, l *loaded, files *debugFiles, extra []string) []string {
	var args []string
	for _, s := range files.gdbSettings(l) {
		args = append(args, "-iex", s)
	}
	args = append(args, "-x", script, "-c", core)
	if files.exe != "" {
		args = append(args, files.exe)
	}
	return append(args, extra...)
}

// lldbArguments start lldb on a core, with a script or, for "", without.
func lldbArguments(core, script string, files *debugFiles, extra []string) []string {
	var args []string
	if files.sysroot != "" {
		args = append(args, "-O", "platform select remote-linux --sysroot "+lldbQuote(files.sysroot))
	}
	if len(files.libDirs) > 0 {
		args = append(args, "-O", "settings append target.exec-search-paths "+lldbQuote(files.libDirs...))
	}
	if len(files.debugDirs) > 0 {
		args = append(args, "-O", "settings append target.debug-file-search-paths "+lldbQuote(files.debugDirs...))
	}
	if script != "" {
		args = append(args, "-s", script)
	}
	args = append(args, "-c", core)
	if files.exe != "" {
		args = append(args, files.exe)
	}
	return append(args, extra...)
}

// lldbQuote makes words of an lldb command.
func lldbQuote(words ...string) string {
	var out []string
	for _, w := range words {
		out = append(out, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w)+`"`)
	}
	return strings.Join(out, " ")
}
