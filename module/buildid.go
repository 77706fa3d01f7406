package module

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
)

// BuildID is the descriptor of an NT_GNU_BUILD_ID note: bytes that the linker
// made from the contents of a file, the same in the file, in its image in
// memory and in its separate debug file.
type BuildID []byte

// String gives the hexadecimal digits, as readelf and file name a build-id.
func (id BuildID) String() string { return hex.EncodeToString(id) }

// Equal tells whether both are known and the same.
func (id BuildID) Equal(o BuildID) bool { return len(id) > 0 && bytes.Equal(id, o) }

const (
	// maxNotes is how much of a note segment is looked at, in bytes.
	maxNotes = 64 << 10
	// noteGNUBuildID is NT_GNU_BUILD_ID of elf.h.
	noteGNUBuildID = 3
	// maxBuildID bounds a build-id; linkers write 8 to 32 bytes.
	maxBuildID = 64
)

// findBuildID looks for a build-id among notes
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html#note_section),
// nil for none.
func findBuildID(notes []byte, order binary.ByteOrder, align uint64) BuildID {
	// Only notes of GNU properties are padded to 8; the 1 and 0 that some
	// linkers write mean 4.
	if align != 8 {
		align = 4
	}
	pad := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for b := notes; len(b) >= 12; {
		namesz, descsz := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:]))
		typ := order.Uint32(b[8:])
		start := pad(12 + namesz)
		if start > uint64(len(b)) || descsz > uint64(len(b))-start {
			return nil
		}
		if typ == noteGNUBuildID && namesz == 4 && string(b[12:16]) == "GNU\x00" && descsz > 0 && descsz <= maxBuildID {
			return bytes.Clone(b[start : start+descsz])
		}
		b = b[min(uint64(len(b)), pad(start+descsz)):]
	}
	return nil
}

// buildID looks for the build-id in all note segments; read fills a buffer with
// the bytes of one of them, as many as there are.
func buildID(programs []elf.ProgHeader, order binary.ByteOrder, read func(p elf.ProgHeader, b []byte) int) BuildID {
	for _, p := range programs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		b := make([]byte, min(p.Filesz, maxNotes))
		if id := findBuildID(b[:read(p, b)], order, p.Align); id != nil {
			return id
		}
	}
	return nil
}
