package nptl

import (
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
)

// Limit is something that could not be determined.
type Limit struct {
	Kind LimitKind
	Text string
	// Addr is the address that it is about, 0 for none.
	Addr elfcore.Addr
	// Fault is why memory could not be read, for the kinds that are about
	// memory.
	Fault elfcore.FaultReason
}

// LimitKind is what could not be determined.
type LimitKind int

const (
	// NotesCut: threads may be missing from the core.
	NotesCut LimitKind = iota
	// HeadsMissing: lists were not found, or the memory where glibc keeps them
	// is not in the core.
	HeadsMissing
	// ListLeaves: a list leads into memory that is not in the core.
	ListLeaves
	// RoleUndecided: a ring of descriptors was found, but not which it is.
	RoleUndecided
	// Unlisted: a thread's descriptor is linked into a list that was not
	// found.
	Unlisted
	// NoThreads: the core does not say which threads there were.
	NoThreads
	// DescriptorMissing: a thread's descriptor may be where the core has no
	// memory.
	DescriptorMissing
)

func (p *Process) limit(kind LimitKind, at elfcore.Addr, why elfcore.FaultReason, format string, args ...any) {
	p.Limits = append(p.Limits, Limit{Kind: kind, Addr: at, Fault: why, Text: fmt.Sprintf(format, args...)})
}

// listLimits says where a list leaves what the core holds.
func (p *Process) listLimits(l *List) {
	if l.End == Unreadable && l.Fault != elfcore.Unmapped {
		p.limit(ListLeaves, l.At, l.Fault, "the list %s goes on at %s, which is %s", l.Kind, l.At, l.Fault)
	}
}

// missingHeads says which lists may be where the core has no memory. A process
// without pthreads has none, and neither has one whose every place was read.
func (p *Process) missingHeads(f *finder) {
	if p.Libc.Kind == Musl || p.Libc.Kind == NoLibc {
		return
	}
	what := "no list of threads was found"
	switch user, used := p.List(StackUser), p.List(StackUsed); {
	case user == nil && used == nil && len(p.Lists) > 0:
		// The thread that died is on one of them.
		p.limit(HeadsMissing, 0, 0, "neither stack_user nor stack_used was found, though there is a list of threads")
		return
	case f.inRow || user != nil && used != nil:
		return
	case user != nil:
		what = "the list stack_used was not found"
	case used != nil:
		what = "the list stack_user was not found"
	}
	for _, im := range f.images {
		if im.missing {
			p.limit(HeadsMissing, 0, elfcore.NotDumped, "%s, and some of %s, where it could be, is not in the core", what, im.place)
			return
		}
	}
	if len(f.Segments) == 0 {
		p.limit(HeadsMissing, 0, elfcore.NotDumped, "the core holds no memory")
	}
}

// missingDescriptors says of which thread the descriptor may be where the core
// has no memory.
func (p *Process) missingDescriptors(v *view, ptrs *pointers) {
	if !p.Found {
		return
	}
	for i := range p.Threads {
		if p.Threads[i].Pthread != 0 {
			continue
		}
		at, why := elfcore.Addr(0), elfcore.Unmapped
		if tp, _, ok := v.Threads[i].ThreadPointer(); ok && ptrs.known {
			n := v.nodeAt(tp, ptrs.distance)
			if why, ok = v.fault(n); !ok {
				continue // it is there, and is none: the thread is not glibc's
			}
			at = n - elfcore.Addr(v.header)
		}
		switch {
		case why != elfcore.Unmapped:
			p.limit(DescriptorMissing, at, why, "the descriptor of thread %d at %s is %s", v.Threads[i].TID, at, why)
			return
		case v.incomplete():
			p.limit(DescriptorMissing, 0, elfcore.NotDumped, "the descriptor of thread %d was not found, and some of the memory is not in the core", v.Threads[i].TID)
			return
		}
	}
}
