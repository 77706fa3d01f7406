package elfcore

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
)

// programHeaders is what readProgramHeaders found.
type programHeaders struct {
	loads    []Segment
	notes    []noteSegment
	missing  int64
	warnings []Warning
}

// noteSegment is one PT_NOTE program header.
type noteSegment struct {
	offset, size uint64
	align        uint64
}

// readProgramHeaders reads all program headers, a few at a time: their number
// is only a claim until they have been read. Layout:
// https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.pheader.html
func readProgramHeaders(f *cachedFile, h *header) (*programHeaders, error) {
	out := &programHeaders{}
	if h.phoff > uint64(f.size) {
		return nil, &FormatError{Offset: 28, What: fmt.Sprintf("the program headers start at offset %#x, behind the end of the file (%d bytes): nothing of this core was kept", h.phoff, f.size)}
	}
	const batch = 256
	size := uint64(h.phentsize)
	buf := make([]byte, batch*h.phentsize)
	limit := Addr(^uint64(0))
	if h.class == elf.ELFCLASS32 {
		limit = 0xffffffff
	}
	end := uint64(f.size) // how far the headers say that the file goes
	count := h.phnum
	for i := uint64(0); i < count; {
		at := h.phoff + i*size
		n, err := f.readSome(buf[:min(uint64(batch), count-i)*size], int64(at))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		whole := uint64(n) / size
		if whole == 0 {
			left := count - i
			out.warnings = append(out.warnings, Warning{Offset: int64(at), Text: fmt.Sprintf("the file ends inside its program headers: %d of %d are missing", left, count)})
			out.missing = int64(min(left, 1<<32) * size)
			break
		}
		for j := range whole {
			p := parseProgramHeader(buf[j*size:], h)
			if h.phnumIsUnreachable && p.typ == elf.PT_NOTE && i+j == 0 && p.offset > h.phoff {
				// fs/binfmt_elf.c puts the notes right behind the
				// program headers.
				count = (p.offset - h.phoff) / size
			}
			if stop := p.offset + p.filesz; p.filesz > 0 && p.offset <= 1<<62 && p.filesz <= 1<<62 && stop > end {
				end = stop
			}
			switch p.typ {
			case elf.PT_NOTE:
				out.notes = append(out.notes, noteSegment{offset: p.offset, size: p.filesz, align: p.align})
			case elf.PT_LOAD:
				s, why := p.segment(int(i+j), limit)
				if why != "" {
					out.warnings = append(out.warnings, Warning{Offset: int64(at + j*size), Text: why})
				}
				if s.Len() > 0 {
					out.loads = append(out.loads, s)
				}
			}
		}
		i += whole
		if i >= count {
			break
		}
	}
	out.missing += int64(end - uint64(f.size))
	return out, nil
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
func (p programHeader) segment(index int, limit Addr) (Segment, string) {
	s := Segment{Offset: int64(p.offset), FileSize: p.filesz, Flags: p.flags, Index: index}
	s.Start = Addr(p.vaddr)
	var why string
	size := p.memsz
	switch {
	case size == 0:
		// Some producers leave p_memsz 0 for memory that they did dump.
		size = min(p.filesz, 1<<48)
	case p.filesz > size:
		why = fmt.Sprintf("segment %d at %s holds more bytes (%d) than it is long (%d): the rest is ignored", index, s.Start, p.filesz, size)
	}
	end, ok := s.Start.Add(size)
	if !ok || end > limit && end-1 > limit {
		why = fmt.Sprintf("segment %d at %s is %d bytes long, which leaves the address space: it is cut there", index, s.Start, size)
		end = limit
		if end < s.Start {
			end = s.Start
		}
	}
	s.End = end
	if p.offset > 1<<62 {
		why = fmt.Sprintf("segment %d at %s claims to stand at offset %#x of the core: its bytes are taken as missing", index, s.Start, p.offset)
		s.Offset = 1 << 62
	}
	s.FileSize = min(s.FileSize, s.Len())
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
		c.warn(0, "%d segments overlap the one before: where two hold an address, the one that starts later is used", overlaps)
	}
	return out
}
