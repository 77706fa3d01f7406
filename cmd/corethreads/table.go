package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// writeTable draws a table without borders: a header, and columns two blanks
// apart. What a terminal would obey, in names that a core or a file has, is made
// visible.
func writeTable(w io.Writer, header []string, rows [][]string) error {
	header = printables(header)
	for i := range rows {
		rows[i] = printables(rows[i])
	}
	var out strings.Builder
	// Tables can have a row for each of thousands of threads.
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeTrimmed(w, out.String())
}

func printables(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = printable(c)
	}
	return out
}

// writeTrimmed takes away the blanks at the ends of lines.
func writeTrimmed(w io.Writer, text string) error {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// fit shortens the cells of a column, by cut, so that the table is no wider than
// width, but not to less than least characters.
func fit(width int, header []string, rows [][]string, column, least int, cut func(s string, n int) string) {
	over := tableWidth(header, rows) - width
	if over <= 0 {
		return
	}
	widest := 0
	for _, row := range rows {
		widest = max(widest, utf8.RuneCountInString(row[column]))
	}
	for _, row := range rows {
		row[column] = cut(row[column], max(widest-over, least))
	}
}

// cutEnd and cutStart shorten a text to n characters, and show where.
func cutEnd(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func cutStart(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return "…" + string(r[len(r)-n+1:])
	}
	return s
}

// tableWidth is how wide writeTable draws a table.
func tableWidth(header []string, rows [][]string) int {
	width := 0
	for i := range header {
		column := utf8.RuneCountInString(header[i])
		for _, row := range rows {
			column = max(column, utf8.RuneCountInString(row[i]))
		}
		width += column + 2
	}
	return width - 2
}
