package module

import (
	"debug/dwarf"
	"encoding/binary"
	"math"
)

// Types of units (DWARF 5, 7.5.1).
const (
	unitCompile      = 0x01
	unitType         = 0x02
	unitSkeleton     = 0x04
	unitSplitCompile = 0x05
	unitSplitType    = 0x06
)

// unitEntries gives the offset of the first entry of each unit in .debug_info
// but those of types, by their headers alone (DWARF 5, 7.5.1). A damaged header
// ends it.
func unitEntries(b []byte, order binary.ByteOrder) []dwarf.Offset {
	var out []dwarf.Offset
	at := uint64(0)
	// field reads an unsigned number of the header and goes behind it.
	field := func(size uint64) uint64 {
		if size > uint64(len(b)) || at > uint64(len(b))-size {
			at = math.MaxUint64
			return 0
		}
		p := b[at : at+size]
		at += size
		switch size {
		case 1:
			return uint64(p[0])
		case 2:
			return uint64(order.Uint16(p))
		case 4:
			return uint64(order.Uint32(p))
		}
		return order.Uint64(p)
	}
	for at < uint64(len(b)) {
		offset := uint64(4)
		length := field(4)
		if length == math.MaxUint32 { // DWARF64
			offset = 8
			length = field(8)
		}
		next := at + length
		kind := uint64(unitCompile)
		if version := field(2); version < 5 {
			field(offset) // of the abbreviations
			field(1)      // size of an address
		} else {
			kind = field(1)
			field(1)
			field(offset)
		}
		if kind == unitSkeleton || kind == unitSplitCompile {
			field(8) // unit id
		}
		if at > uint64(len(b)) || next < at {
			return out
		}
		if kind != unitType && kind != unitSplitType {
			out = append(out, dwarf.Offset(at))
		}
		at = next
	}
	return out
}
