package unwind

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestNumbersOfSystemCalls holds the table against the one that
// golang.org/x/sys makes from the kernel's headers.
func TestNumbersOfSystemCalls(t *testing.T) {
	dir := strings.TrimSpace(coretest.Output(t, coretest.Tool(t, "go", "golang"), "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys"))
	constant := regexp.MustCompile(`(?m)^\tSYS_(\w+)\s+=\s+(\d+)$`)
	for column, arch := range []string{"amd64", "386", "arm64", "arm", "ppc64le", "s390x"} {
		b, err := os.ReadFile(filepath.Join(dir, "unix", "zsysnum_linux_"+arch+".go"))
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[string]string)
		for _, m := range constant.FindAllStringSubmatch(string(b), -1) {
			want[strings.ToLower(m[1])] = m[2]
		}
		for _, c := range blockingCalls {
			got := fmt.Sprint(c.numbers[column])
			if w, ok := want[c.name]; got != w && (ok || got != "-1") {
				t.Errorf("%s on %s is %s, not %q", c.name, arch, got, w)
			}
		}
	}
}
