package elfcore

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
)

// noteSegment is one PT_NOTE program header.
type noteSegment struct {
	offset, size uint64
	align        uint64
}

// maxOffset is where offsets in the core are taken to be a lie: sums of two
// below it do not overflow.
const maxOffset = 1 << 62

// readProgramHeaders reads all program headers, a few at a time: their number
// is only a claim until they have been read. Layout:
// https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html
func (c *Core) readProgramHeaders(h *header) (loads []Segment, notes []noteSegment, err error) {
	if h.phnumIsUnreachable {
		c.warn(h.phnumAt(), "more than 65534 program headers, but their number, at offset %#x, is missing: it is taken from where the notes start", h.shoff)
	}
	size := uint64(h.phentsize)
	batch := max(1, 16<<10/size)
	buf := make([]byte, batch*size)
	end := uint64(c.Size) // how far the headers say that the file goes
	count := h.phnum
	for i := uint64(0); i < count; {
		n, err := c.file.readSome(buf[:min(batch, count-i)*size], int64(h.phoff+i*size))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, nil, err
		}
		whole := uint64(n) / size
		if whole == 0 {
			c.NotesCut = true
			c.warn(int64(h.phoff+i*size), "the file ends inside its program headers: %d of %d are missing", count-i, count)
			break
		}
		for b := buf[:whole*size]; len(b) > 0 && i < count; b, i = b[size:], i+1 {
			p := parseProgramHeader(b, h)
			if p.typ != elf.PT_NULL && p.filesz > 0 {
				end = max(end, min(p.offset, maxOffset)+min(p.filesz, maxOffset))
			}
			switch p.typ {
			case elf.PT_NOTE:
				if h.phnumIsUnreachable && i == 0 && p.offset > h.phoff {
					// fs/binfmt_elf.c puts the notes right behind the
					// program headers.
					count = (p.offset - h.phoff) / size
				}
				notes = append(notes, noteSegment{offset: p.offset, size: p.filesz, align: p.align})
			case elf.PT_LOAD:
				s, why := p.segment(int(i), h.class)
				if why != "" {
					c.warn(int64(h.phoff+i*size), "%s", why)
				}
				if s.Len() > 0 {
					loads = append(loads, s)
				}
			}
		}
	}
	end = max(end, min(h.phoff+count*size, maxOffset))
	c.MissingBytes = int64(end - uint64(c.Size))
	return loads, notes, nil
}

type programHeader struct {
	typ                                 elf.ProgType
	flags                               elf.ProgFlag
	offset, vaddr, filesz, memsz, align uint64
}

func parseProgramHeader(b []byte, h *header) programHeader {
	o := h.order
	if h.class == elf.ELFCLASS32 {
		return programHeader{
			typ:    elf.ProgType(o.Uint32(b[0:])),
			offset: uint64(o.Uint32(b[4:])),
			vaddr:  uint64(o.Uint32(b[8:])),
			filesz: uint64(o.Uint32(b[16:])),
			memsz:  uint64(o.Uint32(b[20:])),
			flags:  elf.ProgFlag(o.Uint32(b[24:])),
			align:  uint64(o.Uint32(b[28:])),
		}
	}
	return programHeader{
		typ:    elf.ProgType(o.Uint32(b[0:])),
		flags:  elf.ProgFlag(o.Uint32(b[4:])),
		offset: o.Uint64(b[8:]),
		vaddr:  o.Uint64(b[16:]),
		filesz: o.Uint64(b[32:]),
		memsz:  o.Uint64(b[40:]),
		align:  o.Uint64(b[48:]),
	}
}

// segment checks a PT_LOAD; the second result says what had to be corrected.
func (p programHeader) segment(index int, class elf.Class) (Segment, string) {
	s := Segment{Offset: int64(min(p.offset, maxOffset)), Flags: p.flags, Index: index}
	s.Start = Addr(p.vaddr)
	size := p.memsz
	if size == 0 {
		// Some producers leave p_memsz 0 for memory that they did dump.
		size = p.filesz
	}
	top := ^Addr(0)
	if class == elf.ELFCLASS32 {
		top = 1 << 32
	}
	var why string
	var ok bool
	if s.End, ok = s.Start.Add(size); !ok || s.End > top {
		why = fmt.Sprintf("segment %d at %s is %d bytes long, which leaves the address space: it is cut there", index, s.Start, size)
		s.End = top
	}
	switch {
	case p.offset > maxOffset || p.filesz > maxOffset:
		why = fmt.Sprintf("segment %d at %s claims %#x bytes at offset %#x of the core: those far behind its end are taken as missing", index, s.Start, p.filesz, p.offset)
	case p.filesz > size:
		why = fmt.Sprintf("segment %d at %s holds more bytes (%d) than it is long (%d): the rest is ignored", index, s.Start, p.filesz, size)
	}
	s.FileSize = min(p.filesz, s.Len(), maxOffset)
	return s, why
}

// sortSegments orders segments by address and cuts those that overlap, so that
// each address belongs to one.
func (c *Core) sortSegments(loads []Segment) []Segment {
	slices.SortStableFunc(loads, func(a, b Segment) int { return cmp.Compare(a.Start, b.Start) })
	out := loads[:0]
	overlaps := 0
	for _, s := range loads {
		if n := len(out); n > 0 && out[n-1].Overlaps(s.Range) {
			overlaps++
			prev := &out[n-1]
			prev.End = s.Start
			prev.FileSize = min(prev.FileSize, prev.Len())
			if prev.Len() == 0 {
				out = out[:n-1]
			}
		}
		out = append(out, s)
	}
	if overlaps > 0 {
		c.warn(0, "%d segments overlap the one before: where two hold an address, the one that starts later is used, and nothing that the other has behind its start", overlaps)
	}
	return out
}
