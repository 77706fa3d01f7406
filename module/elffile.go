package module

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// File is an ELF file on this machine. Its contents are read when they are
// asked for, and only those.
type File struct {
	// Path is where it was found, How by which rule: --exe, --lib-dir, ….
	Path, How string
	// Size is in bytes.
	Size int64
	// Proof is how it was proved to be the mapped file.
	Proof Proof
	// BuildID is that of the file, nil for none.
	BuildID BuildID
	// Programs are its program headers, Sections its section headers; the
	// latter are empty where the file has none or they are cut off.
	Programs []elf.ProgHeader
	Sections []elf.SectionHeader

	header *header
	r      io.ReaderAt
	closer io.Closer

	textRelocations func() bool
}

// maxSections bounds the section headers of one file; no linker makes as many
// for a file that can be mapped.
const (
	maxSections    = 1 << 17
	maxSectionName = 128
)

// openFile opens an ELF file. The error is os.Open's, or says why the file
// cannot serve; it wraps errNotELF for another kind of file.
func openFile(path string) (*File, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	// A path in a core can name anything: opening a pipe would hang, and a
	// device could do harm.
	if !st.Mode().IsRegular() {
		return nil, errNotELF
	}
	r, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := newFile(r, st.Size())
	if err != nil {
		r.Close()
		return nil, err
	}
	f.Path, f.closer = path, r
	return f, nil
}

// newFile reads the headers and the build-id of an ELF file of size bytes.
func newFile(r io.ReaderAt, size int64) (*File, error) {
	f := &File{Size: size, r: r}
	f.textRelocations = sync.OnceValue(f.findTextRelocations)
	head := make([]byte, min(maxHeaderSize, size))
	if err := f.readFull(head, 0); err != nil {
		return nil, err
	}
	h, err := parseHeader(head)
	if err != nil {
		return nil, err
	}
	f.header = h
	table := make([]byte, int(h.Phnum)*h.programSize())
	if err := f.readFull(table, h.Phoff); err != nil {
		return nil, fmt.Errorf("its program headers cannot be read: %w", err)
	}
	f.Programs = h.programs(table)
	if err := f.readSections(); err != nil {
		return nil, err
	}
	f.BuildID = f.findBuildID()
	return f, nil
}

func (f *File) close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// errBehindEnd is for bytes that the headers promise and the file does not have.
var errBehindEnd = errors.New("the file ends before that: it is cut")

// readFull reads all of b at a file offset.
func (f *File) readFull(b []byte, offset uint64) error {
	if offset > uint64(f.Size) || uint64(len(b)) > uint64(f.Size)-offset {
		return errBehindEnd
	}
	if n, err := f.r.ReadAt(b, int64(offset)); n < len(b) {
		return fmt.Errorf("reading %d bytes at offset %#x: %w", len(b), offset, err)
	}
	return nil
}

// readSections reads the section headers. A file that is cut before them is no
// error: what it says of memory can still be had.
func (f *File) readSections() error {
	h := f.header
	if h.Shoff == 0 || int(h.Shentsize) != h.sectionSize() {
		return nil
	}
	first := make([]byte, h.sectionSize())
	if err := f.readFull(first, h.Shoff); errors.Is(err, errBehindEnd) {
		return nil
	} else if err != nil {
		return err
	}
	null, _ := h.sections(first)
	// Numbers that do not fit the header stand in section 0.
	count, strings := uint64(h.Shnum), uint64(h.Shstrndx)
	if count == 0 {
		count = null[0].Size
	}
	if elf.SectionIndex(strings) == elf.SHN_XINDEX {
		strings = uint64(null[0].Link)
	}
	room := (uint64(f.Size) - h.Shoff) / uint64(h.sectionSize())
	if count > room || count > maxSections {
		return nil
	}
	table := make([]byte, count*uint64(h.sectionSize()))
	if err := f.readFull(table, h.Shoff); err != nil {
		return err
	}
	sections, names := h.sections(table)
	if strings >= count {
		return nil
	}
	stringTable := f.plain(sections[strings])
	for i := range sections {
		sections[i].Name = stringAt(stringTable, uint64(names[i]), maxSectionName)
	}
	f.Sections = sections
	return nil
}

// plain gives the bytes of a section as they stand in the file, nothing where
// the file does not hold all of them.
func (f *File) plain(s elf.SectionHeader) *io.SectionReader {
	if s.Type == elf.SHT_NOBITS || s.Offset > uint64(f.Size) || s.Size > uint64(f.Size)-s.Offset {
		return io.NewSectionReader(f.r, 0, 0)
	}
	return io.NewSectionReader(f.r, int64(s.Offset), int64(s.Size))
}

// findBuildID looks in the note segments, and in the note sections for a
// separate debug file, whose segments are empty.
func (f *File) findBuildID() BuildID {
	order := f.header.order
	if id := buildID(f.Programs, order, func(p elf.ProgHeader, b []byte) int {
		if f.readFull(b, p.Off) != nil {
			return 0
		}
		return len(b)
	}); id != nil {
		return id
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOTE {
			continue
		}
		b := make([]byte, min(s.Size, maxNotes))
		if f.readFull(b, s.Offset) != nil {
			continue
		}
		if id := findBuildID(b, order, s.Addralign); id != nil {
			return id
		}
	}
	return nil
}

// debugOnly tells a separate debug file from the file that was mapped: what
// memory may not write has been left out of it (objcopy --only-keep-debug,
// eu-strip -f), all but the notes.
func (f *File) debugOnly() bool {
	empty := false
	for _, s := range f.Sections {
		if s.Flags&(elf.SHF_ALLOC|elf.SHF_WRITE) != elf.SHF_ALLOC {
			continue
		}
		switch s.Type {
		case elf.SHT_PROGBITS:
			return false
		case elf.SHT_NOBITS:
			empty = true
		}
	}
	return empty
}

// cut tells how many bytes are missing of what the segments promise, 0 for
// none.
func (f *File) cut() uint64 {
	missing := uint64(0)
	for _, p := range f.Programs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		end := p.Off + p.Filesz
		if end < p.Off {
			end = ^uint64(0)
		}
		if end > uint64(f.Size) {
			missing = max(missing, end-uint64(f.Size))
		}
	}
	return missing
}

// ReadVirtual fills b with what the file's segments put at an address of the
// file, before any bias, and gives the number of bytes read: fewer where the
// segment's bytes end. What p_memsz adds is not part of the file.
func (f *File) ReadVirtual(b []byte, vaddr uint64) (int, error) {
	for _, p := range f.Programs {
		if p.Type != elf.PT_LOAD || vaddr < p.Vaddr || vaddr-p.Vaddr >= p.Filesz {
			continue
		}
		in := vaddr - p.Vaddr
		b = b[:min(uint64(len(b)), p.Filesz-in)]
		if err := f.readFull(b, p.Off+in); err != nil {
			return 0, fmt.Errorf("%s: address %#x: %w", f.Path, vaddr, err)
		}
		return len(b), nil
	}
	return 0, fmt.Errorf("%s: no segment of the file holds address %#x", f.Path, vaddr)
}
