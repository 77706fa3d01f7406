package tls

import (
	"fmt"
	"maps"
	"slices"

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
	// maxModID bounds the numbers of modules, and maxModules how many modules
	// are kept.
	maxModID   = 1 << 16
	maxModules = 4096
)

// linkMap is a struct link_map.
type linkMap struct {
	at elfcore.Addr
	// dynamic is l_ld.
	dynamic elfcore.Addr
	mod     *module.Module // nil for one that only the slots name
}

// glibcModules finds all modules with thread-local storage of a glibc process.
func (r *Resolver) glibcModules() {
	var all []linkMap
	for _, m := range r.set.Modules {
		if m.LinkMap != 0 && m.Original == nil {
			all = append(all, linkMap{at: m.LinkMap, dynamic: m.Dynamic, mod: m})
		}
	}
	at, ok := r.inferRun(all)
	slots := (*slotList)(nil)
	if ok {
		slots = r.findSlots(all, at)
	} else {
		at, slots, ok = r.inferRunBySlots(all)
	}
	if !ok {
		r.programAlone(len(all) > 0)
		return
	}
	r.slotsKnown = slots != nil
	if slots == nil {
		r.warn("the loader's list of thread-local modules was not found: which dtv slots are out of date cannot be told")
	}
	known := make(map[elfcore.Addr]bool)
	for _, lm := range all {
		known[lm.at] = true
		r.addMapped(lm, at, slots)
	}
	if slots == nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(slots.slots)) {
		if lm := slots.slots[id].linkMap; !known[lm] {
			known[lm] = true
			r.addMapped(linkMap{at: lm}, at, slots)
		}
	}
}

// run reads the seven words of a link map at an index.
func (r *Resolver) run(a elfcore.Addr, at int) ([runWords]uint64, bool) {
	var x [runWords]uint64
	b := make([]byte, runWords*r.w)
	if _, err := r.core.ReadMemory(b, a+elfcore.Addr(uint64(at)*r.w)); err != nil {
		return x, false
	}
	for i := range x {
		x[i] = r.core.WordOf(b[uint64(i)*r.w:])
	}
	return x, true
}

// inferRun finds the index of the seven words in the link maps: where each
// module's PT_TLS, known from its headers, stands word for word. All modules
// must agree.
func (r *Resolver) inferRun(all []linkMap) (int, bool) {
	votes := make(map[int]int)
	voters := 0
	window := make([]byte, mapWindow)
	words := make([]uint64, 0, mapWindow/r.w)
	for i := range all {
		m := all[i].mod
		if m.TLS == nil || !m.BiasKnown || m.TLS.MemSize == 0 {
			continue
		}
		image := (uint64(m.Bias) + m.TLS.VAddr) & r.allOnes()
		n, _ := r.core.ReadMemory(window, all[i].at)
		words = words[:0]
		for b := window[:n]; uint64(len(b)) >= r.w; b = b[r.w:] {
			words = append(words, r.core.WordOf(b))
		}
		hit := false
		for at := 0; at+runWords <= len(words); at++ {
			x := words[at:]
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

// maxCandidates bounds the indices that inferRunBySlots tries in earnest; on
// armhf, three are plausible.
const maxCandidates = 16

// inferRunBySlots finds the index where no module's headers are known: the words
// of all link maps must make sense there, and the list of slots must name every
// module with an id.
func (r *Resolver) inferRunBySlots(all []linkMap) (int, *slotList, bool) {
	found, list := -1, (*slotList)(nil)
	candidates := 0
	for at := 5; len(all) > 0 && uint64(at+runWords)*r.w <= mapWindow; at++ {
		ids, ok := r.plausibleRun(all, at)
		if !ok {
			continue
		}
		if candidates++; candidates > maxCandidates {
			return 0, nil, false
		}
		s := r.findSlots(all, at)
		if s == nil || !s.namesAll(ids) {
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
// image that fit each other, and a number that no other module has. It gives the
// modules by their numbers.
func (r *Resolver) plausibleRun(all []linkMap, at int) (ids map[uint64]elfcore.Addr, ok bool) {
	ids = make(map[uint64]elfcore.Addr)
	for _, lm := range all {
		x, ok := r.run(lm.at, at)
		if !ok {
			return nil, false
		}
		id := x[runModID]
		if id == 0 {
			if x[0]|x[1]|x[2]|x[3]|x[4] != 0 || x[runOffset] != 0 && r.validOffset(x[runOffset]) {
				return nil, false
			}
			continue
		}
		align := max(x[runAlign], 1)
		near := (x[runInitImage] - uint64(lm.dynamic) + 1<<28) & r.allOnes()
		if id >= maxModID || ids[id] != 0 || x[runInitImageSize] > x[runBlockSize] || x[runBlockSize] == 0 ||
			align&(align-1) != 0 || near > 1<<29 ||
			x[runFirstByteOffset] >= align && (r.core.Arch.TLS.Variant == 2 || x[runFirstByteOffset] > x[runOffset]) ||
			r.validOffset(x[runOffset]) && x[runOffset] >= 1<<32 {
			return nil, false
		}
		ids[id] = lm.at
	}
	return ids, len(ids) > 0
}

// validOffset tells whether l_tls_offset names a static block: it is neither
// NO_TLS_OFFSET nor FORCED_DYNAMIC_TLS_OFFSET, words of the process's size.
func (r *Resolver) validOffset(x uint64) bool {
	tls := r.core.Arch.TLS
	mask := r.allOnes()
	return x != uint64(tls.NoOffset)&mask && x != uint64(tls.ForcedDynamic)&mask
}

// addMapped takes a module from its link map, if it has thread-local storage.
func (r *Resolver) addMapped(lm linkMap, at int, slots *slotList) {
	x, ok := r.run(lm.at, at)
	id := x[runModID]
	if !ok || id == 0 || id >= maxModID {
		return
	}
	if len(r.modules) == maxModules {
		r.warn(fmt.Sprintf("more than %d modules have thread-local storage: the others are left out", maxModules))
	}
	if len(r.modules) >= maxModules {
		return
	}
	m := &Module{
		Module: lm.mod, LinkMap: lm.at, ID: id,
		Size: x[runBlockSize], Align: x[runAlign],
		Image: elfcore.Addr(x[runInitImage]), ImageSize: x[runInitImageSize],
		From: fmt.Sprintf("its link map at %s", lm.at),
	}
	if r.validOffset(x[runOffset]) {
		m.Static, m.Offset = true, x[runOffset]
	}
	if slots != nil {
		s := slots.slots[id]
		m.Moving = s.linkMap != lm.at
		m.Generation = s.generation
	}
	r.modules = append(r.modules, m)
}

// programAlone places the program's own block by the ABI: the loader gives the
// program the first place, which its PT_TLS alone determines.
func (r *Resolver) programAlone(haveMaps bool) {
	exe := r.set.Executable()
	if haveMaps {
		r.warn("the loader's records of thread-local storage could not be read: only the program's own variables can be found")
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
