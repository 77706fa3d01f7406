package tls

import (
	"github.com/corethreads/corethreads/elfcore"
)

// slotList is dtv_slotinfo_list (sysdeps/generic/ldsodefs.h): which module has
// which number, and since which generation. Slots without a module are left out.
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
	// maxData bounds how much of the loader's data is searched, in bytes, and
	// maxSlots how many slots are looked at in all: real lists have some
	// hundreds.
	maxData  = 8 << 20
	maxSlots = 1 << 22
	// unknownImage is what is taken for the size of the loader in memory where
	// nothing tells it; loaders have 0.2 to 0.4 MiB.
	unknownImage = 1 << 20
)

// findSlots looks in the loader's data for the pointer to the list: exactly one
// word leads to one, in a sound process.
func (r *Resolver) findSlots(all []linkMap, at int) *slotList {
	known := make(map[elfcore.Addr]bool, len(all))
	for _, lm := range all {
		known[lm.at] = true
	}
	tried := make(map[elfcore.Addr]bool)
	buf := make([]byte, 64<<10)
	for _, data := range r.loaderData() {
		for data.Len() > 0 {
			n, err := r.core.ReadMemory(buf[:min(data.Len(), uint64(len(buf)))], data.Start)
			for b := buf[:n]; uint64(len(b)) >= r.w; b = b[r.w:] {
				p := elfcore.Addr(r.core.WordOf(b))
				if _, _, ok := r.slotHead(p); !ok || tried[p] {
					continue
				}
				tried[p] = true
				if s := r.readSlots(p, at, known); s != nil {
					return s
				}
			}
			if err != nil {
				break
			}
			data.Start += elfcore.Addr(n)
		}
	}
	return nil
}

// slotHead reads the head of an element of the list: how many slots it has, and
// where the next element is. It is false where none can be.
func (r *Resolver) slotHead(p elfcore.Addr) (n uint64, next elfcore.Addr, ok bool) {
	if p == 0 || uint64(p)%r.w != 0 {
		return 0, 0, false
	}
	b := make([]byte, 2*r.w)
	if _, err := r.core.ReadMemory(b, p); err != nil {
		return 0, 0, false
	}
	n = r.core.WordOf(b)
	return n, elfcore.Addr(r.core.WordOf(b[r.w:])), n >= surplus && n < maxModID
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
	ranges := m.Ranges
	if len(ranges) == 0 && m.BiasKnown {
		// No header and no NT_FILE tells how long it is (qemu-user).
		ranges = []elfcore.Range{{Start: m.Bias, End: m.Bias + unknownImage}}
	}
	var out []elfcore.Range
	total := uint64(0)
	add := func(rg elfcore.Range) {
		if total += rg.Len(); rg.Len() > 0 && total <= maxData {
			out = append(out, rg)
		}
	}
	for _, rg := range ranges {
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
// map}[len]}, whose map in slot j is a module with the number j; at least one of
// these must be known.
func (r *Resolver) readSlots(a elfcore.Addr, at int, known map[elfcore.Addr]bool) *slotList {
	out := &slotList{slots: make(map[uint64]slot)}
	base, sound := uint64(0), false
	for a != 0 {
		n, next, ok := r.slotHead(a)
		if !ok {
			return nil
		}
		if r.slotsRead += n; base+n >= maxModID || r.slotsRead > maxSlots {
			return nil
		}
		b := make([]byte, 2*r.w*n)
		if _, err := r.core.ReadMemory(b, a+elfcore.Addr(2*r.w)); err != nil {
			return nil
		}
		for id := base; id < base+n; id++ {
			s := slot{generation: r.core.WordOf(b), linkMap: elfcore.Addr(r.core.WordOf(b[r.w:]))}
			b = b[2*r.w:]
			if id == 0 {
				continue // nobody's; up to 2.36 it names the program
			}
			if s.generation > maxGeneration {
				return nil
			}
			if s.linkMap == 0 {
				continue
			}
			got, err := r.core.Word(s.linkMap + elfcore.Addr(uint64(at+runModID)*r.w))
			if err != nil || got != id {
				return nil
			}
			sound = sound || known[s.linkMap]
			out.slots[id] = s
		}
		base += n
		a = next
	}
	if !sound {
		return nil
	}
	return out
}

// namesAll tells whether the list has every module that has a number.
func (s *slotList) namesAll(ids map[uint64]elfcore.Addr) bool {
	for id, linkMap := range ids {
		if s.slots[id].linkMap != linkMap {
			return false
		}
	}
	return true
}
