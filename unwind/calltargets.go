package unwind

import (
	"debug/dwarf"
	"debug/elf"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

// place is a function: where it starts, as an address of the module's file.
type place struct {
	module *module.Module
	start  uint64
}

// described is a function with what debugging information has of it.
type described struct {
	place
	debug *debugInfo
	unit  *unit
	// entry is 0 where there is no debugging information.
	entry dwarf.Offset
}

// functionAt finds the function that an address of a module's file belongs to.
// Without debugging information it is the one whose symbol contains the
// address: a label does not tell where its function ends.
func (u *Unwinder) functionAt(m *module.Module, pc uint64) (f described, ok bool) {
	if m.Original != nil {
		m = m.Original
	}
	f.module = m
	if d := u.debugOf(m); d != nil {
		for _, x := range find(d.units, pc) {
			unit := d.unitOf(x.entry)
			if in := d.functionsAt(unit, pc); len(in) > 0 {
				f.debug, f.unit, f.entry = d, unit, in[0].entry
				f.start, ok = d.startOf(f.entry)
				return f, ok
			}
		}
	}
	sym, offset, ok := m.Symbolize(m.Bias + elfcore.Addr(pc))
	if !ok || offset >= sym.Size || sym.Type != elf.STT_FUNC {
		return described{}, false
	}
	f.start = sym.Value
	return f, true
}

// startOf is the first address of the function at an entry; false where it has
// no code, as a declaration or one that the linker dropped.
func (d *debugInfo) startOf(entry dwarf.Offset) (uint64, bool) {
	e := d.entryAt(entry)
	if e == nil || e.Tag != dwarf.TagSubprogram {
		return 0, false
	}
	x := d.extents(nil, e)
	if len(x) == 0 {
		return 0, false
	}
	return x[0].low, true
}

func (d *debugInfo) entryAt(offset dwarf.Offset) *dwarf.Entry {
	r := d.data.Reader()
	r.Seek(offset)
	e, err := r.Next()
	if err != nil {
		return nil
	}
	return e
}

// target finds the function that a call of another function goes to; false
// where that cannot be said for sure.
func (u *Unwinder) target(from described, s callSite) (described, bool) {
	if s.origin == 0 {
		return described{}, false
	}
	if start, ok := from.debug.startOf(s.origin); ok {
		return u.startsAt(place{from.module, start})
	}
	if name := from.declared(s); name != "" {
		return u.named(from.module, name)
	}
	return described{}, false
}

// declared is the name of the symbol that a call goes to, empty where it is not
// of a function that is declared only. With link-time optimization another entry
// stands in front of the declaration. In other languages than C, what has no
// linkage name may have another symbol.
func (f described) declared(s callSite) string {
	at := s.origin
	for range maxOrigins {
		e := f.debug.entryAt(at)
		if e == nil || e.Tag != dwarf.TagSubprogram {
			return ""
		}
		if flagged(e, dwarf.AttrDeclaration) {
			name, ok := e.Val(dwarf.AttrLinkageName).(string)
			if !ok && f.unit.isC {
				name, _ = e.Val(dwarf.AttrName).(string)
			}
			return name
		}
		var ok bool
		if at, ok = e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); !ok {
			return ""
		}
	}
	return ""
}

// startsAt finds the function that starts at an address.
func (u *Unwinder) startsAt(p place) (described, bool) {
	f, ok := u.functionAt(p.module, p.start)
	return f, ok && f.start == p.start
}

// symbolKey is a name as code of a module uses it.
type symbolKey struct {
	from *module.Module
	name string
}

// maxNames bounds the names that are looked for in the symbols of all modules.
const maxNames = 1 << 12

// named finds the function that code of a module calls by a name. It is false
// where several have the name: what the loader bound the code to depends on how
// the modules were loaded.
func (u *Unwinder) named(from *module.Module, name string) (described, bool) {
	key := symbolKey{from, name}
	p, known := u.bindings[key]
	if !known {
		if len(u.bindings) == maxNames {
			return described{}, false
		}
		p = u.bound(from, name)
		u.bindings[key] = p
	}
	if p.module == nil {
		return described{}, false
	}
	return u.startsAt(p)
}

// bound finds the only function with a name, a place without a module for none.
func (u *Unwinder) bound(from *module.Module, name string) (out place) {
	for _, m := range u.set.Modules {
		if m.Namespace != from.Namespace || m.Original != nil {
			continue
		}
		for _, s := range m.Lookup(name) {
			if s.Type == elf.STT_TLS || s.Type == elf.STT_OBJECT || !s.Exported && m != from {
				continue
			}
			p := place{m, s.Value}
			if s.Type != elf.STT_FUNC || !m.BiasKnown || out.module != nil && out != p {
				return place{}
			}
			out = p
		}
	}
	return out
}

// hasName tells whether a symbol of a function has a name.
func (f described) hasName(name string) bool {
	// To look for a name is slow in a large program, and most have one only.
	if sym, offset, ok := f.module.Symbolize(f.module.Bias + elfcore.Addr(f.start)); ok && offset == 0 && sym.Name == name {
		return true
	}
	for _, s := range f.module.Lookup(name) {
		if s.Value == f.start {
			return true
		}
	}
	return false
}
