package module

import (
	"debug/elf"
	"errors"
	"slices"
	"sort"

	"github.com/corethreads/corethreads/elfcore"
)

// Origin is where bytes of memory came from.
type Origin struct {
	// Core tells that at least one is from the core.
	Core bool
	// Files are the files that the others are from.
	Files []*File
}

// ReadMemory fills p with the memory at a and gives the number of bytes read:
// from the core, and what that does not hold from the proven files. A file
// stands for memory that the process had mapped from it and could not write:
// neither may its segment be writable, nor the memory when the process died, nor
// may the file have relocations of its code. Where that is less than len(p), the
// error is the core's for the first byte that is missing.
func (s *Set) ReadMemory(p []byte, a elfcore.Addr) (int, error) {
	n, _, err := s.ReadMemoryFrom(p, a)
	return n, err
}

// ReadMemoryFrom is ReadMemory that also tells where the bytes are from.
func (s *Set) ReadMemoryFrom(p []byte, a elfcore.Addr) (n int, from Origin, err error) {
	for {
		got, err := s.core.ReadMemory(p[n:], a+elfcore.Addr(n))
		from.Core = from.Core || got > 0
		n += got
		var fault *elfcore.Fault
		if err == nil || !errors.As(err, &fault) || fault.Why == elfcore.Unmapped {
			return n, from, err
		}
		b, file := s.fromFile(p[n:], a+elfcore.Addr(n))
		if b == 0 {
			return n, from, err
		}
		n += b
		if !slices.Contains(from.Files, file) {
			from.Files = append(from.Files, file)
		}
		if n == len(p) {
			return n, from, nil
		}
	}
}

// fromFile reads memory that the core does not hold from the file that it was
// mapped from, as far as the core does not hold it.
func (s *Set) fromFile(p []byte, a elfcore.Addr) (int, *File) {
	m := s.At(a)
	if m == nil || m.File == nil || !m.File.Proof.Certain() || !m.BiasKnown {
		return 0, nil
	}
	seg, dumped := s.core.Segment(a)
	if dumped && seg.Writable() {
		return 0, nil
	}
	mapping, mapped := s.core.Mapping(a)
	if s.core.HasMappings && (!mapped || mapping.Path != m.Path || !m.mapsTo(m.File, m.Bias, *mapping)) {
		return 0, nil // something else was mapped over it
	}
	v := uint64(s.core.difference(a, m.Bias))
	if !m.File.fixed(v) {
		return 0, nil
	}
	// Behind the segment, or before the next one, the core may hold the bytes.
	end := ^elfcore.Addr(0)
	if dumped {
		end = seg.End
	} else if next := s.nextSegment(a); next != 0 {
		end = next
	}
	if mapped {
		end = min(end, mapping.End)
	}
	n, err := m.File.ReadVirtual(p[:min(uint64(len(p)), uint64(end-a))], v)
	if err != nil {
		return 0, nil
	}
	return n, m.File
}

// nextSegment is where the first segment behind an address starts, 0 for none.
func (s *Set) nextSegment(a elfcore.Addr) elfcore.Addr {
	i := sort.Search(len(s.core.Segments), func(i int) bool { return s.core.Segments[i].Start > a })
	if i == len(s.core.Segments) {
		return 0
	}
	return s.core.Segments[i].Start
}

// fixed tells whether memory at an address of the file is what the file has:
// the loader does not change it, and the program cannot.
func (f *File) fixed(vaddr uint64) bool {
	for _, h := range f.Programs {
		if h.Type == elf.PT_LOAD && vaddr >= h.Vaddr && vaddr-h.Vaddr < h.Filesz {
			return h.Flags&elf.PF_W == 0 && !f.textRelocations()
		}
	}
	return false
}

// findTextRelocations tells whether the loader relocates what is not writable.
func (f *File) findTextRelocations() bool {
	entries := f.dynamic()
	_, old := dynamicValue(entries, elf.DT_TEXTREL)
	flags, _ := dynamicValue(entries, elf.DT_FLAGS)
	return old || elf.DynFlag(flags)&elf.DF_TEXTREL != 0
}
