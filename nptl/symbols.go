package nptl

import (
	"fmt"
	"maps"
	"slices"

	"github.com/corethreads/corethreads/elfcore"
)

// Symbols are facts from the symbol tables of the process's own thread library,
// as found in a file that is proven to be the one that was mapped. They are what
// libthread_db would use (nptl_db/structs.def). Nothing here depends on them:
// where there are some, they must agree with the core.
type Symbols interface {
	// Field is the descriptor _thread_db_NAME of a member or variable.
	Field(name string) (Field, bool)
	// Address is where a variable is in the dead process.
	Address(name string) (elfcore.Addr, bool)
	// Version is the library's version (2.N) with the source of that, empty
	// where it is not known.
	Version() (version, source string)
}

// Field is a descriptor of libthread_db: three 32-bit numbers.
type Field struct {
	// Bits is the size of one element, Elements their number, Offset where the
	// first is, in bytes.
	Bits, Elements, Offset uint32
}

// symbolHeads gives the heads of the lists by the symbols of the three ways in
// which glibc has kept them.
func (v *view) symbolHeads(s Symbols) map[elfcore.Addr]ListKind {
	heads := make(map[elfcore.Addr]ListKind)
	// glibc up to 2.32, and static programs since 2.34.
	for name, kind := range map[string]ListKind{
		"__stack_user": StackUser, "stack_used": StackUsed, "_dl_stack_user": StackUser, "_dl_stack_used": StackUsed,
	} {
		if a, ok := s.Address(name); ok {
			heads[a] = kind
		}
	}
	// glibc since 2.33: members of _rtld_global, which libc points at.
	rtld, ok := s.Address("_rtld_global")
	if !ok {
		if p, found := s.Address("__nptl_rtld_global"); found {
			rtld, ok = v.pointer(p)
		}
	}
	if ok {
		for name, kind := range map[string]ListKind{
			"rtld_global__dl_stack_user": StackUser, "rtld_global__dl_stack_used": StackUsed,
		} {
			if f, ok := s.Field(name); ok {
				heads[rtld+elfcore.Addr(f.Offset)] = kind
			}
		}
	}
	return heads
}

// compare holds what was found against symbols, and adds what only they know.
func (p *Process) compare(f *finder, found *survey, s Symbols) *survey {
	heads := f.symbolHeads(s)
	if f.addHeads(heads, found.roles) {
		found = f.survey()
	}
	p.compareHeads(heads, found.roles)
	if len(found.proved) > 0 {
		p.compareLayout(&found.layout, s)
	}
	return found
}

// compareLayout holds the offsets that the core showed against those of the
// symbols.
func (p *Process) compareLayout(l *Layout, s Symbols) {
	compared, before := 0, len(p.Disagreements)
	for _, f := range []struct {
		name   string
		offset uint64
		known  bool
	}{
		{"pthread_list", l.Header, true},
		{"pthread_tid", l.Header + l.TID, true},
		{"pthread_cancelhandling", l.Header + l.CancelHandling, true},
		{"pthread_start_routine", l.Header + l.StartRoutine, l.StartRoutine != 0},
		{"pthread_pid", l.Header + l.PID, l.PID != 0},
	} {
		d, ok := s.Field(f.name)
		if !ok || !f.known {
			continue
		}
		compared++
		if uint64(d.Offset) != f.offset {
			p.disagree("struct pthread: %s is at %#x by the core's descriptors, at %#x by the symbols", f.name, f.offset, d.Offset)
		}
	}
	if compared > 0 && len(p.Disagreements) == before {
		l.Source = "symbols"
	}
}

// compareHeads holds the lists that the core showed against the symbols, and
// names by them the ones that the core left undecided.
func (p *Process) compareHeads(heads map[elfcore.Addr]ListKind, rs []role) {
	for i := range rs {
		kind, ok := heads[rs[i].addr]
		switch {
		case !ok && (rs[i].kind == StackUser || rs[i].kind == StackUsed) && len(heads) > 0:
			p.disagree("%s has its head at %s by the core's descriptors, which no symbol confirms", rs[i].kind, rs[i].addr)
		case ok && rs[i].kind == Undecided:
			rs[i].kind, rs[i].why = kind, "its symbol"
		case ok && rs[i].kind != kind:
			p.disagree("the list with its head at %s is %s by the core's descriptors, %s by the symbols", rs[i].addr, rs[i].kind, kind)
		}
	}
}

func (p *Process) disagree(format string, args ...any) {
	p.Disagreements = append(p.Disagreements, fmt.Sprintf(format, args...))
}

// addHeads takes heads that symbols name of lists that the scan did not find, as
// of one that is damaged at both ends.
func (f *finder) addHeads(heads map[elfcore.Addr]ListKind, found []role) bool {
	before := len(f.heads)
	for _, a := range slices.Sorted(maps.Keys(heads)) {
		if f.isHead(a) || !f.plausible(a) || slices.ContainsFunc(found, func(r role) bool { return r.kind == heads[a] }) {
			continue
		}
		next, prev, ok := f.pair(a)
		if !ok || next == 0 && prev == 0 {
			continue
		}
		f.images = append(f.images, f.around(a))
		f.add(candidate{addr: a, image: len(f.images) - 1})
	}
	f.settle()
	return len(f.heads) > before
}
