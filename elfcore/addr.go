package elfcore

import (
	"fmt"
	"strconv"
	"strings"
)

// Addr is an address in the dead process.
type Addr uint64

// String gives the address as gdb prints it: 0x and hexadecimal digits.
func (a Addr) String() string { return "0x" + strconv.FormatUint(uint64(a), 16) }

// MarshalText gives the form of String, so that JSON never holds an address
// as a number (which many readers would round to a double).
func (a Addr) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the form of String.
func (a *Addr) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if !ok {
		return fmt.Errorf("address %q does not start with 0x", text)
	}
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		return fmt.Errorf("address %q: %w", text, err)
	}
	*a = Addr(v)
	return nil
}

// Add gives a+n, and false where that leaves the 64-bit address space.
func (a Addr) Add(n uint64) (Addr, bool) {
	sum := a + Addr(n)
	return sum, sum >= a
}

// Sub gives the distance from b up to a in bytes, and false where a is below b.
func (a Addr) Sub(b Addr) (uint64, bool) { return uint64(a - b), a >= b }

// Range is a half-open range of addresses.
type Range struct {
	Start, End Addr
}

// String gives the range in the manner of /proc/pid/maps.
func (r Range) String() string {
	return fmt.Sprintf("%x-%x", uint64(r.Start), uint64(r.End))
}

// Len is the number of bytes in the range.
func (r Range) Len() uint64 {
	if r.End <= r.Start {
		return 0
	}
	return uint64(r.End - r.Start)
}

// Contains tells whether a lies in the range.
func (r Range) Contains(a Addr) bool { return r.Start <= a && a < r.End }

// Overlaps tells whether the two ranges share a byte.
func (r Range) Overlaps(o Range) bool { return r.Start < o.End && o.Start < r.End }
