package main

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// writeTable draws a table without borders: a header, and columns two blanks
// apart.
func writeTable(w io.Writer, header []string, rows [][]string) error {
	var out bytes.Buffer
	t := tablewriter.NewTable(&out,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Symbols:  tw.NewSymbols(tw.StyleNone),
			Settings: tw.Settings{Lines: tw.LinesNone, Separators: tw.SeparatorsNone},
		})),
		tablewriter.WithConfig(tablewriter.Config{
			Header: cells(),
			Row:    cells(),
		}),
		tablewriter.WithEastAsian(tw.Off),
	)
	t.Header(header)
	if err := t.Bulk(rows); err != nil {
		return err
	}
	if err := t.Render(); err != nil {
		return err
	}
	return writeTrimmed(w, out.String())
}

func cells() tw.CellConfig {
	return tw.CellConfig{
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Alignment:  tw.CellAlignment{Global: tw.AlignLeft},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: "  ", Overwrite: true}},
	}
}

// writeTrimmed takes away the blanks at the ends of lines.
func writeTrimmed(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
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
