package main

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestPrintable leaves nothing in a text that a terminal would obey, and no
// text that needs no change changed.
func TestPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		got := printable(text)
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
		if printable(got) != got {
			t.Errorf("%q becomes %q, and that %q", text, got, printable(got))
		}
	})
	for text, want := range map[string]string{
		"plain, naïve, 中文": "plain, naïve, 中文",
		"a\x1b[31mb":       `a\x1b[31mb`,
		"a\nb\tc":          `a\nb\tc`,
		"\xff":             `\xff`,
		"\u202e":           `\u202e`, // right-to-left override
	} {
		if got := printable(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
}

// TestWrap keeps lines within the width, counts no colours, and leaves lines to
// paste as they are.
func TestWrap(t *testing.T) {
	s := newStyle(nil, "always")
	text := strings.Repeat(s.bad.Sprint("words")+" in colour ", 20) + "\n  a line to paste " + strings.Repeat("x", 100)
	lines := strings.Split(strings.TrimSuffix(s.wrap(text, "  "), "\n"), "\n")
	if last := lines[len(lines)-1]; last != "    a line to paste "+strings.Repeat("x", 100) {
		t.Errorf("the line to paste became %q", last)
	}
	for i, line := range lines[:len(lines)-1] {
		width := len(strings.NewReplacer(s.bad.Sprint("words"), "words").Replace(line))
		if width > 80 || i < len(lines)-2 && width < 80-len(" colour") {
			t.Errorf("a line of %d columns: %q", width, line)
		}
	}
}
