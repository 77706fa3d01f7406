package nptl

import (
	"path"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// Places where glibc keeps the heads of its lists.
type place int

const (
	inLoader     place = iota // _rtld_global, glibc 2.33 and later
	inLibpthread              // glibc up to 2.33
	inProgram                 // a static program, or ld.so run as a program
	inData                    // anywhere else
)

func (p place) String() string {
	switch p {
	case inLoader:
		return "the loader's data"
	case inLibpthread:
		return "libpthread's data"
	case inProgram:
		return "the program's data"
	}
	return "data"
}

// image is the writable memory of one mapped ELF file.
type image struct {
	place place
	// data are the parts of its writable memory that the core holds.
	data []elfcore.Range
	// missing tells that some of its writable memory is not in the core, partial
	// that there is more of it than data has.
	missing, partial bool
}

const (
	// No data segment of a loader, of libpthread or of a sane static program
	// is larger.
	maxDataSegment = 8 << 20
	// Nor is one of those that the last resort looks at.
	maxOtherSegment = 1 << 20
)

// images lists where the heads can be, likely places first.
func (v *view) images() []image {
	var out []image
	base := elfcore.Addr(v.Auxv[elfcore.AuxBase])
	entry := elfcore.Addr(v.Auxv[elfcore.AuxEntry])
	if v.HasMappings {
		var libpthread []image
		for _, f := range v.fileImages() {
			switch {
			case base != 0 && f.holds(base):
				out = append(out, v.imageOf(inLoader, f.ranges))
			case base == 0 && entry != 0 && f.holds(entry):
				out = append(out, v.imageOf(inProgram, f.ranges))
			case strings.HasPrefix(f.name, "libpthread-") || strings.HasPrefix(f.name, "libpthread."):
				libpthread = append(libpthread, v.imageOf(inLibpthread, f.ranges))
			}
		}
		out = append(out, libpthread...)
	} else if base != 0 {
		if r, ok := v.imageAt(base); ok {
			out = append(out, v.imageOf(inLoader, r))
		}
	} else if entry != 0 {
		if r, ok := v.imageAt(entry); ok {
			out = append(out, v.imageOf(inProgram, r))
		}
	}
	if len(out) == 0 {
		// There was a loader, or at least a program, but nothing of it is in
		// the core.
		switch {
		case base != 0:
			out = append(out, image{place: inLoader, missing: true})
		case entry != 0:
			out = append(out, image{place: inProgram, missing: true})
		}
	}
	return out
}

// fileImage is one copy of a mapped file.
type fileImage struct {
	name   string
	ranges []elfcore.Range
}

func (f *fileImage) holds(a elfcore.Addr) bool {
	for _, r := range f.ranges {
		if r.Contains(a) {
			return true
		}
	}
	return false
}

// fileImages groups NT_FILE by path: another library may be mapped into the
// hole between a file's text and data, so that neighbours say nothing. A file
// that is mapped twice (dlmopen) starts anew where its offset returns to 0.
func (v *view) fileImages() []*fileImage {
	var out []*fileImage
	open := make(map[string]*fileImage)
	grown := make(map[string]bool) // an offset above 0 was seen
	for _, m := range v.Mappings {
		f := open[m.Path]
		if f == nil || m.FileOffset == 0 && grown[m.Path] {
			f = &fileImage{name: path.Base(strings.TrimSuffix(m.Path, " (deleted)"))}
			open[m.Path], grown[m.Path] = f, false
			out = append(out, f)
		}
		if m.FileOffset > 0 {
			grown[m.Path] = true
		}
		f.ranges = append(f.ranges, m.Range)
		// .bss is anonymous memory that starts where the file's ends.
		if s, ok := v.Core.Segment(m.End); ok && s.Start == m.End && s.Writable() {
			if _, mapped := v.Mapping(m.End); !mapped {
				f.ranges = append(f.ranges, s.Range)
			}
		}
	}
	return out
}

// imageAt finds the extent of the image around an address where NT_FILE is
// missing: from the segment of the address to the end of the first run of
// touching writable segments behind it.
func (v *view) imageAt(a elfcore.Addr) ([]elfcore.Range, bool) {
	first, ok := v.segmentIndex(a)
	if !ok {
		return nil, false
	}
	var out []elfcore.Range
	for i := first; i < len(v.Segments); i++ {
		s := &v.Segments[i]
		if len(out) > 0 && (!s.Writable() || s.Start != out[len(out)-1].End) {
			break
		}
		if s.Writable() {
			out = append(out, s.Range)
		}
		if i-first > 16 {
			break
		}
	}
	return out, len(out) > 0
}

// imageOf picks the writable, dumped parts of ranges.
func (v *view) imageOf(p place, ranges []elfcore.Range) image {
	im := image{place: p}
	for _, r := range ranges {
		for at := r.Start; at < r.End; {
			s, ok := v.Core.Segment(at)
			if !ok {
				break
			}
			part := elfcore.Range{Start: at, End: min(s.End, r.End)}
			at = part.End
			if !s.Writable() {
				continue
			}
			have := v.dumped(s)
			if have.End < part.End {
				im.missing = true
			}
			part.End = min(part.End, have.End)
			switch {
			case s.Len() > maxDataSegment:
				im.partial = true
			case part.Start < part.End:
				im.data = append(im.data, part)
			}
		}
	}
	return im
}

// dumped is the part of a segment that the core holds.
func (v *view) dumped(s *elfcore.Segment) elfcore.Range {
	n := min(s.FileSize, s.Len())
	if s.Offset >= v.Size {
		n = 0
	} else {
		n = min(n, uint64(v.Size-s.Offset))
	}
	return elfcore.Range{Start: s.Start, End: s.Start + elfcore.Addr(n)}
}

// incomplete tells whether bytes of any writable memory are missing.
func (v *view) incomplete() bool {
	return slices.ContainsFunc(v.Segments, func(s elfcore.Segment) bool {
		return s.Writable() && v.dumped(&s).End < s.End
	})
}

// others is the last resort: all small writable segments, those first that
// follow a readable one that is not writable, or such a segment: they are some
// module's .data and .bss. Stacks have a guard or nothing in front of them.
func (v *view) others() image {
	im := image{place: inData}
	var rest []elfcore.Range
	module := false
	for i := range v.Segments {
		s := &v.Segments[i]
		touching := i > 0 && v.Segments[i-1].End == s.Start
		module = touching && (module || v.Segments[i-1].Readable() && !v.Segments[i-1].Writable())
		if !s.Writable() {
			module = false
			continue
		}
		if s.Len() > maxOtherSegment {
			continue
		}
		have := v.dumped(s)
		if have.End < s.End {
			im.missing = true
		}
		switch {
		case have.Len() == 0:
		case module:
			im.data = append(im.data, have)
		default:
			rest = append(rest, have)
		}
	}
	im.data = append(im.data, rest...)
	return im
}

// around is the run of touching writable segments that an address lies in: a
// module keeps .data and .bss side by side. Of a long run it is what lies within
// 64 KiB.
func (v *view) around(a elfcore.Addr) image {
	const reach = 64 << 10
	im := image{place: inData}
	first, ok := v.segmentIndex(a)
	if !ok || !v.Segments[first].Writable() {
		return im
	}
	near := elfcore.Range{Start: a - min(a, reach), End: a + reach}
	touching := func(i int) bool {
		return v.Segments[i-1].End == v.Segments[i].Start && v.Segments[i-1].Writable() && v.Segments[i].Writable()
	}
	for first > 0 && touching(first) && v.Segments[first].Start > near.Start {
		first--
	}
	for i := first; i == first || i < len(v.Segments) && touching(i) && v.Segments[i].Start < near.End; i++ {
		have := v.dumped(&v.Segments[i])
		if have.End < v.Segments[i].End {
			im.missing = true
		}
		if have.Len() > maxOtherSegment {
			im.partial = true
			have = elfcore.Range{Start: max(have.Start, near.Start), End: min(have.End, near.End)}
		}
		if have.Start < have.End {
			im.data = append(im.data, have)
		}
	}
	return im
}
