package nptl

import (
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// survey is what the lists and descriptors that were found show together.
type survey struct {
	// raws are all descriptors by node, proved those that prove themselves.
	raws   map[elfcore.Addr]*raw
	proved []*raw
	// unlisted are the nodes of threads that no list holds, and those that are
	// linked to them.
	unlisted []elfcore.Addr
	layout   Layout
	roles    []role
}

// survey reads the descriptors on the lists and of the threads, finds the layout
// on which they agree, and tells which list is which.
func (f *finder) survey() *survey {
	s := &survey{raws: make(map[elfcore.Addr]*raw, len(f.Threads))}
	read := func(n elfcore.Addr) {
		if s.raws[n] != nil {
			return
		}
		s.raws[n] = f.readRaw(n)
		if f.probe(n) {
			s.proved = append(s.proved, s.raws[n])
		}
	}
	for _, h := range f.heads {
		for _, n := range slices.Concat(h.walk.nodes, h.walk.behind) {
			read(n)
		}
	}
	unlisted := f.unlisted()
	s.unlisted = slices.Concat(unlisted, f.chain(unlisted))
	for _, n := range s.unlisted {
		read(n)
	}
	if len(s.proved) > 0 {
		s.layout = f.inferLayout(s.proved)
	}
	s.roles = f.assignRoles(s.raws, &s.layout)
	return s
}

// chain collects the descriptors around those of threads that no list holds,
// both ways, as far as they prove themselves.
func (f *finder) chain(from []elfcore.Addr) []elfcore.Addr {
	var out []elfcore.Addr
	seen := make(map[elfcore.Addr]bool)
	for _, n := range from {
		seen[n] = true
	}
	limit := f.maxNodes()
	for _, start := range from {
		for _, link := range []elfcore.Addr{0, elfcore.Addr(f.w)} {
			n, ok := f.pointer(start + link)
			for ok && !seen[n] && !f.onList[n] && f.probe(n) && len(out) < limit {
				seen[n] = true
				out = append(out, n)
				n, ok = f.pointer(n + link)
			}
		}
	}
	return out
}
