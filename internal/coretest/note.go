package coretest

import "debug/elf"

// Note is one ELF note.
type Note struct {
	// Name is written with a terminating NUL byte.
	Name string
	Type elf.NType
	Desc []byte
	// ClaimName and ClaimDesc, where not 0, are written as n_namesz and
	// n_descsz in place of the true sizes.
	ClaimName, ClaimDesc uint32
}

// NoteSegment is a PT_NOTE segment.
type NoteSegment struct {
	Notes []Note
	// Align is p_align and what names and descriptors are padded to: 4, also
	// when it is 0, or 8 (the gABI's letter for 64-bit files).
	Align uint64
	// Unpadded leaves out the padding behind the last note.
	Unpadded bool
}

func (s NoteSegment) align() uint64 { return max(s.Align, 4) }

// encode follows "Note Section" of the System V gABI: n_namesz, n_descsz and
// n_type are 32-bit words in both classes.
func (s NoteSegment) encode(a ABI) []byte {
	var b []byte
	pad := func() { b = append(b, make([]byte, -uint64(len(b))%s.align())...) }
	for i, n := range s.Notes {
		name := append([]byte(n.Name), 0)
		header := [3]uint32{uint32(len(name)), uint32(len(n.Desc)), uint32(n.Type)}
		if n.ClaimName != 0 {
			header[0] = n.ClaimName
		}
		if n.ClaimDesc != 0 {
			header[1] = n.ClaimDesc
		}
		b = append(a.append(b, header), name...)
		pad()
		b = append(b, n.Desc...)
		if i < len(s.Notes)-1 || !s.Unpadded {
			pad()
		}
	}
	return b
}
