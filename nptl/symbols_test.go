package nptl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// symbols are those of a libc that is not real.
type symbols struct {
	fields    map[string]nptl.Field
	addresses map[string]elfcore.Addr
	version   string
}

func (s *symbols) Field(name string) (nptl.Field, bool) {
	f, ok := s.fields[name]
	return f, ok
}

func (s *symbols) Address(name string) (elfcore.Addr, bool) {
	a, ok := s.addresses[name]
	return a, ok
}

func (s *symbols) Version() (version, source string) { return s.version, "its file" }

// symbols are what the process's libc would have, by nptl_db/structs.def.
func (f *fake) symbols() *symbols {
	field := func(offset uint64) nptl.Field { return nptl.Field{Bits: 32, Elements: 1, Offset: uint32(offset)} }
	s := &symbols{version: fmt.Sprintf("2.%d", f.minor), fields: map[string]nptl.Field{
		"pthread_list":           field(f.list),
		"pthread_tid":            field(f.list + f.tid()),
		"pthread_cancelhandling": field(f.list + f.cancelHandling),
		"pthread_start_routine":  field(f.list + f.startRoutine),
	}}
	if f.pid != 0 {
		s.fields["pthread_pid"] = field(f.list + f.pid)
	}
	h := f.heads()
	user, used := elfcore.Addr(h.user), elfcore.Addr(h.used)
	switch f.home {
	case inLoader:
		s.addresses = map[string]elfcore.Addr{"_rtld_global": used - 0x98}
		s.fields["rtld_global__dl_stack_used"] = field(0x98)
		s.fields["rtld_global__dl_stack_user"] = field(0x98 + 2*f.word)
	case inLibpthread, cacheFirst:
		s.addresses = map[string]elfcore.Addr{"__stack_user": user, "stack_used": used}
	default:
		s.addresses = map[string]elfcore.Addr{"_dl_stack_user": user, "_dl_stack_used": used}
	}
	return s
}

// TestSymbolsAgree: true symbols change nothing but what is known of the
// version.
func TestSymbolsAgree(t *testing.T) {
	for _, l := range libcs() {
		for h, place := range homes(l) {
			t.Run(l.String()+"/"+place, func(t *testing.T) {
				f := busy(l, h)
				c := open(t, f.core())
				alone, p := nptl.Read(c, nil), nptl.Read(c, f.symbols())
				if len(p.Disagreements) > 0 {
					t.Errorf("disagreements: %q", p.Disagreements)
				}
				if diff := cmp.Diff(told(c, alone.Handles), told(c, p.Handles)); diff != "" {
					t.Errorf("handles (- without symbols, + with them):\n%s", diff)
				}
				if p.Layout.Source != "symbols" || p.Libc.Version != l.minor || p.Libc.Min != l.minor || p.Libc.Max != l.minor || p.Libc.Source != "its file" {
					t.Errorf("layout by %q, glibc %+v", p.Layout.Source, p.Libc)
				}
			})
		}
	}
}

// TestRtldGlobalByPointer: libc points at the loader's _rtld_global.
func TestRtldGlobalByPointer(t *testing.T) {
	f := busy(version(x8664, 36), inLoader)
	s := f.symbols()
	c := f.core()
	pointer := f.high() + 0xf7c02010 // in libc's data
	c.Poke(pointer, uint64(s.addresses["_rtld_global"]))
	delete(s.addresses, "_rtld_global")
	s.addresses["__nptl_rtld_global"] = elfcore.Addr(pointer)
	if p := nptl.Read(open(t, c), s); len(p.Disagreements) > 0 {
		t.Errorf("disagreements: %q", p.Disagreements)
	}
	s.addresses["__nptl_rtld_global"] = elfcore.Addr(pointer + 8) // 0: it leads nowhere
	if p := nptl.Read(open(t, c), s); len(p.Disagreements) != 2 {
		t.Errorf("disagreements: %q, should be of two lists", p.Disagreements)
	}
}

