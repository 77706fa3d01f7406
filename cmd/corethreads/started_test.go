package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestStartedInThumb names the function that threads of ARM began in, whose
// address has a bit that says that it is Thumb code; readelf must know it there.
func TestStartedInThumb(t *testing.T) {
	const name = "armhf-glibc2.36-zombie-user"
	core, _ := coretest.Unpack(t, name)
	exe := coretest.UnpackExe(t, name)
	text := printed(t, "threads", "--exe", exe, core)
	m := regexp.MustCompile(`(?m)^ +- +0x[0-9a-f]+ +zombie .* (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no zombie in:\n%s", text)
	}
	var d struct {
		Handles []struct {
			State string `json:"state"`
			Start string `json:"start_routine"`
		} `json:"handles"`
	}
	parseInto(t, printed(t, "threads", "--json", "--exe", exe, core), &d)
	for _, h := range d.Handles {
		// The program's pages are where its file has them, but for the bias.
		inPage := h.Start[max(len(h.Start)-3, 0):]
		symbol := fmt.Sprintf(`(?m)^ +\d+: [0-9a-f]+%s .* FUNC .* %s$`, inPage, regexp.QuoteMeta(m[1]))
		symbols := coretest.Output(t, coretest.Tool(t, "readelf", "binutils"), "-sW", exe)
		if h.State == "zombie" && (strings.Trim(inPage[2:], "13579bdf") != "" || !regexp.MustCompile(symbol).MatchString(symbols)) {
			t.Errorf("%s at %s is not what readelf has:\n%s", m[1], h.Start, symbols)
		}
	}
	if check, _ := corethreads(t, exitFindings, "check", "--exe", exe, core); !strings.Contains(check, "exited unjoined: 1 by "+m[1]+",") {
		t.Errorf("%s is not in:\n%s", m[1], check)
	}
}
