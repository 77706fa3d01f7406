package module

import "github.com/corethreads/corethreads/elfcore"

// WritableData gives the writable memory of a module that the core describes:
// its data, and the .bss behind it where only NT_FILE is known of the module.
func (s *Set) WritableData(m *Module) []elfcore.Range {
	var out []elfcore.Range
	for _, r := range m.Ranges {
		end := r.Start
		for i := range s.core.Segments {
			seg := &s.core.Segments[i]
			if seg.Writable() && seg.Overlaps(r) {
				out = append(out, elfcore.Range{Start: max(seg.Start, r.Start), End: min(seg.End, r.End)})
				end = seg.End
			}
		}
		if seg, ok := s.core.Segment(end); ok && seg.Start == r.End && seg.Writable() {
			if _, mapped := s.core.Mapping(end); !mapped {
				out = append(out, seg.Range)
			}
		}
	}
	return out
}
