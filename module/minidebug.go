package module

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

const (
	// maxMiniDebug bounds the unpacked MiniDebugInfo of one file, and
	// maxMiniDebugWindow the dictionary that its decoder must keep; real ones
	// have at most a few MiB, and 8 MiB.
	maxMiniDebug       = 256 << 20
	maxMiniDebugWindow = 64 << 20
)

// miniDebugInfo reads .gnu_debugdata: an ELF file with a symbol table, packed
// by xz (https://sourceware.org/gdb/current/onlinedocs/gdb.html/MiniDebugInfo.html).
// It is nil where there is none or it is damaged.
func (f *File) miniDebugInfo() *symtab {
	if !f.has(".gnu_debugdata") {
		return nil
	}
	packed, err := f.Section(".gnu_debugdata")
	if err != nil {
		return nil
	}
	data, err := unpackXZ(packed, maxMiniDebug)
	if err != nil {
		return nil
	}
	inner, err := newFile(bytes.NewReader(data), int64(len(data)))
	if err != nil || inner.header.layout != f.header.layout {
		return nil
	}
	return inner.symtab()
}

// unpackXZ unpacks a stream of xz that says beforehand that it unpacks to max
// bytes at the most.
func unpackXZ(packed []byte, max uint64) (data []byte, err error) {
	defer func() {
		if recover() != nil {
			data, err = nil, errXZ
		}
	}()
	if err := checkXZ(packed, max); err != nil {
		return nil, err
	}
	r, err := xz.ReaderConfig{SingleStream: true}.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, int64(max)))
}

var errXZ = errors.New("it is no stream of xz, or asks for too much memory")

// checkXZ looks at the headers of all blocks of a stream, found by its index:
// the decoder allocates whatever dictionary a block asks for
// (https://tukaani.org/xz/xz-file-format.txt).
func checkXZ(b []byte, max uint64) error {
	const header, footer = 12, 12
	if len(b) < header+footer || len(b)%4 != 0 {
		return errXZ
	}
	indexSize := (uint64(binary.LittleEndian.Uint32(b[len(b)-8:])) + 1) * 4 // Backward Size
	if indexSize > uint64(len(b)-header-footer) {
		return errXZ
	}
	blocks := b[:len(b)-footer-int(indexSize)]
	index := bytes.NewReader(b[len(blocks) : len(b)-footer])
	if zero, _ := index.ReadByte(); zero != 0 {
		return errXZ
	}
	count, err := binary.ReadUvarint(index)
	if err != nil {
		return errXZ
	}
	total := uint64(0)
	for at := uint64(header); count > 0; count-- {
		packed, err1 := binary.ReadUvarint(index)
		size, err2 := binary.ReadUvarint(index)
		if err1 != nil || err2 != nil || at >= uint64(len(blocks)) || packed > uint64(len(blocks))-at || packed == 0 || size > max {
			return errXZ
		}
		if total += size; total > max || blockWindow(blocks[at:]) > maxMiniDebugWindow {
			return errXZ
		}
		at += (packed + 3) &^ 3
	}
	return nil
}

// blockWindow is the dictionary that the block at the start of b asks for, in
// bytes; more than any where its header cannot be read.
func blockWindow(b []byte) int64 {
	const tooMuch = 1 << 62
	size := (int(b[0]) + 1) * 4
	if b[0] == 0 || size > len(b) {
		return tooMuch
	}
	flags := b[1]
	r := bytes.NewReader(b[2:size])
	if flags&0x40 != 0 { // Compressed Size
		if _, err := binary.ReadUvarint(r); err != nil {
			return tooMuch
		}
	}
	if flags&0x80 != 0 { // Uncompressed Size
		if _, err := binary.ReadUvarint(r); err != nil {
			return tooMuch
		}
	}
	const lzma2 = 0x21
	id, err := binary.ReadUvarint(r)
	if err != nil || flags&3 != 0 || id != lzma2 {
		return tooMuch
	}
	properties, err := binary.ReadUvarint(r)
	dictionary, err2 := r.ReadByte()
	if err != nil || err2 != nil || properties != 1 {
		return tooMuch
	}
	n, err := lzma.DecodeDictCap(dictionary)
	if err != nil {
		return tooMuch
	}
	return n
}
