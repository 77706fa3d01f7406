package unwind

import (
	"debug/dwarf"
	"sort"
)

// lineRow is one row of a line table: from its address on, code is of this
// line. A row without a file ends a sequence.
type lineRow struct {
	address uint64
	file    *dwarf.LineFile
	line    int32
}

// maxLines bounds the rows that are kept of one unit, maxRows those that are read
// for all units of a module, which can share a line table.
const (
	maxLines = 1 << 22
	maxRows  = 1 << 24
)

// readLines reads the line table of a unit, sorted by address.
func (d *debugInfo) readLines(u *unit, entry *dwarf.Entry) {
	r, err := d.data.LineReader(entry)
	if err != nil || r == nil {
		return
	}
	var out []lineRow
	var e dwarf.LineEntry
	start, statement := 0, false
	for r.Next(&e) == nil && len(out) < maxLines && d.rowsRead < maxRows {
		d.rowsRead++
		// Code that belongs to no line goes to the one in front of it, as in gdb.
		if e.Line == 0 && !e.EndSequence {
			continue
		}
		row := lineRow{e.Address, e.File, int32(e.Line)}
		if e.EndSequence {
			row.file, row.line = nil, 0
		}
		// Of several rows for one address the last counts, but one that starts
		// a statement before one that does not, as in gdb.
		switch n := len(out); {
		case n == start || out[n-1].address != row.address:
			out = append(out, row)
			statement = e.IsStmt
		case e.IsStmt || e.EndSequence || !statement:
			out[n-1] = row
			statement = e.IsStmt
		}
		if e.EndSequence {
			start = len(out)
		}
	}
	// One sequence can begin where another ends.
	sort.SliceStable(out, func(i, j int) bool {
		if out[i].address != out[j].address {
			return out[i].address < out[j].address
		}
		return out[i].file == nil && out[j].file != nil
	})
	u.lines, u.files = out, r.Files()
}

// lineAt finds the place in the source for an address, "" and 0 for none.
func lineAt(rows []lineRow, pc uint64) (string, int) {
	i := sort.Search(len(rows), func(i int) bool { return rows[i].address > pc })
	if i == 0 || rows[i-1].file == nil {
		return "", 0
	}
	return rows[i-1].file.Name, int(rows[i-1].line)
}
