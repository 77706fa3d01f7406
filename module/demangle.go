package module

import (
	"github.com/ianlancetaylor/demangle"
)

const (
	// maxMangled is the longest name that is demangled, in bytes.
	maxMangled = 16 << 10
	// maxDemangled bounds the result to 2^16 bytes: a short mangled name can
	// stand for a very long one.
	maxDemangled = 16
)

// Demangled is the name as in C++ or Rust source, without a function's
// parameters; the linkage name where that is not mangled.
func (s Symbol) Demangled() string { return demangled(s.Name, demangle.NoParams) }

// Signature is the name as in C++ or Rust source with a function's parameters.
func (s Symbol) Signature() string { return demangled(s.Name) }

func demangled(name string, options ...demangle.Option) (out string) {
	if len(name) > maxMangled {
		return name
	}
	// A name can be anything; what the library makes of it must not end us.
	defer func() {
		if recover() != nil {
			out = name
		}
	}()
	return demangle.Filter(name, append(options, demangle.MaxLength(maxDemangled))...)
}
