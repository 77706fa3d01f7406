package module

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// linkMap is the part of struct link_map that every libc has (link.h), and the
// two words that follow it in glibc (include/link.h).
type linkMap struct {
	at elfcore.Addr
	// addr, name, dynamic, next and prev are l_addr, l_name, l_ld, l_next and
	// l_prev.
	addr, name, dynamic, next, prev elfcore.Addr
	// real and namespace are l_real and l_ns; in another libc they are
	// something else. private tells that they could be read.
	real      elfcore.Addr
	namespace uint64
	private   bool
}

const (
	// maxLinkMaps bounds the maps of a process, over all namespaces.
	maxLinkMaps = 100_000
	// maxPath bounds a name, PATH_MAX of linux/limits.h.
	maxPath = 4096
)

func (p process) linkMap(at elfcore.Addr) (linkMap, error) {
	w, err := p.words(at, 7)
	private := err == nil
	if !private {
		if w, err = p.words(at, 5); err != nil {
			return linkMap{}, err
		}
		w = append(w, 0, 0)
	}
	return linkMap{
		at:   at,
		addr: elfcore.Addr(w[0]), name: p.pointer(w[1]), dynamic: elfcore.Addr(w[2]), next: p.pointer(w[3]), prev: p.pointer(w[4]),
		real: p.pointer(w[5]), namespace: w[6], private: private,
	}, nil
}

// validMap tells whether a link map can stand at an address: its neighbours, as
// far as the core holds them, point back at it, and it has a dynamic section.
func (p process) validMap(at elfcore.Addr) bool {
	m, err := p.linkMap(at)
	if err != nil || at == 0 {
		return false
	}
	if m.next != 0 {
		if next, err := p.linkMap(m.next); err == nil && next.prev != at {
			return false
		}
	}
	if m.prev != 0 {
		if prev, err := p.linkMap(m.prev); err == nil && prev.next != at {
			return false
		}
	}
	return m.dynamic != 0 || p.originalOf(m) != nil || m.private && m.real == at
}

// originalOf gives the map that a proxy stands for. In a namespace made by
// dlmopen, glibc before 2.35 has no copy of the loader but an empty map whose
// l_real is the loader's (elf/dl-load.c, _dl_map_object_from_fd).
func (p process) originalOf(m linkMap) *linkMap {
	if m.dynamic != 0 || m.addr != 0 || !m.private || m.real == 0 || m.real == m.at {
		return nil
	}
	o, err := p.linkMap(m.real)
	if err != nil || o.dynamic == 0 {
		return nil
	}
	return &o
}

// walkMaps follows l_next from the first map of a namespace, over at most max
// maps. Where the chain breaks, the maps before the break are good, and broken
// says what is wrong.
func (p process) walkMaps(first elfcore.Addr, max int) (maps []linkMap, broken string) {
	prev := elfcore.Addr(0)
	for at := first; at != 0; {
		if len(maps) == max {
			return maps, fmt.Sprintf("it has more than %d maps", max)
		}
		m, err := p.linkMap(at)
		if err != nil {
			return maps, err.Error()
		}
		// This also ends a chain that runs into itself: no map has two
		// maps before it.
		if m.prev != prev {
			return maps, fmt.Sprintf("the map at %s says that the one before it is %s, not %s", at, m.prev, prev)
		}
		maps = append(maps, m)
		prev, at = at, m.next
	}
	return maps, ""
}
