package module

import (
	"strconv"
	"strings"

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
	return demangle.Filter(keepUnderscores(name), append(options, demangle.MaxLength(maxDemangled))...)
}

// legacyHash is how long the end of a legacy Rust name is: 17h, 16 digits of a
// hash, E.
const legacyHash = 20

// keepUnderscores doubles the underscore that an identifier in a legacy Rust name
// begins with: the library takes one away, which belongs there only in front of
// an escape ($). Other names stay as they are.
func keepUnderscores(name string) string {
	rest, ok := strings.CutPrefix(name, "_ZN")
	if !ok || len(rest) < legacyHash || !isLegacyHash(rest[len(rest)-legacyHash:]) {
		return name
	}
	hash := rest[len(rest)-legacyHash:]
	rest = rest[:len(rest)-legacyHash]
	var b strings.Builder
	b.WriteString("_ZN")
	for rest != "" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n == 0 || n > len(rest)-digits {
			return name
		}
		identifier := rest[digits : digits+n]
		if strings.HasPrefix(identifier, "_") && !strings.HasPrefix(identifier, "_$") {
			identifier = "_" + identifier
		}
		b.WriteString(strconv.Itoa(len(identifier)) + identifier)
		rest = rest[digits+n:]
	}
	return b.String() + hash
}

// isLegacyHash tells whether the end of a name is that of a legacy Rust name; as
// the library does, it wants five different digits.
func isLegacyHash(s string) bool {
	hex, ok := strings.CutPrefix(s, "17h")
	hex, end := strings.CutSuffix(hex, "E")
	if !ok || !end || strings.Trim(hex, "0123456789abcdef") != "" {
		return false
	}
	different := 0
	for _, digit := range "0123456789abcdef" {
		if strings.ContainsRune(hex, digit) {
			different++
		}
	}
	return different >= 5
}
