package unwind

// Symbol names a frame by symbols alone: the function that the code belongs to,
// without file, line or inlined functions. It costs no debugging information.
func (u *Unwinder) Symbol(f Frame) Function {
	at := f.Lookup()
	m := u.set.At(at)
	if m == nil {
		return Function{}
	}
	fn := Function{Module: m}
	if m.BiasKnown {
		fn.ModuleOffset = fileAddress(f.PC, m.Bias, u.core.Arch.WordSize())
	}
	if sym, offset, ok := m.Symbolize(at); ok {
		fn.Name, fn.Offset, fn.HasOffset = sym.Name, offset+uint64(f.PC-at), true
	}
	return fn
}
