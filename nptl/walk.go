package nptl

import (
	"github.com/corethreads/corethreads/elfcore"
)

// EndReason is how the walk along a list ended.
type EndReason int

const (
	// Closed: it came back to the head.
	Closed EndReason = iota
	// Zero: a descriptor's next pointer is 0.
	Zero
	// Zeroes: it reached memory that holds nothing but zeroes, as gdb's gcore
	// writes for stacks that it could not read.
	Zeroes
	// Cycle: it reached a node twice, or more nodes than there is memory for.
	Cycle
	// Unreadable: it left the memory that the core holds; Fault says why.
	Unreadable
)

func (e EndReason) String() string {
	return [...]string{"closed", "zero", "zeroes", "cycle", "unreadable"}[e]
}

// walk is a list as libthread_db would walk it: by next pointers only, until
// the head.
type walk struct {
	nodes []elfcore.Addr
	end   EndReason
	// at is the address that could not be followed: the node whose next is 0,
	// the node that came twice, the node of which some cannot be read.
	at    elfcore.Addr
	fault elfcore.FaultReason
	// behind are nodes that only back links from the head reach; their place
	// in libthread_db's order is not known.
	behind []elfcore.Addr
}

// maxNodes bounds a list by the descriptors that could lie in the core at all:
// none is smaller than 1 KiB on 32-bit systems.
func (v *view) maxNodes() int {
	return int(min(v.Size/1024+16, 1<<24))
}

// walk follows next from a head, over no more than limit nodes.
func (v *view) walk(head elfcore.Addr, limit int) walk {
	var out walk
	seen := map[elfcore.Addr]bool{}
	limit = min(limit, v.maxNodes())
	n, ok := v.pointer(head)
	if !ok {
		why, _ := v.fault(head)
		return walk{end: Unreadable, at: head, fault: why}
	}
	for n != head {
		switch {
		case n == 0:
			out.end = Zero
			out.at = head
			if len(out.nodes) > 0 {
				out.at = out.nodes[len(out.nodes)-1]
				if v.zeroes(out.at, v.descriptorSize()) {
					out.nodes = out.nodes[:len(out.nodes)-1]
					out.end = Zeroes
				}
			}
			return out
		case seen[n] || len(out.nodes) >= limit:
			out.end, out.at = Cycle, n
			return out
		}
		// libthread_db reads the whole descriptor, and gives up if it
		// cannot.
		last := n + elfcore.Addr(v.descriptorSize()-v.w)
		next, ok := v.pointer(n)
		if _, whole := v.pointer(last); !ok || !whole {
			out.end, out.at = Unreadable, n
			if out.fault, ok = v.fault(n); !ok {
				out.fault, _ = v.fault(last)
			}
			return out
		}
		seen[n] = true
		out.nodes = append(out.nodes, n)
		n = next
	}
	return out
}

// walkBack follows prev from the head of a damaged list and keeps the
// descriptors that the walk forward did not reach, no more than limit. It stops
// at anything that is no descriptor, and at the nodes and heads in taken.
func (v *view) walkBack(head elfcore.Addr, taken map[elfcore.Addr]bool, limit int) []elfcore.Addr {
	var out []elfcore.Addr
	seen := make(map[elfcore.Addr]bool)
	back := elfcore.Addr(v.w)
	for n, ok := v.pointer(head + back); ok && !seen[n] && !taken[n] && v.probe(n) && len(out) < limit; n, ok = v.pointer(n + back) {
		seen[n] = true
		out = append(out, n)
	}
	return out
}

// descriptorSize is how much of a descriptor, from its node on, the fields
// reach that this package uses.
func (v *view) descriptorSize() uint64 {
	if v.w == 4 {
		return 0x260
	}
	return 0x3f0
}
