package module

import (
	"debug/elf"
	"fmt"
	"io"
)

const (
	// maxUnpacking is how many times its own size a compressed section may
	// unpack to; debugging information packs to a third or a tenth.
	maxUnpacking = 64
	// maxSection bounds what is read at once, in bytes.
	maxSection = 4 << 30
	// compressionHeader is the size of Elf64_Chdr in bytes.
	compressionHeader = 24
)

// Section reads a section, unpacked where it is compressed. The error says why
// it cannot be had: the file has none of that name, it is empty because it is
// in another file, or it is damaged.
func (f *File) Section(name string) ([]byte, error) {
	for i, s := range f.Sections {
		if s.Name != name {
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

func (f *File) section(i int) ([]byte, error) {
	s := f.Sections[i]
	switch {
	case s.Type == elf.SHT_NOBITS:
		return nil, fmt.Errorf("its contents are not in this file")
	case s.Offset > uint64(f.Size) || s.Size > uint64(f.Size)-s.Offset:
		return nil, errBehindEnd
	case s.Size > maxSection:
		return nil, fmt.Errorf("it has %d bytes, more than are read at once (%d)", s.Size, uint64(maxSection))
	case s.Flags&elf.SHF_COMPRESSED != 0:
		return f.unpack(i)
	}
	b := make([]byte, s.Size)
	return b, f.readFull(b, s.Offset)
}

// unpack reads a compressed section
// (https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html#compression_header).
// The standard library knows both kinds of compression; it is not meant for
// hostile files, so what it is given is checked and what it does is contained.
func (f *File) unpack(i int) (b []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, fmt.Errorf("damaged: %v", r)
		}
	}()
	s := f.Sections[i]
	head := make([]byte, min(s.Size, compressionHeader))
	if err := f.readFull(head, s.Offset); err != nil {
		return nil, err
	}
	if len(head) < compressionHeader {
		return nil, fmt.Errorf("it is too short for a compressed one")
	}
	size := f.header.order.Uint64(head[8:]) // ch_size
	if f.header.class == elf.ELFCLASS32 {
		size = uint64(f.header.order.Uint32(head[4:]))
	}
	if size > s.Size*maxUnpacking {
		return nil, fmt.Errorf("it claims to unpack from %d to %d bytes", s.Size, size)
	}
	whole, err := elf.NewFile(io.NewSectionReader(f.r, 0, f.Size))
	if err != nil {
		return nil, err
	}
	if i >= len(whole.Sections) {
		return nil, fmt.Errorf("the section headers changed while they were read")
	}
	return whole.Sections[i].Data()
}
