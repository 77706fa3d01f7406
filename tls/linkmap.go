package tls

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

// The private part of struct link_map (include/link.h) has, in every version of
// glibc, seven words in a row about thread-local storage.
const (
	runInitImage = iota
	runInitImageSize
	runBlockSize
	runAlign
	runFirstByteOffset
	runOffset
	runModID
	runWords
)

const (
	// mapWindow is how much of a link map is searched for these words, in
	// bytes: they lie around 0x400 to 0x480 on 64-bit systems.
	mapWindow = 0x800
	// maxModID bounds the numbers of modules.
	maxModID = 1 << 20
)

// linkMap is a link map's words, from its start.
type linkMap struct {
	addr  elfcore.Addr
	mod   *module.Module // nil for one that only the slots name
	words []uint64
}

// glibcModules finds all modules with thread-local storage of a glibc process.
func (r *Resolver) glibcModules() {
	maps := r.readMaps()
	at, ok := r.inferRun(maps)
	slots := (*slotList)(nil)
	if ok {
		slots = r.findSlots(maps, at)
	} else {
		at, slots, ok = r.inferRunBySlots(maps)
	}
	if !ok {
		r.programAlone(len(maps) > 0)
		return
	}
	r.hasLinkMaps = true
	if slots == nil {
		r.warnings = append(r.warnings, "the loader's list of thread-local modules was not found: which dtv slots are out of date cannot be told")
	}
	known := make(map[elfcore.Addr]bool)
	for i := range maps {
		known[maps[i].addr] = true
		r.addMapped(&maps[i], at, slots)
	}
	if slots == nil {
		return
	}
	for _, s := range slots.slots {
		if s.linkMap == 0 || known[s.linkMap] {
			continue
		}
		if m, ok := r.readMap(s.linkMap); ok {
			known[s.linkMap] = true
			r.addMapped(&m, at, slots)
		}
	}
}

// readMaps reads the link maps of all modules.
func (r *Resolver) readMaps() []linkMap {
	var out []linkMap
	for _, m := range r.set.Modules {
		if m.LinkMap == 0 || m.Original != nil {
			continue
		}
		if lm, ok := r.readMap(m.LinkMap); ok {
			lm.mod = m
			out = append(out, lm)
		}
	}
	return out
}

func (r *Resolver) readMap(a elfcore.Addr) (linkMap, bool) {
	b := make([]byte, mapWindow)
	n, _ := r.core.ReadMemory(b, a)
	lm := linkMap{addr: a}
	for ; uint64(n) >= r.w; n -= int(r.w) {
		lm.words = append(lm.words, r.core.WordOf(b))
		b = b[r.w:]
	}
	return lm, len(lm.words) >= runWords+5
}

// inferRun finds the index of the seven words in the link maps: where each
// module's PT_TLS, known from its headers, stands word for word. All modules
// must agree.
func (r *Resolver) inferRun(maps []linkMap) (int, bool) {
	votes := make(map[int]int)
	voters := 0
	for i := range maps {
		m := maps[i].mod
		if m.TLS == nil || !m.BiasKnown || m.TLS.MemSize == 0 {
			continue
		}
		image := uint64(m.Bias) + m.TLS.VAddr
		if r.w == 4 {
			image &= 1<<32 - 1
		}
		hit := false
		for at := 0; at+runWords <= len(maps[i].words); at++ {
			x := maps[i].words[at:]
			if x[runInitImage] == image && x[runInitImageSize] == m.TLS.FileSize && x[runBlockSize] == m.TLS.MemSize &&
				x[runAlign] == m.TLS.Align && x[runModID] > 0 && x[runModID] < maxModID {
				votes[at]++
				hit = true
			}
		}
		if hit {
			voters++
		}
	}
	best, tied := -1, false
	for at, n := range votes {
		switch {
		case best < 0 || n > votes[best]:
			best, tied = at, false
		case n == votes[best]:
			tied = true
		}
	}
	return best, best >= 0 && !tied && votes[best] == voters
}

// inferRunBySlots finds the index where no module's headers are known: the words
// of all link maps must make sense there, and the list of slots must name every
// module with an id.
func (r *Resolver) inferRunBySlots(maps []linkMap) (int, *slotList, bool) {
	found, list := -1, (*slotList)(nil)
	if len(maps) == 0 {
		return 0, nil, false
	}
	for at := 5; at+runWords <= mapWindow/int(r.w); at++ {
		if !r.plausibleRun(maps, at) {
			continue
		}
		s := r.findSlots(maps, at)
		if s == nil || !s.namesAll(maps, at) {
			continue
		}
		if found >= 0 {
			return 0, nil, false
		}
		found, list = at, s
	}
	return found, list, found >= 0
}

