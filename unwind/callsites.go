package unwind

import (
	"debug/dwarf"
)

// What GCC wrote before DWARF 5 had call sites
// (https://sourceware.org/elfutils/DwarfExtensions).
const (
	tagGNUCallSite          = dwarf.Tag(0x4109)
	attrGNUTailCall         = dwarf.Attr(0x2115)
	attrGNUAllTailCallSites = dwarf.Attr(0x2116)
	attrGNUAllCallSites     = dwarf.Attr(0x2117)
)

const (
	tagTryBlock   = dwarf.Tag(0x32)
	tagCatchBlock = dwarf.Tag(0x25)
)

// callSite is a call in the code of a function.
type callSite struct {
	// pc is the address behind the call or jump; where it is not known, exact
	// tells that it is that of the instruction itself.
	pc    uint64
	exact bool
	// tail tells that it is a jump: the function that goes there leaves.
	tail bool
	// origin is the entry of what is called, 0 where the code takes it from a
	// pointer.
	origin dwarf.Offset
}

// callSites are the calls of a function.
type callSites struct {
	all []callSite
	// complete tells that no tail call is left out.
	complete bool
}

// maxCallEntries bounds the entries of all functions of a module together that
// are looked through for calls.
const maxCallEntries = 1 << 24

// callsOf reads the calls of the function at an entry, nil where it cannot.
func (d *debugInfo) callsOf(entry dwarf.Offset) *callSites {
	if known, ok := d.calls[entry]; ok {
		return known
	}
	// What is damaged has no calls either when it is asked for again.
	d.calls[entry] = nil
	c := d.readCalls(entry)
	d.calls[entry] = c
	return c
}

// readCalls goes through a function with its blocks and inlined functions. A
// function that stands in another one is left out: its calls are its own.
func (d *debugInfo) readCalls(entry dwarf.Offset) *callSites {
	r := d.data.Reader()
	r.Seek(entry)
	e, err := r.Next()
	if err != nil || e == nil || e.Tag != dwarf.TagSubprogram {
		return nil
	}
	c := &callSites{complete: flagged(e, dwarf.AttrCallAllCalls, dwarf.AttrCallAllTailCalls, attrGNUAllCallSites, attrGNUAllTailCallSites)}
	depth := 0
	if e.Children {
		depth = 1
	}
	most := min(maxEntries, maxCallEntries-d.callEntries)
	left := most
	defer func() { d.callEntries += most - left }()
	for depth > 0 {
		e, err := r.Next()
		if err != nil || e == nil || left <= 0 {
			return nil
		}
		left--
		switch e.Tag {
		case 0:
			depth--
			continue
		case dwarf.TagInlinedSubroutine, dwarf.TagLexDwarfBlock, tagTryBlock, tagCatchBlock:
			if e.Children {
				depth++
			}
			continue
		case dwarf.TagCallSite, tagGNUCallSite:
			if s, ok := readCall(e); ok {
				c.all = append(c.all, s)
			} else {
				c.complete = false
			}
		}
		if e.Children && !skipChildren(r, e, &left) {
			return nil
		}
	}
	return c
}

func readCall(e *dwarf.Entry) (s callSite, ok bool) {
	s.tail = flagged(e, dwarf.AttrCallTailCall, attrGNUTailCall)
	if s.origin, ok = e.Val(dwarf.AttrCallOrigin).(dwarf.Offset); !ok {
		s.origin, _ = e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
	}
	for _, a := range []dwarf.Attr{dwarf.AttrCallReturnPC, dwarf.AttrLowpc} {
		if s.pc, ok = e.Val(a).(uint64); ok {
			return s, true
		}
	}
	// clang says where a jump is instead: nothing returns behind it.
	s.pc, s.exact = e.Val(dwarf.AttrCallPC).(uint64)
	return s, s.exact
}

// flagged tells whether one of the flags is set.
func flagged(e *dwarf.Entry, flags ...dwarf.Attr) bool {
	for _, a := range flags {
		if set, _ := e.Val(a).(bool); set {
			return true
		}
	}
	return false
}

// before finds the one call that returns to an address.
func (c *callSites) before(pc uint64) (found callSite, ok bool) {
	for _, s := range c.all {
		if s.pc != pc || s.exact {
			continue
		}
		if s.tail || ok && s != found {
			return callSite{}, false
		}
		found, ok = s, true
	}
	return found, ok
}
