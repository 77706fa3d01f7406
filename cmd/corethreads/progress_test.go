package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestProgress draws one line, once a job takes a second, and takes it away
// again; where it is not wanted, nothing.
func TestProgress(t *testing.T) {
	for _, x := range []struct {
		when  string
		begun time.Duration
		drawn string
	}{
		{"always", 10 * time.Second, `^\rcopying core: 1\.0 GiB, [0-9.]+ [MK]iB/s, 25%, [0-9ms]+ left\x1b\[K$`},
		{"always", 0, `^$`},
		{"never", 10 * time.Second, `^$`},
		{"auto", 10 * time.Second, `^$`}, // no terminal
	} {
		var w strings.Builder
		p := newProgress(&w, x.when)
		p.start = p.start.Add(-x.begun)
		p.show("copying core", 1<<30, 4<<30, 1<<30)
		if !regexp.MustCompile(x.drawn).MatchString(w.String()) {
			t.Errorf("%s, after %v: it draws %q", x.when, x.begun, w.String())
		}
		drawn := w.String()
		p.done()
		p.done()
		if rest := strings.TrimPrefix(w.String(), drawn); drawn == "" && rest != "" || drawn != "" && rest != "\r\x1b[K" {
			t.Errorf("%s, after %v: in the end it draws %q", x.when, x.begun, rest)
		}
	}

	// A size that is not known has no end to tell of.
	var w strings.Builder
	p := newProgress(&w, "always")
	p.start = p.start.Add(-10 * time.Second)
	p.show("unpacking standard input", 1<<20, 0, 1<<30)
	if strings.Contains(w.String(), "%") || strings.Contains(w.String(), "left") {
		t.Errorf("of a size that is not known it draws %q", w.String())
	}
}
