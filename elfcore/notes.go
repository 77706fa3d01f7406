package elfcore

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// Note types of linux/elf.h and linux/elfcore.h.
const (
	ntPRStatus elf.NType = 1
	ntPRPSInfo elf.NType = 3
	ntAuxv     elf.NType = 6
	ntSigInfo  elf.NType = 0x53494749
	ntFile     elf.NType = 0x46494c45

	// Types that only Solaris uses (sys/elf.h there).
	ntPStatus   elf.NType = 10
	ntPSInfo    elf.NType = 13
	ntLWPStatus elf.NType = 16
)

// maxNote bounds the notes that are read whole. The kernel itself limits
// NT_FILE, the largest, to 4 MiB.
const maxNote = 16 << 20

// maxStruct bounds a note that holds one struct of the kernel.
const maxStruct = 4096

// maxName bounds the name of a note, in bytes.
const maxName = 4096

// noteBlock is how much of the notes is read at once.
const noteBlock = 64 << 10

// noteSummary is what the notes as a whole tell about who wrote them.
type noteSummary struct {
	order []elf.NType // types of the first notes, in order
	// others tells that there were notes of other types than NT_PRSTATUS,
	// NT_PRPSINFO and NT_AUXV.
	others bool
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
	if len(segments) == 0 && !c.NotesCut {
		c.warn(0, "no notes: neither threads nor registers are in this core")
	}
	sum := &noteSummary{}
	left := uint64(c.Size)
	for _, s := range segments {
		// Segments that lie one over the other would let a small core hold
		// any number of threads.
		there := min(s.size, uint64(c.Size)-min(s.offset, uint64(c.Size)))
		if there > left {
			c.NotesCut = true
			c.warn(int64(s.offset), "the note segments overlap: only the first are read")
			break
		}
		left -= there
		if err := c.readNoteSegment(s, sum); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

func (c *Core) readNoteSegment(s noteSegment, sum *noteSummary) error {
	if s.offset > uint64(c.Size) {
		c.NotesCut = true
		c.warn(c.Size, "the notes start at offset %#x, behind the end of the file: the threads are not known", s.offset)
		return nil
	}
	promised := s.offset + min(s.size, maxOffset)
	end := int64(min(promised, uint64(c.Size)))
	align := int64(4)
	if s.align == 8 && c.paddedTo8(int64(s.offset), end) {
		align = 8
	}
	buffer := make([]byte, maxName)
	for at, known := int64(s.offset), int64(0); at+12 <= end; {
		if at >= known {
			known = min(at+noteBlock, end)
			c.file.ahead(at, known-at)
		}
		n, next, err := c.readNote(buffer, at, end, align)
		var bad *FormatError
		if errors.As(err, &bad) {
			c.NotesCut = true
			if promised <= uint64(c.Size) {
				c.warn(bad.Offset, "%s: the notes behind it are not read", bad.What)
			}
			break
		}
		if err != nil {
			return err
		}
		if err := c.handleNote(n, sum); err != nil {
			return err
		}
		at = next
	}
	if promised > uint64(c.Size) {
		c.NotesCut = true
		c.warn(c.Size, "the file ends inside its notes: there may have been more threads than the %d that are left", len(c.Threads))
	}
	return nil
}

// readNote reads the header and name of the note at a file offset, in a segment
// that ends at end. A note that does not fit there is a *FormatError. Layout:
// https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html#note_section
//
// The buffer, of maxName bytes, is for one note after the other.
func (c *Core) readNote(buffer []byte, at, end, align int64) (n note, next int64, err error) {
	head := buffer[:12]
	if err := c.file.readFull(head, at); err != nil {
		return n, 0, err
	}
	namesz := int64(c.ByteOrder.Uint32(head[0:]))
	n.size = int64(c.ByteOrder.Uint32(head[4:]))
	n.typ = elf.NType(c.ByteOrder.Uint32(head[8:]))
	n.desc = at + roundUp(12+namesz, align)
	if namesz > maxName || n.desc > end || n.size > end-n.desc {
		return n, 0, &FormatError{Offset: at, What: fmt.Sprintf("a note with a name of %d and a descriptor of %d bytes, more than there is", namesz, n.size)}
	}
	name := buffer[:namesz]
	if err := c.file.readFull(name, at+12); err != nil {
		return n, 0, err
	}
	switch name = bytes.TrimRight(name, "\x00"); string(name) {
	case "CORE":
		n.name = "CORE" // which thousands of notes have in common
	case "LINUX":
		n.name = "LINUX"
	default:
		n.name = string(name)
	}
	return n, n.desc + roundUp(n.size, align), nil
}

// paddedTo8 tells whether the notes of a segment with p_align 8 are padded to
// 8 bytes. Most producers pad to 4 whatever p_align says; a few follow the
// letter of the gABI.
func (c *Core) paddedTo8(at, end int64) bool {
	buffer := make([]byte, maxName)
	for range 3 {
		n, next, err := c.readNote(buffer, at, end, 8)
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
	switch n.name {
	case "CORE", "LINUX", "": // some old kernels left it out
	default:
		if what, ok := foreignSystem(n.name); ok {
			return &FormatError{Offset: n.desc, What: what}
		}
		return nil // the same types mean something else under another name
	}
	if len(sum.order) < 3 {
		sum.order = append(sum.order, n.typ)
	}
	switch n.typ {
	case ntPStatus, ntPSInfo, ntLWPStatus:
		return &FormatError{Offset: n.desc, What: "a core of Solaris or illumos: only Linux cores can be read; use mdb or pstack of that system"}
	case ntPRStatus:
		return c.withDescriptor(n, maxStruct, c.parsePRStatus)
	case ntPRPSInfo:
		if c.Process != nil {
			return nil
		}
		return c.withDescriptor(n, maxStruct, c.parsePRPSInfo)
	case ntAuxv:
		return c.withDescriptor(n, maxNote, c.parseAuxv)
	}
	sum.others = true
	switch {
	case n.typ == ntSigInfo:
		return c.withDescriptor(n, maxStruct, c.parseSigInfo)
	case n.typ == ntFile && c.HasMappings:
		c.warn(n.desc, "a second NT_FILE note: ignored")
	case n.typ == ntFile:
		return c.withDescriptor(n, maxNote, c.parseMappings)
	case len(c.Threads) > 0 && c.Arch.keeps(n.typ):
		return c.withDescriptor(n, maxStruct, c.Threads[len(c.Threads)-1].keep(n.typ))
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

// foreignSystem says of what system a core with a note of this name is.
func foreignSystem(name string) (what string, ok bool) {
	system := ""
	switch {
	case strings.HasPrefix(name, "NetBSD-CORE"): // @ and the thread follow
		system = "NetBSD"
	case strings.HasPrefix(name, "OpenBSD"):
		system = "OpenBSD"
	case name == "FreeBSD", name == "QNX":
		system = name
	case name == "VMCOREINFO":
		return "a dump of a kernel (vmcore), not of a process; the crash utility and drgn read it", true
	default:
		return "", false
	}
	return fmt.Sprintf("a core of %s: only Linux cores can be read; use the debugger of that system", system), true
}

func roundUp(n, align int64) int64 { return (n + align - 1) &^ (align - 1) }
