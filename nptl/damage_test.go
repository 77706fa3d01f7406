package nptl_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/nptl"
)

// damaged are the layouts that lists are damaged in.
func damaged() map[string]*fake {
	out := make(map[string]*fake)
	for _, l := range []libc{version(x8664, 36), version(i386, 31), version(armhf, 36), version(aarch64, 43), version(s390x, 24)} {
		for h, place := range homes(l) {
			f := newFake(l, h)
			for range 2 {
				f.thread()
				f.exit(f.thread())
				f.userThread()
				f.exit(f.userThread())
			}
			f.join(f.thread())
			out[l.String()+"/"+place] = f
		}
	}
	return out
}

// site is a member of a list that a test damages.
type site struct {
	f    *fake
	core *coretest.Core
	kind nptl.ListKind
	list []*fakeThread
	at   int // index in list
}

func (s *site) node() uint64  { return s.f.node(s.list[s.at]) }
func (s *site) first() uint64 { return s.f.node(s.list[0]) }

// load finds the segment that holds the node.
func (s *site) load() int { return slices.IndexFunc(s.core.Loads, holds(s.node())) }

// eachSite runs a test for each member of stack_user and stack_used, each time
// on a core that is whole.
func eachSite(t *testing.T, test func(t *testing.T, s *site)) {
	for name, f := range damaged() {
		for _, x := range []struct {
			kind nptl.ListKind
			list []*fakeThread
		}{{nptl.StackUser, f.user}, {nptl.StackUsed, f.used}} {
			for at := range x.list {
				t.Run(fmt.Sprintf("%s/%s/%d", name, x.kind, at), func(t *testing.T) {
					test(t, &site{f: f, core: f.core(), kind: x.kind, list: x.list, at: at})
				})
			}
		}
	}
}

const nowhere = 0xdead0000 // no memory is there in any fake process

// TestBrokenLists: wherever a list breaks off, that is seen for what it is, and
// all handles that can still be reached are what they were.
func TestBrokenLists(t *testing.T) {
	breaks := map[string]struct {
		do    func(s *site)
		end   nptl.EndReason
		at    func(s *site) uint64
		lost  bool // the descriptor itself is gone
		fault elfcore.FaultReason
	}{
		"next is 0":       {do: func(s *site) { s.core.Poke(s.node(), 0) }, end: nptl.Zero, at: (*site).node},
		"next is itself":  {do: func(s *site) { s.core.Poke(s.node(), s.node()) }, end: nptl.Cycle, at: (*site).node},
		"next is first":   {do: func(s *site) { s.core.Poke(s.node(), s.first()) }, end: nptl.Cycle, at: (*site).first},
		"next is nowhere": {do: func(s *site) { s.core.Poke(s.node(), nowhere) }, end: nptl.Unreadable, at: func(*site) uint64 { return nowhere }},
		"memory is gone": {
			do:  func(s *site) { s.core.Loads = slices.Delete(s.core.Loads, s.load(), s.load()+1) },
			end: nptl.Unreadable, at: (*site).node, lost: true,
		},
		"memory was not dumped": {
			do: func(s *site) {
				l := &s.core.Loads[s.load()]
				l.MemSize, l.Data = uint64(len(l.Data)), nil
			},
			end: nptl.Unreadable, at: (*site).node, lost: true, fault: elfcore.NotDumped,
		},
		"memory is zeroes": {
			do:  func(s *site) { clear(s.core.Loads[s.load()].Data) },
			end: nptl.Zeroes, at: (*site).node, lost: true,
		},
	}
	for name, b := range breaks {
		t.Run(name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				b.do(s)
				p := read(t, s.core)
				list := p.List(s.kind)
				if list == nil {
					t.Fatalf("no list %s: %+v", s.kind, p.Lists)
				}
				if list.End != b.end || uint64(list.At) != b.at(s) || list.Fault != b.fault {
					t.Errorf("it ends %s at %s (%s), should be %s at %#x (%s)", list.End, list.At, list.Fault, b.end, b.at(s), b.fault)
				}
				want := s.f.states()
				if b.lost {
					delete(want, s.list[s.at].pthread)
				}
				wantStates(t, p, want)
				if limited := len(p.Limits) > 0; limited != (b.fault != elfcore.Unmapped) {
					t.Errorf("limits %v", p.Limits)
				}
			})
		})
	}
}

