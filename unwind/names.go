package unwind

import (
	"path"
	"strings"

	"github.com/corethreads/corethreads/module"
)

// Function is one function at one address: that of a frame, or one that the
// compiler put into it.
type Function struct {
	// Name is the linkage name, empty for unknown.
	Name string
	// Offset counts from the start of the function's symbol; HasOffset is
	// false where there is none, as for an inlined function.
	Offset    uint64
	HasOffset bool
	// Module is nil for an address that belongs to none. ModuleOffset is the
	// address in the module's file, before the bias.
	Module       *module.Module
	ModuleOffset uint64
	// File and Line are the place in the source, "" and 0 for unknown.
	File string
	Line int
	// Inlined tells that it is part of the function that follows.
	Inlined bool
}

// Demangled is the name as in source, without parameters.
func (f *Function) Demangled() string { return module.Symbol{Name: f.Name}.Demangled() }

// Signature is the name as in source, with parameters where the linkage name
// has them.
func (f *Function) Signature() string { return module.Symbol{Name: f.Name}.Signature() }

// ModuleName is the last part of the module's path, empty for no module.
func (f *Function) ModuleName() string {
	if f.Module == nil {
		return ""
	}
	return path.Base(strings.TrimSuffix(f.Module.String(), " (deleted)"))
}

// Functions names a frame: the function that the code belongs to is the last,
// those that were inlined there come in front of it, the innermost first. There
// is always one.
func (u *Unwinder) Functions(f Frame) []Function {
	at := f.Lookup()
	if known, ok := u.names[at]; ok {
		return known
	}
	out := []Function{u.Symbol(f)}
	if m := out[0].Module; m != nil && m.BiasKnown {
		if d := u.debugOf(m); d != nil {
			out = d.functions(fileAddress(at, m.Bias, u.core.Arch.WordSize()), out[0])
		}
	}
	if len(u.names) < maxCached {
		u.names[at] = out
	}
	return out
}

// debugOf gives the debugging information of a module, nil for none.
func (u *Unwinder) debugOf(m *module.Module) *debugInfo {
	if m.Original != nil {
		m = m.Original
	}
	d, ok := u.debug[m]
	if !ok {
		d = openDebugInfo(m)
		u.debug[m] = d
	}
	return d
}
