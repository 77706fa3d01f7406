package unwind

import (
	"path"
	"strings"
	"sync"

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
	l := u.debug[m]
	if l == nil {
		l = &lazyDebugInfo{}
		u.debug[m] = l
	}
	return l.of(m)
}

// ReadAhead tells that Functions will be asked for what the stacks have: from now
// on the debugging information of each module that code is found in is read in
// the background, while stacks are walked.
func (u *Unwinder) ReadAhead() { u.ahead = true }

// openAhead begins to read the debugging information of a module.
func (u *Unwinder) openAhead(m *module.Module) {
	if m.Original != nil {
		m = m.Original
	}
	if u.debug[m] != nil {
		return
	}
	l := &lazyDebugInfo{}
	u.debug[m] = l
	m.DebugFile() // the search for it is not made for several at once
	go l.of(m)
}

// lazyDebugInfo is the debugging information of a module, read when it is wanted
// first; nil for none.
type lazyDebugInfo struct {
	once sync.Once
	info *debugInfo
}

func (l *lazyDebugInfo) of(m *module.Module) *debugInfo {
	l.once.Do(func() { l.info = openDebugInfo(m) })
	return l.info
}