// plausibleRun tells whether the seven words could stand at an index: zeroes in
// modules without thread-local storage; elsewhere sizes, an alignment and an
// image that fit each other, and a number that no other module has.
func (r *Resolver) plausibleRun(maps []linkMap, at int) bool {
	ids := make(map[uint64]bool)
	for i := range maps {
		if at+runWords > len(maps[i].words) {
			return false
		}
		x := maps[i].words[at : at+runWords]
		if x[runModID] == 0 {
			if x[0]|x[1]|x[2]|x[3]|x[4] != 0 || x[runOffset] != 0 && r.validOffset(x[runOffset]) {
				return false
			}
			continue
		}
		align := max(x[runAlign], 1)
		near := (x[runInitImage] - maps[i].words[2] + 1<<28) & r.allOnes() // from l_ld
		if x[runModID] >= maxModID || ids[x[runModID]] || x[runInitImageSize] > x[runBlockSize] || x[runBlockSize] == 0 ||
			align&(align-1) != 0 || near > 1<<29 ||
			x[runFirstByteOffset] >= align && (r.core.Arch.TLS.Variant == 2 || x[runFirstByteOffset] > x[runOffset]) ||
			r.validOffset(x[runOffset]) && x[runOffset] >= 1<<32 {
			return false
		}
		ids[x[runModID]] = true
	}
	return len(ids) > 0
}

// validOffset tells whether l_tls_offset names a static block: it is neither
// NO_TLS_OFFSET nor FORCED_DYNAMIC_TLS_OFFSET, words of the process's size.
func (r *Resolver) validOffset(x uint64) bool {
	tls := r.core.Arch.TLS
	mask := r.allOnes()
	return x != uint64(tls.NoOffset)&mask && x != uint64(tls.ForcedDynamic)&mask
}

// addMapped takes a module from its link map, if it has thread-local storage.
func (r *Resolver) addMapped(lm *linkMap, at int, slots *slotList) {
	if at+runWords > len(lm.words) {
		return
	}
	x := lm.words[at : at+runWords]
	id := x[runModID]
	if id == 0 || id >= maxModID {
		return
	}
	m := &Module{
		Module: lm.mod, LinkMap: lm.addr, ID: id,
		Size: x[runBlockSize], Align: x[runAlign],
		Image: elfcore.Addr(x[runInitImage]), ImageSize: x[runInitImageSize],
		From: fmt.Sprintf("its link map at %s", lm.addr),
	}
	if r.validOffset(x[runOffset]) {
		m.Static, m.Offset = true, x[runOffset]
	}
	if slots != nil {
		s, ok := slots.slots[id]
		m.Moving = !ok || s.linkMap != lm.addr
		m.Generation = s.generation
	}
	r.modules = append(r.modules, m)
}

// programAlone places the program's own block by the ABI: the loader gives the
// program the first place, which its PT_TLS alone determines.
func (r *Resolver) programAlone(haveMaps bool) {
	exe := r.set.Executable()
	if haveMaps {
		r.warnings = append(r.warnings, "the loader's records of thread-local storage could not be read: only the program's own variables can be found")
	}
	if exe == nil || exe.TLS == nil || exe.TLS.MemSize == 0 {
		return
	}
	t := exe.TLS
	m := &Module{
		Module: exe, LinkMap: exe.LinkMap, ID: 1, Static: true,
		Offset: firstOffset(r.core.Arch.TLS, t.MemSize, t.Align, t.VAddr),
		Size:   t.MemSize, Align: t.Align,
		From: "its PT_TLS and the ABI",
	}
	if exe.BiasKnown {
		m.Image, m.ImageSize = exe.Bias+elfcore.Addr(t.VAddr), t.FileSize
	}
	r.modules = append(r.modules, m)
}

// firstOffset is l_tls_offset of the first module (elf/dl-tls.c,
// _dl_determine_tlsoffset): the block's distance from the thread pointer,
// downwards in variant II, upwards in variant I.
func firstOffset(tls elfcore.TLS, size, align, vaddr uint64) uint64 {
	if align == 0 || align&(align-1) != 0 {
		align = 1
	}
	up := func(x uint64) uint64 { return (x + align - 1) &^ (align - 1) }
	first := -vaddr & (align - 1)
	if tls.Variant == 2 {
		return up(size-first) + first
	}
	o := up(tls.TCBSize)
	if o-tls.TCBSize < first {
		o += align
	}
	return o - first
}
