package tls

import (
	"debug/dwarf"
	"strings"
)

// rustStorage tells whether a variable is what Rust's thread_local! makes of one:
// a static of a fixed name, which can have a state beside the value.
func rustStorage(v *Variable) bool {
	last := v.Name[strings.LastIndex(v.Name, ":")+1:]
	return strings.HasSuffix(last, "RUST_STD_INTERNAL_VAL") || last == "__KEY"
}

// unwrapRust narrows such a variable to its value, by the debug information:
// struct Storage {state, value} of std/src/sys/thread_local/native, in the order
// that the compiler chose. Without debug information the whole is shown.
func (r *Resolver) unwrapRust(v Variable) Variable {
	if !rustStorage(&v) || v.Module.Module == nil {
		return v
	}
	data, err := v.Module.DWARF()
	if err != nil {
		return v
	}
	t := &types{data: data, order: r.core.ByteOrder}
	off, _, ok := t.variable(&v)
	if !ok {
		return v
	}
	typ, err := t.resolve(off)
	if err != nil {
		return v
	}
	v.Type = t.name(typ)
	if !strings.HasPrefix(v.Type, "Storage<") {
		return v
	}
	for _, member := range []string{"value", "val"} {
		at, of, ok := t.find(typ, member)
		if !ok {
			continue
		}
		value, err := t.resolve(of)
		if err != nil {
			return v
		}
		v.path = append(v.path, step{offset: at})
		v.Size, v.Type = t.size(value, r.w), t.name(value)
		if state, of, ok := t.find(typ, "state"); ok && t.isByte(of, r.w) {
			v.rustState = &state
		}
		return v
	}
	return v
}

// isByte tells whether a type is one byte long.
func (t *types) isByte(off dwarf.Offset, word uint64) bool {
	typ, err := t.resolve(off)
	return err == nil && t.size(typ, word) == 1
}

// rustStates are the values of State in std/src/sys/thread_local/native.
func rustState(state byte) string {
	switch state {
	case 0:
		return "this thread has not initialised it"
	case 2:
		return "this thread has already destroyed it"
	}
	return ""
}
