package unwind

import (
	"cmp"
	"slices"
	"sort"
)

// index finds FDEs of a section that has no search table: .debug_frame, and
// .eh_frame of programs that were linked without --eh-frame-hdr.
type index struct {
	*section
	functions []indexed
}

type indexed struct{ begin, end, fde uint64 }

// maxIndexed bounds the functions of one section.
const maxIndexed = 1 << 22

// makeIndex goes through a section once. What is damaged ends it; the functions
// in front of that stay known.
func makeIndex(s *section) *index {
	x := &index{section: s}
	at := s.start
	for len(x.functions) < maxIndexed && (s.size == 0 || at-s.start < s.size) {
		e, err := s.entry(at)
		if err != nil {
			break
		}
		// .eh_frame ends at its first terminator when memory is all there is;
		// in a file there can be several, one of each object that was linked.
		if e.end && s.size == 0 {
			break
		}
		if !e.end && !e.isCIE {
			if f, err := s.parseFDE(e, at); err == nil && f.begin < f.end {
				x.functions = append(x.functions, indexed{f.begin, f.end, at})
			}
		}
		at = e.next
	}
	slices.SortStableFunc(x.functions, func(a, b indexed) int { return cmp.Compare(a.begin, b.begin) })
	return x
}

// find gives the address of the FDE that covers an address.
func (x *index) find(pc uint64) (uint64, bool) {
	after := sort.Search(len(x.functions), func(i int) bool { return x.functions[i].begin > pc })
	if after == 0 || pc >= x.functions[after-1].end {
		return 0, false
	}
	return x.functions[after-1].fde, true
}
