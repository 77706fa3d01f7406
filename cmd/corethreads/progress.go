package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/corethreads/corethreads/diagnose"
)

// progress is one line on a terminal that tells how far a long job is.
type progress struct {
	w     io.Writer
	on    bool
	drawn bool
	start time.Time
	last  time.Time
}

// newProgress draws on w where it is a terminal, or whenever told to.
func newProgress(w io.Writer, when string) *progress {
	on := when == "always"
	if f, ok := w.(*os.File); ok && when == "auto" {
		on = term.IsTerminal(int(f.Fd()))
	}
	return &progress{w: w, on: on, start: time.Now()}
}

// show draws the state of a job: done of total units (0 for not known), of which
// came out so many bytes.
func (p *progress) show(what string, done, total, out int64) {
	now := time.Now()
	if !p.on || now.Sub(p.start) < time.Second || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.drawn = now, true
	spent := now.Sub(p.start)
	line := fmt.Sprintf("%s: %s, %s/s", what, diagnose.Bytes(uint64(out)), diagnose.Bytes(uint64(float64(out)/spent.Seconds())))
	if total > 0 && done > 0 && done <= total {
		left := time.Duration(float64(spent) * float64(total-done) / float64(done)).Round(time.Second)
		line += fmt.Sprintf(", %d%%, %s left", 100*done/total, left)
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", line)
}

// done takes the line away.
func (p *progress) done() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
