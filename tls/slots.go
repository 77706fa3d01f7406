package tls

import (
	"github.com/corethreads/corethreads/elfcore"
)

// slotList is dtv_slotinfo_list (sysdeps/generic/ldsodefs.h): which module has
// which number, and since which generation.
type slotList struct {
	slots map[uint64]slot
}

type slot struct {
	generation uint64
	linkMap    elfcore.Addr
}

const (
	// surplus is TLS_SLOTINFO_SURPLUS: the first element has that many slots
	// more than the start-up modules, further ones have so many.
	surplus = 62
	// maxGeneration bounds the generations of a list that is believed.
	maxGeneration = 1 << 40
	// maxData bounds how much of the loader's data is searched, in bytes.
	maxData = 8 << 20
)

// findSlots looks in the loader's data for the pointer to the list: exactly one
// word leads to one, in a sound process.
func (r *Resolver) findSlots(maps []linkMap, at int) *slotList {
	ids := make(map[elfcore.Addr]uint64, len(maps))
	for i := range maps {
		if at+runWords <= len(maps[i].words) {
			ids[maps[i].addr] = maps[i].words[at+runModID]
		}
	}
	idOf := func(a elfcore.Addr) (uint64, bool) {
		if id, ok := ids[a]; ok {
			return id, true
		}
		id, err := r.core.Word(a + elfcore.Addr(uint64(at+runModID)*r.w))
		return id, err == nil
	}
	seen := make(map[elfcore.Addr]bool)
	for _, data := range r.loaderData() {
		b := make([]byte, data.Len())
		n, _ := r.core.ReadMemory(b, data.Start)
		for b = b[:n]; uint64(len(b)) >= r.w; b = b[r.w:] {
			p := elfcore.Addr(r.core.WordOf(b))
			if p == 0 || uint64(p)%r.w != 0 || seen[p] {
				continue
			}
			seen[p] = true
			if s := r.readSlots(p, ids, idOf); s != nil {
				return s
			}
		}
	}
	return nil
}

// loaderData are the writable segments of the loader, or of a static program.
func (r *Resolver) loaderData() []elfcore.Range {
	m := r.set.Loader()
	if m == nil {
		m = r.set.Executable()
	}
	if m == nil {
		return nil
	}
	var out []elfcore.Range
	total := uint64(0)
	add := func(rg elfcore.Range) {
		if total += rg.Len(); rg.Len() > 0 && total <= maxData {
			out = append(out, rg)
		}
	}
	for _, rg := range m.Ranges {
		end := rg.Start
		for i := range r.core.Segments {
			s := &r.core.Segments[i]
			if s.Writable() && s.Overlaps(rg) {
				add(elfcore.Range{Start: max(s.Start, rg.Start), End: min(s.End, rg.End)})
				end = s.End
			}
		}
		// .bss behind a range that NT_FILE gives.
		if s, ok := r.core.Segment(end); ok && s.Start == rg.End && s.Writable() {
			if _, mapped := r.core.Mapping(end); !mapped {
				add(s.Range)
			}
		}
	}
	return out
}

// readSlots reads the list at an address if it is one: {len, next, {gen,
// map}[len]}, whose map in slot j is a module with the number j.
func (r *Resolver) readSlots(a elfcore.Addr, ids map[elfcore.Addr]uint64, idOf func(elfcore.Addr) (uint64, bool)) *slotList {
	out := &slotList{slots: make(map[uint64]slot)}
	base := uint64(0)
	known := false
	for element := 0; a != 0; element++ {
		head := make([]byte, 2*r.w)
		if _, err := r.core.ReadMemory(head, a); err != nil {
			return nil
		}
		n, next := r.core.WordOf(head), elfcore.Addr(r.core.WordOf(head[r.w:]))
		if n < surplus || n > maxModID || base+n > maxModID || element > maxModID/surplus {
			return nil
		}
		body := make([]byte, 2*r.w*min(n, 4096))
		for j := uint64(0); j < n; j++ {
			at := 2 * r.w * (j % 4096)
			if at == 0 {
				chunk := body[:2*r.w*min(n-j, 4096)]
				if _, err := r.core.ReadMemory(chunk, a+elfcore.Addr(2*r.w*(1+j))); err != nil {
					return nil
				}
			}
			s := slot{generation: r.core.WordOf(body[at:]), linkMap: elfcore.Addr(r.core.WordOf(body[at+r.w:]))}
			id := base + j
			if id == 0 {
				continue // nobody's; up to 2.36 it names the program
			}
			if s.generation > maxGeneration {
				return nil
			}
			if s.linkMap == 0 {
				out.slots[id] = s
				continue
			}
			if got, ok := idOf(s.linkMap); !ok || got != id {
				return nil
			}
			if _, ok := ids[s.linkMap]; ok {
				known = true
			}
			out.slots[id] = s
		}
		base += n
		a = next
	}
	if !known {
		return nil
	}
	return out
}

// namesAll tells whether the list has every module that has a number.
func (s *slotList) namesAll(maps []linkMap, at int) bool {
	for i := range maps {
		id := maps[i].words[at+runModID]
		if id != 0 && s.slots[id].linkMap != maps[i].addr {
			return false
		}
	}
	return true
}
