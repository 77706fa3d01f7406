package coretest

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Gcore runs a program until it has published its truth, and has gdb dump the
// living process. With PIDNamespace gdb stands outside of the namespace, so
// that the core's ids differ from those in its memory; the truth has both.
func Gcore(t testing.TB, exe string, run Run) Crashed {
	t.Helper()
	dir := t.TempDir()
	run.Args = append(run.Args[:len(run.Args):len(run.Args)], "stay")
	cmd, cancel := run.command(t, exe, dir)
	defer cancel()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		// It was killed, which is no news.
		_ = cmd.Wait()
	}()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s is not ready (%v):\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}

	pid := processIn(t, exe, dir)
	core := filepath.Join(dir, "core")
	said := GDB(t, "-p", pid, "-ex", "generate-core-file "+core)
	if _, err := os.Stat(core); err != nil {
		t.Fatalf("gdb dumped no core: %v\n%s", err, said)
	}
	truth := LoadTruth(t, filepath.Join(dir, "truth.json"))
	outside(t, pid, &truth)
	return Crashed{Core: core, Exe: exe, Truth: truth}
}

// processIn finds the process that runs exe in dir.
func processIn(t testing.TB, exe, dir string) string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		proc := filepath.Dir(link)
		if sameFile(link, exe) && sameFile(filepath.Join(proc, "cwd"), dir) {
			return filepath.Base(proc)
		}
	}
	t.Fatalf("no process runs %s in %s", exe, dir)
	return ""
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// outside enters into the truth the ids by which the process's threads are
// known here, where the kernel says that they have others within.
func outside(t testing.TB, pid string, truth *Truth) {
	t.Helper()
	files, err := filepath.Glob("/proc/" + pid + "/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	outer := map[int]int{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, ids, ok := strings.Cut(string(b), "\nNSpid:")
		line, _, _ := strings.Cut(ids, "\n")
		// One id for each namespace, from this one's to the innermost.
		id := strings.Fields(line)
		if !ok || len(id) == 0 {
			t.Fatalf("%s has no line NSpid", file)
		}
		if len(id) > 1 {
			outer[number(t, id[len(id)-1])] = number(t, id[0])
		}
	}
	truth.OuterPID = outer[truth.PID]
	for i, thread := range truth.Threads {
		truth.Threads[i].OuterTID = outer[thread.TID]
	}
	if id := outer[truth.ShadowedLWP]; id != 0 {
		truth.ShadowedLWP = id
	}
}