// states is what has become of each thread on the lists, by descriptor.
func (f *fake) states() map[uint64]nptl.State {
	out := make(map[uint64]nptl.State)
	for _, t := range slices.Concat(f.user, f.used) {
		out[t.pthread] = f.state(t)
	}
	return out
}

func wantStates(t *testing.T, p *nptl.Process, want map[uint64]nptl.State) {
	t.Helper()
	got := make(map[uint64]nptl.State)
	for _, h := range p.Handles {
		if _, twice := got[uint64(h.Pthread)]; twice {
			t.Errorf("handle %s twice", h.Pthread)
		}
		got[uint64(h.Pthread)] = h.State
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("states by handle (- as they are, + as nptl says):\n%s", diff)
	}
}

// TestHarmlessDamage: libthread_db never reads prev, and the proofs of a
// descriptor are many: none of this changes what is said.
func TestHarmlessDamage(t *testing.T) {
	for name, do := range map[string]func(s *site){
		"prev is nowhere": func(s *site) { s.core.Poke(s.node()+s.f.word, nowhere) },
		"prev is 0":       func(s *site) { s.core.Poke(s.node()+s.f.word, 0) },
		"prev is itself":  func(s *site) { s.core.Poke(s.node()+s.f.word, s.node()) },
		"a robust mutex is held": func(s *site) {
			s.core.Poke(s.node()+s.f.robustHead, s.node()-0x100)
		},
		"no thread-specific data": func(s *site) { s.core.Poke(s.node()+s.f.specific, 0) },
		"no proof is left": func(s *site) {
			s.core.Poke(s.node()+s.f.robustHead, 0)
			s.core.Poke(s.node()+s.f.specific, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				do(s)
				c := open(t, s.core)
				p := nptl.Read(c, nil)
				if diff := cmp.Diff(s.f.handles(), told(c, p.Handles)); diff != "" {
					t.Errorf("handles (- as they are, + as nptl says):\n%s", diff)
				}
				if len(p.Limits) > 0 {
					t.Errorf("limits %v", p.Limits)
				}
			})
		})
	}
}

// TestUnprovedNodeIsNoHead: where all memory has to be searched for heads, a
// descriptor that proves nothing is not taken for one.
func TestUnprovedNodeIsNoHead(t *testing.T) {
	for name, f := range damaged() {
		f.noFile, f.noAuxv, f.noPointers = true, true, true
		for _, x := range slices.Concat(f.user, f.used) {
			c := f.core()
			c.Poke(f.node(x)+f.robustHead, 0)
			c.Poke(f.node(x)+f.specific, 0)
			t.Run(fmt.Sprintf("%s/%#x", name, x.pthread), func(t *testing.T) { wantStates(t, read(t, c), f.states()) })
		}
	}
}

// TestUnlinked: a member that its predecessor skips is on the list no more,
// whether its successor still knows it or not.
func TestUnlinked(t *testing.T) {
	for _, bothSides := range []bool{false, true} {
		t.Run(fmt.Sprintf("both sides %v", bothSides), func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				if s.list[s.at].initial {
					return // the only one with an id that no other place tells
				}
				w, gone := s.f.word, s.list[s.at]
				ring := s.ring()
				prev, next := ring[s.at], ring[(s.at+2)%len(ring)]
				s.core.Poke(prev, next)
				if bothSides {
					s.core.Poke(next+w, prev)
				}
				p := read(t, s.core)
				want := s.f.states()
				delete(want, gone.pthread)
				wantStates(t, p, want)
				for i, h := range p.Handles {
					if h.Position != i {
						t.Errorf("handle %s has position %d, should be %d", h.Pthread, h.Position, i)
					}
				}
			})
		})
	}
}

// ring is the list's head, then its nodes.
func (s *site) ring() []uint64 {
	h := s.f.heads()
	ring := []uint64{map[nptl.ListKind]uint64{nptl.StackUser: h.user, nptl.StackUsed: h.used}[s.kind]}
	for _, x := range s.list {
		ring = append(ring, s.f.node(x))
	}
	return ring
}

