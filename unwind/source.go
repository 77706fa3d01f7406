package unwind

import (
	"debug/elf"
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

// finder finds the FDE for an address of a file.
type finder interface {
	find(pc uint64) (fde uint64, ok bool)
}

// source is one way to the call-frame information of a module.
type source struct {
	*section
	finder
}

// mappedImage is a file as it was mapped: from the core, else from the proven
// file.
type mappedImage struct {
	set  *module.Set
	bias elfcore.Addr
	word int
}

func (m mappedImage) read(p []byte, at uint64) bool {
	a := m.bias + elfcore.Addr(at)
	if m.word == 4 {
		a = elfcore.Addr(uint32(a))
	}
	n, err := m.set.ReadMemory(p, a)
	return err == nil && n == len(p)
}

// sectionImage is one section of a file.
type sectionImage struct {
	b     []byte
	start uint64
}

func (s sectionImage) read(p []byte, at uint64) bool {
	in := at - s.start
	if at < s.start || in > uint64(len(s.b)) || uint64(len(p)) > uint64(len(s.b))-in {
		return false
	}
	copy(p, s.b[in:])
	return true
}

// moduleFrames is the call-frame information of one module. Sources are opened
// when those in front of them do not have what is wanted.
type moduleFrames struct {
	sources []*source
	rest    []func() []*source
}

// framesOf gives the call-frame information of a module.
func (u *Unwinder) framesOf(m *module.Module) *moduleFrames {
	if m.Original != nil {
		m = m.Original
	}
	f := u.frames[m]
	if f == nil {
		f = &moduleFrames{rest: []func() []*source{
			func() []*source { return u.ehFrame(m) },
			func() []*source { return u.debugFrame(m) },
		}}
		u.frames[m] = f
	}
	return f
}

// row finds what call-frame information says for an address of the file; nil
// for nothing.
func (f *moduleFrames) row(pc uint64) (*row, error) {
	var damaged error
	for i := 0; ; i++ {
		for i == len(f.sources) {
			if len(f.rest) == 0 {
				return nil, damaged
			}
			f.sources = append(f.sources, f.rest[0]()...)
			f.rest = f.rest[1:]
		}
		s := f.sources[i]
		at, ok := s.find(pc)
		if !ok {
			continue
		}
		r, err := s.rowAt(at, pc)
		if err != nil {
			damaged = err
		}
		if r != nil {
			return r, nil
		}
	}
}

// rowAt runs the FDE at an address of the section; nil where it is about
// another function.
func (s *section) rowAt(at, pc uint64) (*row, error) {
	f, err := s.fde(at)
	if err != nil || pc < f.begin || pc >= f.end {
		return nil, err
	}
	r, err := f.row(pc, s.header)
	if err != nil {
		return nil, fmt.Errorf("the FDE at %#x: %w", at, err)
	}
	return r, nil
}

func (u *Unwinder) newSection(i image) *section {
	return &section{image: i, order: u.core.ByteOrder, word: u.core.Arch.WordSize(), cies: make(map[uint64]*cie)}
}

// ehFrame opens .eh_frame: through the search table that the loader maps, else
// by going through it.
func (u *Unwinder) ehFrame(m *module.Module) []*source {
	if !m.BiasKnown {
		return nil
	}
	s := u.newSection(mappedImage{u.set, m.Bias, u.core.Arch.WordSize()})
	s.eh = true
	for _, p := range m.Programs {
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		s.header = p.Vaddr
		t, frame := openSearchTable(s)
		if t != nil {
			return []*source{{s, t}}
		}
		if frame != 0 {
			s.start = frame
			return []*source{{s, makeIndex(s)}}
		}
	}
	return u.fileSection(m.File, ".eh_frame", true)
}

// debugFrame opens .debug_frame, of the file and of its separate debug file.
func (u *Unwinder) debugFrame(m *module.Module) []*source {
	return append(u.fileSection(m.File, ".debug_frame", false), u.fileSection(m.DebugFile(), ".debug_frame", false)...)
}

// fileSection opens a section of a file.
func (u *Unwinder) fileSection(f *module.File, name string, eh bool) []*source {
	if f == nil || !f.Proof.Certain() {
		return nil
	}
	for _, h := range f.Sections {
		if h.Name != name || h.Type == elf.SHT_NOBITS || h.Size == 0 {
			continue
		}
		b, err := f.Section(name)
		if err != nil {
			return nil
		}
		s := u.newSection(sectionImage{b, h.Addr})
		s.eh, s.start, s.size = eh, h.Addr, uint64(len(b))
		return []*source{{s, makeIndex(s)}}
	}
	return nil
}
