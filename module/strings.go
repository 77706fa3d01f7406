package module

import (
	"bytes"
	"io"
)

// maxName bounds one string of a string table; the longest names that C++
// templates have been seen to make have some ten thousand bytes.
const maxName = 64 << 10

// stringAt reads the NUL-terminated string at an offset of a string table. It
// is empty where the table does not hold all of it, and where it is longer than
// max bytes.
func stringAt(table io.ReaderAt, offset uint64, max int) string {
	if offset > 1<<62 {
		return ""
	}
	var out []byte
	buf := make([]byte, 128)
	for len(out) < max {
		n, err := table.ReadAt(buf, int64(offset)+int64(len(out)))
		if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
			return string(append(out, buf[:i]...))
		}
		if err != nil {
			return ""
		}
		out = append(out, buf[:n]...)
	}
	return ""
}