// TestRetired: an id of −1 is glibc's mark of a joined thread, and what a repair
// writes. A living thread stays alive with it.
func TestRetired(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.core.Poke32(s.node()+s.f.tid(), 0xffffffff)
		want := s.f.states()
		if id := s.list[s.at].pthread; want[id] == nptl.Zombie {
			want[id] = nptl.Retired
		}
		wantStates(t, read(t, s.core), want)
	})
}

// TestDamagedHeads: a head can be damaged as its members can.
func TestDamagedHeads(t *testing.T) {
	for name, f := range damaged() {
		h := f.heads()
		for kind, head := range map[nptl.ListKind]uint64{nptl.StackUser: h.user, nptl.StackUsed: h.used} {
			t.Run(fmt.Sprintf("%s/%s", name, kind), func(t *testing.T) {
				c := f.core()
				c.Poke(head, nowhere)
				p := read(t, c)
				if l := p.List(kind); l == nil || l.End != nptl.Unreadable || uint64(l.At) != nowhere {
					t.Errorf("next leads nowhere: %+v", l)
				}
				wantStates(t, p, f.states())

				c = f.core()
				c.Poke(head+f.word, nowhere)
				p = read(t, c)
				if l := p.List(kind); l == nil || l.End != nptl.Closed {
					t.Errorf("prev leads nowhere: %+v", l)
				}
				wantStates(t, p, f.states())

				// Damaged at both ends: the members are found by the
				// thread pointers of those that live.
				c = f.core()
				c.Poke(head, nowhere)
				c.Poke(head+f.word, nowhere)
				p = read(t, c)
				wantNothingFalse(t, p, f.states())
				missing := slices.ContainsFunc(p.Threads, func(x nptl.Thread) bool { return x.Pthread == 0 })
				if l := p.List(kind); len(p.Limits) == 0 && !missing && (l == nil || l.End == nptl.Closed) {
					t.Errorf("a list without ends is passed over in silence: %+v", p.Lists)
				}
			})
		}
	}
}

// wantNothingFalse allows handles to be missing, not to be wrong.
func wantNothingFalse(t *testing.T, p *nptl.Process, truth map[uint64]nptl.State) {
	t.Helper()
	want := maps.Clone(truth)
	for pthread := range truth {
		if !slices.ContainsFunc(p.Handles, func(h *nptl.Handle) bool { return uint64(h.Pthread) == pthread }) {
			delete(want, pthread)
		}
	}
	wantStates(t, p, want)
}

// TestLostListOfForkChild: the cache of a fork child holds its parent's zombies,
// and is not taken for the list that the child has lost.
func TestLostListOfForkChild(t *testing.T) {
	for _, l := range []libc{version(x8664, 31), version(x8664, 36), version(i386, 36), version(aarch64, 43), version(s390x, 43)} {
		for h, place := range homes(l) {
			t.Run(l.String()+"/"+place, func(t *testing.T) {
				f := processes["fork child"](l, h)
				c := f.core()
				me := f.node(f.used[0])
				for _, a := range []uint64{f.heads().used, me} {
					c.Poke(a, 0x10)
					c.Poke(a+f.word, 0x10)
				}
				p := read(t, c)
				for _, x := range p.Handles {
					if x.State != nptl.Live {
						t.Errorf("handle %s is %s (%s)", x.Pthread, x.State, x.List)
					}
				}
				if l := p.List(nptl.StackUsed); len(p.Limits) == 0 && (l == nil || l.End == nptl.Closed) {
					t.Errorf("the loss is passed over in silence: %+v", p.Lists)
				}
			})
		}
	}
}

// TestHeadBetweenHeads: of the three heads in the loader's row, the middle one is
// known whatever is left of it.
func TestHeadBetweenHeads(t *testing.T) {
	for _, l := range []libc{version(x8664, 36), version(armhf, 36), version(s390x, 43)} {
		f := newFake(l, inLoader)
		f.thread()
		f.exit(f.userThread())
		f.exit(f.main())
		c := f.core()
		c.Poke(f.heads().user, 0x10)
		c.Poke(f.heads().user+f.word, 0x14)
		p := read(t, c)
		if l := p.List(nptl.StackUser); l == nil || uint64(l.Head) != f.heads().user || l.End != nptl.Unreadable {
			t.Errorf("%s: stack_user is %+v", f, l)
		}
		wantNothingFalse(t, p, f.states())
	}
}
