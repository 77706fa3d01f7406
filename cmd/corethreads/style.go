package main

import (
	"io"
	"os"
	"strings"

	"github.com/fatih/color"
	"golang.org/x/term"
)

// style colours words for people and wraps their text.
type style struct {
	bad, warn, good, strong, faint *color.Color
	colours                        bool
	width                          int
}

// textWidth is what paragraphs are wrapped to where no terminal tells.
const textWidth = 80

// leastWidth is how narrow text is made at the most.
const leastWidth = 30

// newStyle looks at where the text goes, at --color and at NO_COLOR.
func newStyle(w io.Writer, when string) *style {
	s := &style{
		bad:    color.New(color.FgRed, color.Bold),
		warn:   color.New(color.FgYellow, color.Bold),
		good:   color.New(color.FgGreen, color.Bold),
		strong: color.New(color.Bold),
		faint:  color.New(color.Faint),
		width:  textWidth,
	}
	on := when == "always"
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		on = on || when == "auto" && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			s.width = min(max(width, leastWidth), 120)
		}
	}
	s.colours = on
	for _, c := range []*color.Color{s.bad, s.warn, s.good, s.strong, s.faint} {
		if on {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
	}
	return s
}

// wrap breaks text into lines with an indent. A word that is too long stays
// whole, and lines that start with blanks (commands to paste) stay as they are.
func (s *style) wrap(text, indent string) string {
	var b strings.Builder
	for _, paragraph := range strings.Split(text, "\n") {
		paragraph = s.printable(paragraph)
		if strings.HasPrefix(paragraph, " ") {
			b.WriteString(indent + paragraph + "\n")
			continue
		}
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && columns(indent+line)+1+columns(word) > s.width {
				b.WriteString(indent + line + "\n")
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		b.WriteString(indent + line + "\n")
	}
	return b.String()
}
