package module

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxUnpacking is how many times its own size a compressed section may
	// unpack to; debugging information packs to a third or a tenth.
	maxUnpacking = 64
	// All sections that are read together may unpack to maxUnpackingFile times
	// the size of the file, and to plenty in any case: they can share their bytes.
	maxUnpackingFile = 16
	plenty           = 256 << 20
	// maxSection bounds what is read at once, in bytes.
	maxSection = 4 << 30
	// compressionHeader and compressionHeader32 are the sizes of Elf64_Chdr and
	// Elf32_Chdr in bytes.
	compressionHeader   = 24
	compressionHeader32 = 12
)

// Section reads a section, unpacked where it is compressed. The error says why
// it cannot be had: the file has none of that name, it is empty because it is
// in another file, or it is damaged.
func (f *File) Section(name string) ([]byte, error) {
	for i, s := range f.Sections {
		if s.Name != name && s.Name != packedName(name) {
			continue
		}
		b, err := f.section(i)
		if err != nil {
			return nil, fmt.Errorf("%s: section %s: %w", f.Path, name, err)
		}
		return b, nil
	}
	return nil, fmt.Errorf("%s has no section %s", f.Path, name)
}

// packedPrefix begins the names of sections that were compressed before ELF had a
// flag for it, as Go's linker did up to 1.18 (-gz=zlib-gnu).
const packedPrefix = ".zdebug_"

// packedName is the name that a section of debugging information then had.
func packedName(name string) string {
	if rest, ok := strings.CutPrefix(name, ".debug_"); ok {
		return packedPrefix + rest
	}
	return name
}

func (f *File) section(i int) ([]byte, error) {
	s := f.Sections[i]
	switch {
	case s.Type == elf.SHT_NOBITS:
		return nil, fmt.Errorf("its contents are not in this file")
	case s.Offset > uint64(f.Size) || s.Size > uint64(f.Size)-s.Offset:
		return nil, errBehindEnd
	case s.Size > maxSection:
		return nil, fmt.Errorf("it has %d bytes, more than are read at once (%d)", s.Size, uint64(maxSection))
	case packed(s):
		return f.unpack(s)
	}
	b := make([]byte, s.Size)
	return b, f.readFull(b, s.Offset)
}

// packing is how a section is compressed.
type packing struct {
	kind elf.CompressionType
	// header is the length of what is in front of the data, size is how long
	// the section claims to be.
	header, size uint64
}

// packed tells whether a section is compressed.
func packed(s elf.SectionHeader) bool {
	return s.Flags&elf.SHF_COMPRESSED != 0 || strings.HasPrefix(s.Name, packedPrefix)
}

// packing reads the header of a compressed section
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html#compression_header).
// In the old manner that is "ZLIB" and the size as a big-endian number of 64 bits.
func (f *File) packing(s elf.SectionHeader) (packing, error) {
	o := f.header.order
	head := make([]byte, compressionHeader)
	old := s.Flags&elf.SHF_COMPRESSED == 0
	if old || f.header.class == elf.ELFCLASS32 {
		head = head[:compressionHeader32]
	}
	if s.Size < uint64(len(head)) {
		return packing{}, fmt.Errorf("it is too short for a compressed one")
	}
	if err := f.readFull(head, s.Offset); err != nil {
		return packing{}, err
	}
	p := packing{kind: elf.CompressionType(o.Uint32(head)), header: uint64(len(head))} // ch_type
	switch {                                                                           // ch_size
	case old && string(head[:4]) != "ZLIB":
		return packing{}, fmt.Errorf("it does not begin as a compressed one does")
	case old:
		p.kind, p.size = elf.COMPRESS_ZLIB, binary.BigEndian.Uint64(head[4:])
	case f.header.class == elf.ELFCLASS32:
		p.size = uint64(o.Uint32(head[4:]))
	default:
		p.size = o.Uint64(head[8:])
	}
	if p.size > s.Size*maxUnpacking || p.size > f.maxUnpacked() {
		return packing{}, fmt.Errorf("it claims to unpack from %d to %d bytes", s.Size, p.size)
	}
	return p, nil
}

// maxUnpacked is how many bytes the sections may unpack to that are read together.
func (f *File) maxUnpacked() uint64 { return max(plenty, uint64(f.Size)*maxUnpackingFile) }

// unpack reads a compressed section. The decoders are given hostile files too, so
// that what they do is contained.
func (f *File) unpack(s elf.SectionHeader) (b []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, fmt.Errorf("damaged: %v", r)
		}
	}()
	p, err := f.packing(s)
	if err != nil {
		return nil, err
	}
	packed := bufio.NewReader(io.NewSectionReader(f.r, int64(s.Offset+p.header), int64(s.Size-p.header)))
	var decoder io.Reader
	switch p.kind {
	case elf.COMPRESS_ZLIB:
		if decoder, err = zlib.NewReader(packed); err != nil {
			return nil, fmt.Errorf("damaged: %w", err)
		}
	case elf.COMPRESS_ZSTD:
		z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(p.size, zstd.MinWindowSize)))
		if err != nil {
			return nil, fmt.Errorf("damaged: %w", err)
		}
		defer z.Close()
		decoder = z
	default:
		return nil, fmt.Errorf("it is compressed in a way that is not known (%d)", p.kind)
	}
	// What it claims is believed as far as sections are packed usually.
	out := bytes.NewBuffer(make([]byte, 0, min(p.size, 8*s.Size)+bytes.MinRead))
	if n, err := io.Copy(out, io.LimitReader(decoder, int64(p.size))); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	} else if uint64(n) < p.size {
		return nil, fmt.Errorf("it claims to unpack to %d bytes and ends after %d", p.size, n)
	}
	return out.Bytes(), nil
}
