package unwind

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// Abbreviations of the units in these tests. A block is one byte.
const (
	aUnit     = 1 // a unit with children, low_pc, high_pc
	aBlock    = 2 // a block with children
	aFunction = 3 // a function with children, low_pc, high_pc
	aSibling  = 4 // a block with children, sibling
	aTable    = 5 // a unit without children, stmt_list, low_pc, high_pc
	aRanges   = 6 // a unit without children, ranges
)

var abbreviations = []byte{
	aUnit, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0,
	aBlock, 0x0b, 1, 0, 0,
	aFunction, 0x2e, 1, 0x11, 1, 0x12, 7, 0, 0,
	aSibling, 0x0b, 1, 0x01, 0x13, 0, 0,
	aTable, 0x11, 0, 0x10, 0x17, 0x11, 1, 0x12, 7, 0, 0,
	aRanges, 0x11, 0, 0x55, 0x17, 0, 0,
	0,
}

// code is an entry of an abbreviation with low_pc and high_pc.
func code(abbreviation byte, low, size uint64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{abbreviation}, low)
	return binary.LittleEndian.AppendUint64(b, size)
}

// infoOf makes debugging information of one unit that has code at 0x1000.
func infoOf(t *testing.T, entries ...[]byte) *debugInfo {
	t.Helper()
	body := slices.Concat([]byte{4, 0, 0, 0, 0, 0, 8}, code(aUnit, 0x1000, 0x1000), bytes.Join(entries, nil))
	info := append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
	data, err := dwarf.New(abbreviations, nil, nil, info, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &debugInfo{data: data, open: make(map[dwarf.Offset]*unit), calls: make(map[dwarf.Offset]*callSites)}
	d.readUnits([]dwarf.Offset{11})
	return d
}

// TestDeepEntries goes through entries that stand in one another a million deep:
// in a unit, and in a function.
func TestDeepEntries(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	deep := bytes.Repeat([]byte{aBlock}, 1<<20)
	for what, entries := range map[string][][]byte{
		"in the unit":   {code(aFunction, 0x1100, 0x10), {0}, deep},
		"in a function": {code(aFunction, 0x1100, 0x10), code(aFunction, 0x1200, 0x10), deep},
	} {
		d := infoOf(t, entries...)
		if len(d.units) != 1 {
			t.Fatalf("%s: %d units", what, len(d.units))
		}
		u := d.unitOf(d.units[0].entry)
		f := d.functionsAt(u, 0x1104)
		if len(f) != 1 {
			t.Fatalf("%s: %d functions", what, len(f))
		}
		if chain := d.chain(u, f[0].entry, 0x1104); len(chain) != 1 {
			t.Errorf("%s: %d functions are inlined", what, len(chain))
		}
		if calls := d.callsOf(f[0].entry); (calls == nil) != (what == "in a function") {
			t.Errorf("%s: %v", what, calls)
		}
	}
}

// TestSibling finds the function behind a block by where the block says that it
// ends, and by its entries where it names a place in front of it.
func TestSibling(t *testing.T) {
	const at = 11 + 17 // of the block in .debug_info
	for what, next := range map[string]uint32{"forward": at + 8, "backward": 11} {
		block := binary.LittleEndian.AppendUint32([]byte{aSibling}, next)
		d := infoOf(t, block, []byte{aBlock, 0}, []byte{0}, code(aFunction, 0x1100, 0x10), []byte{0}, []byte{0})
		u := d.unitOf(d.units[0].entry)
		if len(u.functions) != 1 || u.functions[0].low != 0x1100 {
			t.Errorf("%s: the functions are %v", what, u.functions)
		}
	}
}

// TestSharedLines reads the line table that many units have in common no more
// often than the rows of a module may be.
func TestSharedLines(t *testing.T) {
	const rows, units, room = 60_000, 3, 100_000
	program := slices.Concat(
		[]byte{0, 9, 2}, binary.LittleEndian.AppendUint64(nil, 0x1000), // DW_LNE_set_address
		bytes.Repeat([]byte{10 + 1}, rows), // the next address
		[]byte{0, 1, 1})                    // DW_LNE_end_sequence
	header := slices.Concat(
		[]byte{1, 1, 0, 1, 10},            // instructions of 1 byte; one line for each address; 9 opcodes
		[]byte{0, 1, 1, 1, 1, 0, 0, 0, 1}, // how many operands those have
		[]byte{0, 'a', 0, 0, 0, 0, 0})     // no folders, and a file
	lines := slices.Concat([]byte{3, 0}, binary.LittleEndian.AppendUint32(nil, uint32(len(header))), header, program)
	lines = append(binary.LittleEndian.AppendUint32(nil, uint32(len(lines))), lines...)
	one := slices.Concat([]byte{4, 0, 0, 0, 0, 0, 8, aTable}, make([]byte, 4), code(0, 0x1000, 0x1000)[1:])
	one = append(binary.LittleEndian.AppendUint32(nil, uint32(len(one))), one...)
	data, err := dwarf.New(abbreviations, nil, nil, bytes.Repeat(one, units), lines, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &debugInfo{data: data, open: make(map[dwarf.Offset]*unit), calls: make(map[dwarf.Offset]*callSites)}
	d.rowsRead = maxRows - room
	kept := 0
	for i := range units {
		kept += len(d.unitOf(dwarf.Offset(i*len(one) + 11)).lines)
	}
	if kept <= rows || kept > room {
		t.Errorf("%d rows are kept", kept)
	}
}

// TestLongRangeList has many units with one list of ranges that is long but has a
// single range: when it has taken the time there is for that, it is read no more.
func TestLongRangeList(t *testing.T) {
	const units = 100
	base := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, ^uint64(0)), 0)
	list := bytes.Repeat(base, 1000)
	for _, v := range []uint64{0x1000, 0x2000, 0, 0} {
		list = binary.LittleEndian.AppendUint64(list, v)
	}
	one := slices.Concat([]byte{4, 0, 0, 0, 0, 0, 8, aRanges}, make([]byte, 4))
	one = append(binary.LittleEndian.AppendUint32(nil, uint32(len(one))), one...)
	data, err := dwarf.New(abbreviations, nil, nil, bytes.Repeat(one, units), nil, nil, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var entries []dwarf.Offset
	for i := range units {
		entries = append(entries, dwarf.Offset(i*len(one)+11))
	}
	for spent, want := range map[time.Duration]int{0: units, maxRangeTime: 1} {
		d := &debugInfo{data: data, rangeTime: spent}
		d.readUnits(entries)
		if len(d.units) != want {
			t.Errorf("%d units are known where %v was spent before", len(d.units), spent)
		}
	}
}
