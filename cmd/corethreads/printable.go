package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// colourCode is what turns a colour on or off.
var colourCode = regexp.MustCompile("\x1b\\[[0-9;]*m")

// columns is how wide a text is on a terminal.
func columns(text string) int {
	return utf8.RuneCountInString(colourCode.ReplaceAllString(text, ""))
}

// printable is a text without what a terminal would obey, colours excepted.
func (s *style) printable(text string) string {
	var b strings.Builder
	if s.colours {
		for at := colourCode.FindStringIndex(text); at != nil; at = colourCode.FindStringIndex(text) {
			b.WriteString(printable(text[:at[0]]) + text[at[0]:at[1]])
			text = text[at[1]:]
		}
	}
	b.WriteString(printable(text))
	return b.String()
}

// printable shows what a terminal would obey or not show at all: names in a core
// can hold anything.
func printable(text string) string {
	if strings.IndexFunc(text, hidden) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case hidden(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }
