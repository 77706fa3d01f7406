package main

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestShellQuote lets a shell read what was quoted.
func TestShellQuote(t *testing.T) {
	shell := coretest.Tool(t, "sh", "dash")
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab -'\"\\$`*~=#;&|<>(){}[]!?\t\nä")), 1, 12, -1).Draw(t, "name")
		file := name
		if strings.HasPrefix(name, "-") {
			file = "./" + name // else it would be a flag
		}
		for quoted, want := range map[string]string{shellQuote(name): file, shellWord(name): name, shellWord("--exe=" + name): "--exe=" + name} {
			out, err := exec.Command(shell, "-c", "printf %s -- "+quoted).Output()
			if err != nil || string(out) != "--"+want {
				t.Errorf("%q, quoted as %s, is %q for a shell (%v)", want, quoted, out, err)
			}
		}
	})
}

// TestShellWord quotes no more than is needed, where people would.
func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{
		"--exe=/srv/my app": "--exe='/srv/my app'", "--map=/a=/b": "--map=/a=/b", "--map=/a=/b c": "--map='/a=/b c'",
		"--exe=app": "--exe=app", "--in-place": "--in-place", "-iex": "-iex", "set x=1": "'set x=1'", "--exe=": "--exe=''", "$(x)=1": "'$(x)=1'",
	} {
		if got := shellWord(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}
