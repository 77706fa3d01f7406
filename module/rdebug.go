package module

import (
	"debug/elf"
	"fmt"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// namespace is one chain of link maps.
type namespace struct {
	// number is 0 for the program's.
	number int
	maps   []linkMap
	// broken says where the chain breaks, empty for a whole one.
	broken string
}

const (
	// maxNamespaces bounds the chains; glibc has 16 (DL_NNS).
	maxNamespaces = 64
	// unknownLoaderImage is what is taken for the size of the loader's image
	// where no program header tells it, and maxLoaderImage bounds it. Loaders
	// have 0.2 to 0.4 MiB, but old linkers left 2 MiB between code and data.
	unknownLoaderImage = 4 << 20
	maxLoaderImage     = 16 << 20
	// loaderSlack is added to the image's size: memory behind the last segment
	// that the loader's zeroed data reaches.
	loaderSlack = 64 << 10
)

// validRDebug reads the first map of the struct r_debug (link.h) at an address:
// r_version, r_map, r_brk, r_state, r_ldbase, and from version 2 on r_next, a
// word each. It is false for anything that cannot be one.
func (p process) validRDebug(at elfcore.Addr) (first, next elfcore.Addr, ok bool) {
	w := elfcore.Addr(p.Arch.WordSize())
	version, err := p.Uint32(at)
	if err != nil || version < 1 || version > 3 {
		return 0, 0, false
	}
	state, err := p.Uint32(at + 3*w) // RT_CONSISTENT, RT_ADD, RT_DELETE
	if err != nil || state > 2 {
		return 0, 0, false
	}
	head, err := p.Word(at + w)
	if err != nil || !p.validMap(p.pointer(head)) {
		return 0, 0, false
	}
	if version >= 2 {
		if n, err := p.Word(at + 5*w); err == nil {
			next = p.pointer(n)
		}
	}
	return p.pointer(head), next, true
}

// rDebugs finds every r_debug: the one that DT_DEBUG of the program's dynamic
// section points at, those chained behind it, and those in the loader's data.
// The latter has those of the other namespaces in every version of glibc, and
// all of them where the program's headers are not in the core.
func (p process) rDebugs(dynamic elfcore.Addr, loader elfcore.Range) []elfcore.Addr {
	var firsts []elfcore.Addr
	seen := make(map[elfcore.Addr]bool)
	add := func(at elfcore.Addr) {
		for len(firsts) < maxNamespaces && !seen[at] {
			seen[at] = true
			first, next, ok := p.validRDebug(at)
			if !ok {
				return
			}
			if !slices.Contains(firsts, first) {
				firsts = append(firsts, first)
			}
			at = next
		}
	}
	if dynamic != 0 {
		entries, _ := p.dynamicSection(dynamic)
		if at, ok := dynamicValue(entries, elf.DT_DEBUG); ok && at != 0 {
			add(elfcore.Addr(at))
		}
	}
	if loader.Start != 0 {
		ldbase := 4 * elfcore.Addr(p.Arch.WordSize()) // offsetof(struct r_debug, r_ldbase)
		for _, at := range p.scan(loader, uint64(loader.Start)) {
			if at >= ldbase {
				add(at - ldbase)
			}
		}
	}
	return firsts
}

// maxFound bounds what scan gives; a loader's data has its base some ten times.
const maxFound = 1024

// scan finds the aligned words in the writable memory of a range that have a
// value.
func (p process) scan(in elfcore.Range, value uint64) []elfcore.Addr {
	var found []elfcore.Addr
	w := p.Arch.WordSize()
	buf := make([]byte, 64<<10)
	for i := range p.Segments {
		s := &p.Segments[i]
		if !s.Writable() || !s.Overlaps(in) {
			continue
		}
		end := min(s.End, in.End)
		for at := max(s.Start, in.Start); at < end; {
			n, err := p.ReadMemory(buf[:min(uint64(end-at), uint64(len(buf)))], at)
			for i := 0; i+w <= n; i += w {
				if p.WordOf(buf[i:]) != value {
					continue
				}
				if found = append(found, at+elfcore.Addr(i)); len(found) == maxFound {
					return found
				}
			}
			if err != nil {
				break
			}
			at += elfcore.Addr(n)
		}
	}
	return found
}

// namespaces reads all chains of link maps, the program's first.
func (p process) namespaces(dynamic elfcore.Addr, loader elfcore.Range) []namespace {
	var all []namespace
	left := maxLinkMaps
	for _, first := range p.rDebugs(dynamic, loader) {
		n := namespace{number: len(all)}
		n.maps, n.broken = p.walkMaps(first, left)
		left -= len(n.maps)
		if len(n.maps) > 0 {
			all = append(all, n)
		}
	}
	numberNamespaces(all)
	return all
}

// numberNamespaces takes the numbers that glibc gives its namespaces, where all
// maps of each agree on one; else they keep the order in which they were found.
// Only glibc's maps name themselves in l_real.
func numberNamespaces(all []namespace) {
	numbers := make(map[uint64]bool)
	for _, n := range all {
		number := n.maps[0].namespace
		if n.maps[0].real != n.maps[0].at {
			return
		}
		for _, m := range n.maps {
			if !m.private || m.namespace != number || number >= maxNamespaces {
				return
			}
		}
		if numbers[number] {
			return
		}
		numbers[number] = true
	}
	for i := range all {
		all[i].number = int(all[i].maps[0].namespace)
	}
	slices.SortFunc(all, func(a, b namespace) int { return a.number - b.number })
}

// describe says which chain for a warning.
func (n namespace) describe() string {
	if n.number == 0 {
		return "the chain of link maps"
	}
	return fmt.Sprintf("the chain of link maps of namespace %d", n.number)
}