// TestSymbolsDisagree: what symbols say against the core's own bytes is said,
// and the core is believed.
func TestSymbolsDisagree(t *testing.T) {
	f := busy(version(x8664, 24), inLibpthread)
	c := open(t, f.core())
	for name, lie := range map[string]func(s *symbols){
		"pthread_list":           func(s *symbols) { s.fields["pthread_list"] = nptl.Field{Offset: 0x2c8} },
		"pthread_tid":            func(s *symbols) { s.fields["pthread_tid"] = nptl.Field{Offset: 8} },
		"pthread_cancelhandling": func(s *symbols) { s.fields["pthread_cancelhandling"] = nptl.Field{Offset: 8} },
		"pthread_start_routine":  func(s *symbols) { s.fields["pthread_start_routine"] = nptl.Field{Offset: 8} },
		"pthread_pid":            func(s *symbols) { s.fields["pthread_pid"] = nptl.Field{Offset: 8} },
		"stack_used, stack_user by the symbols": func(s *symbols) {
			s.addresses["stack_used"], s.addresses["__stack_user"] = s.addresses["__stack_user"], s.addresses["stack_used"]
		},
		"which no symbol confirms": func(s *symbols) { s.addresses["stack_used"] = elfcore.Addr(f.program()) },
		"glibc is 2.36 by its file, 2.19": func(s *symbols) {
			s.version = "2.36"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := f.symbols()
			lie(s)
			p := nptl.Read(c, s)
			said := strings.Join(p.Disagreements, "\n")
			if want, _, _ := strings.Cut(name, ", "); !strings.Contains(said, want) {
				t.Errorf("disagreements %q, should be about %s", said, name)
			}
			if diff := cmp.Diff(f.handles(), told(c, p.Handles)); diff != "" {
				t.Errorf("handles (- as they are, + as nptl says):\n%s", diff)
			}
			if strings.HasPrefix(name, "pthread_") && p.Layout.Source != "inferred" {
				t.Errorf("the layout is by %q", p.Layout.Source)
			}
		})
	}
}

// TestUselessSymbols: symbols that say nothing, or nothing that can be, do no
// harm.
func TestUselessSymbols(t *testing.T) {
	f := busy(version(x8664, 36), inLoader)
	c := open(t, f.core())
	for name, s := range map[string]*symbols{
		"none":          {},
		"odd version":   {version: "2.36.9000"},
		"other version": {version: "3.1"},
		"nowhere":       {addresses: map[string]elfcore.Addr{"_rtld_global": nowhere, "stack_used": ^elfcore.Addr(0), "__stack_user": 0}},
	} {
		p := nptl.Read(c, s)
		if diff := cmp.Diff(f.handles(), told(c, p.Handles)); diff != "" {
			t.Errorf("%s: handles (- as they are, + as nptl says):\n%s", name, diff)
		}
		if p.Libc.Version != 0 {
			t.Errorf("%s: glibc 2.%d", name, p.Libc.Version)
		}
	}
}

// TestSymbolsDecide: a list that could be stack_used or the cache is what its
// symbol says.
func TestSymbolsDecide(t *testing.T) {
	f := newFake(version(x8664, 31), inLibpthread)
	f.exit(f.thread())
	f.exit(f.thread())
	f.join(f.thread())
	c := f.core()
	// Without the size of the cache nothing tells the two apart.
	leaveOut(c, slices.IndexFunc(c.Loads, holds(f.heads().cacheSize)))
	core := open(t, c)
	if p := nptl.Read(core, nil); p.List(nptl.StackUsed) != nil || p.List(nptl.Undecided) == nil || !limited(p, nptl.RoleUndecided) {
		t.Errorf("without symbols: %+v, limits %v", p.Lists, p.Limits)
	}
	p := nptl.Read(core, f.symbols())
	if l := p.List(nptl.StackUsed); l == nil || uint64(l.Head) != f.heads().used || limited(p, nptl.RoleUndecided) {
		t.Errorf("with symbols: %+v, limits %v", p.Lists, p.Limits)
	}
	for _, x := range f.used {
		if !slices.ContainsFunc(p.Handles, func(h *nptl.Handle) bool { return uint64(h.Pthread) == x.pthread && h.State == nptl.Zombie }) {
			t.Errorf("the zombie %#x is missing", x.pthread)
		}
	}
}

func limited(p *nptl.Process, kind nptl.LimitKind) bool {
	return slices.ContainsFunc(p.Limits, func(l nptl.Limit) bool { return l.Kind == kind })
}

// TestSymbolsFindHead: a list that is damaged at both ends is found by its
// symbol.
func TestSymbolsFindHead(t *testing.T) {
	for _, h := range []home{staticForward, inLoader} {
		f := newFake(version(x8664, 36), h)
		f.exit(f.thread())
		c := f.core()
		head := f.heads().used
		c.Poke(head, nowhere)
		c.Poke(head+f.word, nowhere+0x100)
		p := nptl.Read(open(t, c), f.symbols())
		if l := p.List(nptl.StackUsed); l == nil || uint64(l.Head) != head || l.End != nptl.Unreadable || l.Why != "its symbol" && h == staticForward {
			t.Errorf("stack_used: %+v", l)
		}
	}
}
