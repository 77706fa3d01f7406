package elfcore

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Note types of linux/elf.h and linux/elfcore.h.
const (
	ntPRStatus elf.NType = 1
	ntPRPSInfo elf.NType = 3
	ntAuxv     elf.NType = 6
	ntSigInfo  elf.NType = 0x53494749
	ntFile     elf.NType = 0x46494c45
)

// maxNote bounds the notes that are read whole. The kernel itself limits
// NT_FILE, the largest, to 4 MiB.
const maxNote = 16 << 20

// noteSummary is what the notes as a whole tell about who wrote them.
type noteSummary struct {
	order    []elf.NType // types of the first notes, in order
	seen     map[elf.NType]bool
	firstTID int64 // offset of the first NT_PRSTATUS
}

// note is one note: its name without padding, and where its descriptor is.
type note struct {
	name string
	typ  elf.NType
	desc int64
	size int64
}

// readNotes reads all PT_NOTE segments.
func (c *Core) readNotes(segments []noteSegment) (*noteSummary, error) {
	sum := &noteSummary{seen: make(map[elf.NType]bool)}
	if len(segments) == 0 {
		c.warn(0, "no notes: neither threads nor registers are in this core")
	}
	if len(segments) > 64 {
		c.warn(0, "%d note segments: only the first 64 are read", len(segments))
		segments = segments[:64]
	}
	for _, s := range segments {
		if err := c.readNoteSegment(s, sum); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

func (c *Core) readNoteSegment(s noteSegment, sum *noteSummary) error {
	if s.offset > uint64(c.Size) || s.size > 1<<62 {
		c.NotesCut = true
		c.warn(c.Size, "the notes start at offset %#x, behind the end of the file: the threads are not known", s.offset)
		return nil
	}
	end := int64(min(s.offset+s.size, uint64(c.Size)))
	cut := uint64(end) < s.offset+s.size
	align := int64(4)
	if s.align == 8 && c.paddedTo8(int64(s.offset), end) {
		align = 8
	}
	for at := int64(s.offset); at+12 <= end; {
		n, next, err := c.readNote(at, end, align)
		var bad *FormatError
		switch {
		case errors.As(err, &bad):
			if !cut {
				c.warn(bad.Offset, "%s: the notes behind it are not read", bad.What)
			}
			c.NotesCut = true
			return nil
		case err != nil:
			return err
		}
		if err := c.handleNote(n, sum); err != nil {
			return err
		}
		at = next
	}
	if cut {
		c.NotesCut = true
		c.warn(c.Size, "the file ends inside its notes: there may have been more threads than the %d that are left", len(c.Threads))
	}
	return nil
}

// readNote reads the header and name of the note at a file offset; layout:
// https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html#note_section
func (c *Core) readNote(at, end, align int64) (n note, next int64, err error) {
	var head [12]byte
	if err := c.file.readFull(head[:], at); err != nil {
		return n, 0, c.noteError(err, at)
	}
	namesz := int64(c.ByteOrder.Uint32(head[0:]))
	n.size = int64(c.ByteOrder.Uint32(head[4:]))
	n.typ = elf.NType(c.ByteOrder.Uint32(head[8:]))
	n.desc = at + 12 + roundUp(namesz, align)
	if align == 8 {
		n.desc = at + roundUp(12+namesz, align)
	}
	if namesz > 4096 || n.desc > end || n.size > end-n.desc {
		return n, 0, &FormatError{Offset: at, What: fmt.Sprintf("a note with a name of %d and a descriptor of %d bytes, more than there is", namesz, n.size)}
	}
	name := make([]byte, namesz)
	if err := c.file.readFull(name, at+12); err != nil {
		return n, 0, c.noteError(err, at)
	}
	n.name = strings.TrimRight(string(name), "\x00")
	return n, n.desc + roundUp(n.size, align), nil
}

func (c *Core) noteError(err error, at int64) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &FormatError{Offset: at, What: "the file ends inside a note"}
	}
	return err
}

// paddedTo8 tells whether the notes of a segment with p_align 8 are padded to
// 8 bytes. Most producers pad to 4 whatever p_align says; a few follow the
// letter of the gABI.
func (c *Core) paddedTo8(at, end int64) bool {
	for range 3 {
		n, next, err := c.readNote(at, end, 8)
		if err != nil || !(n.name == "CORE" || n.name == "LINUX") {
			return false
		}
		if at = next; at+12 > end {
			return true
		}
	}
	return true
}

// handleNote takes what it knows from one note.
func (c *Core) handleNote(n note, sum *noteSummary) error {
	if system, ok := foreignSystem(n.name); ok {
		return &FormatError{Offset: n.desc, What: fmt.Sprintf("a core of %s: only Linux cores can be read; use the debugger of that system", system)}
	}
	if len(sum.order) < 8 {
		sum.order = append(sum.order, n.typ)
	}
	sum.seen[n.typ] = true
	switch n.typ {
	case ntPRStatus:
		return c.withDescriptor(n, 4096, c.parsePRStatus)
	case ntPRPSInfo:
		if c.Process != nil {
			return nil
		}
		return c.withDescriptor(n, 4096, c.parsePRPSInfo)
	case ntSigInfo:
		return c.withDescriptor(n, 4096, c.parseSigInfo)
	case ntAuxv:
		return c.withDescriptor(n, maxNote, c.parseAuxv)
	case ntFile:
		if c.HasMappings {
			c.warn(n.desc, "a second NT_FILE note: ignored")
			return nil
		}
		return c.withDescriptor(n, maxNote, c.parseMappings)
	}
	if len(c.Threads) > 0 && c.Arch.keeps(n.typ) {
		return c.withDescriptor(n, 4096, func(desc []byte, offset int64) {
			t := &c.Threads[len(c.Threads)-1]
			t.notes = append(t.notes, threadNote{typ: n.typ, offset: offset, desc: desc})
		})
	}
	return nil
}

// withDescriptor hands a note's descriptor to a parser, no more than most bytes
// of it.
func (c *Core) withDescriptor(n note, most int64, parse func(desc []byte, offset int64)) error {
	if n.size > most {
		c.warn(n.desc, "a note of type %#x with %d bytes: only the first %d are read", uint32(n.typ), n.size, most)
	}
	desc := make([]byte, min(n.size, most))
	if err := c.file.readFull(desc, n.desc); err != nil {
		return err
	}
	parse(desc, n.desc)
	return nil
}

// foreignSystem names the system whose cores use this note name.
func foreignSystem(name string) (string, bool) {
	switch {
	case strings.HasPrefix(name, "NetBSD-CORE"):
		return "NetBSD", true
	case strings.HasPrefix(name, "OpenBSD"):
		return "OpenBSD", true
	case name == "FreeBSD":
		return "FreeBSD", true
	case name == "QNX":
		return "QNX", true
	case name == "VMCOREINFO":
		return "a Linux kernel (a vmcore, not a process); the crash utility and drgn read it", true
	}
	return "", false
}

func roundUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }
