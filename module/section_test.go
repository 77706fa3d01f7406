package module

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

func deflated(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// compressed puts a compression header in front of data.
func compressed(class elf.Class, order binary.AppendByteOrder, kind elf.CompressionType, size uint64, data []byte) []byte {
	b := order.AppendUint32(nil, uint32(kind))
	if class == elf.ELFCLASS32 {
		return append(order.AppendUint32(order.AppendUint32(b, uint32(size)), 1), data...)
	}
	return append(order.AppendUint64(order.AppendUint64(order.AppendUint32(b, 0), size), 1), data...)
}

// holding makes a file of the sections alone, all of them in all of its bytes.
func holding(class elf.Class, order binary.ByteOrder, b []byte, flags elf.SectionFlag, names ...string) *File {
	f := &File{Path: "file", Size: int64(len(b)), r: bytes.NewReader(b), header: &header{layout: layout{class: class, order: order}}}
	for _, name := range names {
		f.Sections = append(f.Sections, elf.SectionHeader{Name: name, Type: elf.SHT_PROGBITS, Flags: flags, Size: uint64(len(b))})
	}
	return f
}

// TestCompressedSections reads them in all forms, and gives nothing of those that
// are damaged or lie.
func TestCompressedSections(t *testing.T) {
	want := bytes.Repeat([]byte("debugging information "), 40)
	size := uint64(len(want))
	zlibbed := deflated(t, want)
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	zstdded := encoder.EncodeAll(want, nil)
	both := []struct {
		what  string
		class elf.Class
		order interface {
			binary.ByteOrder
			binary.AppendByteOrder
		}
	}{
		{"64 bits, little-endian", elf.ELFCLASS64, binary.LittleEndian}, {"64 bits, big-endian", elf.ELFCLASS64, binary.BigEndian},
		{"32 bits, little-endian", elf.ELFCLASS32, binary.LittleEndian}, {"32 bits, big-endian", elf.ELFCLASS32, binary.BigEndian},
	}
	damaged := bytes.Clone(zlibbed)
	damaged[len(damaged)-1]++ // the checksum
	for _, a := range both {
		old := func(magic string, size uint64) []byte {
			return append(binary.BigEndian.AppendUint64([]byte(magic), size), zlibbed...)
		}
		header := func(kind elf.CompressionType, size uint64, data []byte) []byte {
			return compressed(a.class, a.order, kind, size, data)
		}
		for _, c := range []struct {
			what string
			b    []byte
			old  bool
			err  string // empty for none
		}{
			{"zlib", header(elf.COMPRESS_ZLIB, size, zlibbed), false, ""},
			{"zstd", header(elf.COMPRESS_ZSTD, size, zstdded), false, ""},
			{"the old manner", old("ZLIB", size), true, ""},
			{"bytes behind it", append(header(elf.COMPRESS_ZLIB, size, zlibbed), 1, 2, 3), false, ""},
			{"damaged zlib", header(elf.COMPRESS_ZLIB, size+1, damaged), false, "damaged: "},
			{"damaged zstd", header(elf.COMPRESS_ZSTD, size, slices.Concat(zstdded[:8], []byte{0xff, 0xff, 0xff}, zstdded[11:])), false, "damaged: "},
			{"cut zlib", header(elf.COMPRESS_ZLIB, size, zlibbed[:len(zlibbed)/2]), false, "damaged: "},
			{"cut zstd", header(elf.COMPRESS_ZSTD, size, zstdded[:len(zstdded)/2]), false, "damaged: "},
			{"nothing", header(elf.COMPRESS_ZSTD, size, nil)[:11], false, "too short"},
			{"an unknown kind", header(77, size, zlibbed), false, "not known (77)"},
			{"less than it claims", header(elf.COMPRESS_ZLIB, size+1, zlibbed), false, "and ends after"},
			{"far less than it claims", header(elf.COMPRESS_ZLIB, 1<<31, zlibbed), false, "claims to unpack from"},
			{"another magic", old("zlib", size), true, "does not begin as"},
			{"far less in the old manner", old("ZLIB", 1<<63), true, "claims to unpack from"},
		} {
			name, flags := ".debug_info", elf.SHF_COMPRESSED
			if c.old {
				name, flags = ".zdebug_info", 0
			}
			got, err := holding(a.class, a.order, c.b, flags, name).Section(".debug_info")
			switch {
			case c.err == "" && (err != nil || !bytes.Equal(got, want)):
				t.Errorf("%s, %s: %d bytes, %v", a.what, c.what, len(got), err)
			case c.err != "" && (err == nil || got != nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s, %s: %d bytes, %v, want %q", a.what, c.what, len(got), err, c.err)
			}
		}
	}
}

// TestSharedSections refuses debugging information whose sections have the same
// bytes, which would unpack to hundreds of times the size of the file.
func TestSharedSections(t *testing.T) {
	const each = 60 << 20
	b := compressed(elf.ELFCLASS64, binary.LittleEndian, elf.COMPRESS_ZLIB, each, deflated(t, make([]byte, each)))
	b = append(b, make([]byte, each/maxUnpacking)...)
	names := []string{".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges"}
	f := holding(elf.ELFCLASS64, binary.LittleEndian, b, elf.SHF_COMPRESSED, names...)
	if err := f.checkDebugSize(); err == nil {
		t.Error("the sections are not too large")
	}
	if _, _, err := f.dwarf(); err == nil || !strings.Contains(err.Error(), "claims to have more than") {
		t.Errorf("read with %v", err)
	}
	f.Sections = f.Sections[:4]
	if err := f.checkDebugSize(); err != nil {
		t.Errorf("four of them: %v", err)
	}
	many := holding(elf.ELFCLASS64, binary.LittleEndian, make([]byte, 1<<20), 0, slices.Repeat([]string{".debug_types"}, 400)...)
	if err := many.checkDebugSize(); err == nil {
		t.Error("400 times the file is not too large")
	}
}
