package stream

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz/lzma"
)

// headSize is how much of a file is looked at to recognise it: enough to
// step over the small skippable frames that some writers put first.
const headSize = 4096

// recognise names the compression of a file by its first bytes (headSize of
// them, or all), and gives "" if there is none.
func recognise(head []byte) string {
	first := afterSkippable(head)
	switch {
	// https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1
	case bytes.HasPrefix(first, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	// https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md, the
	// second is its legacy frame (lz4 -l).
	case bytes.HasPrefix(first, []byte{0x04, 0x22, 0x4d, 0x18}),
		bytes.HasPrefix(first, []byte{0x02, 0x21, 0x4c, 0x18}):
		return "lz4"
	// zstd and lz4 have their skippable frames in common. It takes a frame
	// longer than head to get here, and the writers of those use zstd.
	case len(first) < len(head):
		return "zstd"
	// https://tukaani.org/xz/xz-file-format.txt, 2.1.1.1
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "xz"
	// https://www.rfc-editor.org/rfc/rfc1952#section-2.3, with the only
	// method there is: deflate.
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b, 8}):
		return "gzip"
	case isBzip2(head):
		return "bzip2"
	}
	return ""
}

// afterSkippable steps over skippable frames: magic 0x184D2A50 to 0x184D2A5F,
// length of the rest, rest (RFC 8878, 3.1.2). It gives an empty slice if they
// reach beyond head.
func afterSkippable(head []byte) []byte {
	for len(head) >= 8 && binary.LittleEndian.Uint32(head)&^0xf == 0x184d2a50 {
		frame := 8 + uint64(binary.LittleEndian.Uint32(head[4:]))
		head = head[min(frame, uint64(len(head))):]
	}
	return head
}

// isBzip2 looks for "BZh", the block size, and the magic of a block or of the
// end: three letters and a digit alone might begin any text.
func isBzip2(head []byte) bool {
	return len(head) >= 10 && bytes.HasPrefix(head, []byte("BZh")) && head[3] >= '1' && head[3] <= '9' &&
		(bytes.Equal(head[4:10], []byte{0x31, 0x41, 0x59, 0x26, 0x53, 0x59}) ||
			bytes.Equal(head[4:10], []byte{0x17, 0x72, 0x45, 0x38, 0x50, 0x90}))
}

// zstdWindow is how much of its output the first frame in head wants the
// decoder to remember, in bytes; 0 if head does not tell.
func zstdWindow(head []byte) uint64 {
	var h zstd.Header
	if err := h.Decode(afterSkippable(head)); err != nil || h.Skippable {
		return 0
	}
	if h.SingleSegment {
		return h.FrameContentSize
	}
	return h.WindowSize
}

// xzWindow is the same for the first block in head: the dictionary size of
// its LZMA2 filter (xz-file-format.txt, 3.1 and 5.3.1).
func xzWindow(head []byte) uint64 {
	const streamHeader, lzma2 = 12, 0x21
	if len(head) < streamHeader+2 {
		return 0
	}
	flags := head[streamHeader+1]
	rest := head[streamHeader+2:]
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		rest = rest[max(n, 0):]
		return v
	}
	if flags&0x40 != 0 {
		number() // compressed size
	}
	if flags&0x80 != 0 {
		number() // uncompressed size
	}
	for range flags&3 + 1 {
		id, size := number(), number()
		if size > uint64(len(rest)) {
			return 0
		}
		if id == lzma2 && size == 1 {
			n, _ := lzma.DecodeDictCap(rest[0])
			return uint64(n)
		}
		rest = rest[size:]
	}
	return 0
}
