package elfcore

import (
	"bytes"
	"fmt"
	"sort"
)

// FaultReason is why a byte of memory cannot be had from the core.
type FaultReason int

const (
	// Unmapped: the process had no memory there, as far as the core tells.
	Unmapped FaultReason = iota
	// NotDumped: there was memory, but its contents were left out
	// (coredump_filter, MADV_DONTDUMP, a partial dump).
	NotDumped
	// Truncated: the core was cut before these bytes.
	Truncated
)

func (r FaultReason) String() string {
	switch r {
	case NotDumped:
		return "not dumped"
	case Truncated:
		return "cut off"
	}
	return "unmapped"
}

// Fault is the error for memory that the core does not hold.
type Fault struct {
	Addr Addr
	Why  FaultReason
	// Offset is where in the core the byte would stand; only for Truncated.
	Offset int64
}

func (f *Fault) Error() string {
	switch f.Why {
	case NotDumped:
		return fmt.Sprintf("memory at %s was mapped but is not in the core", f.Addr)
	case Truncated:
		return fmt.Sprintf("memory at %s is missing: the core ends before offset %#x", f.Addr, f.Offset)
	}
	return fmt.Sprintf("no memory was mapped at %s", f.Addr)
}

// Segment finds the segment that an address lies in.
func (c *Core) Segment(a Addr) (*Segment, bool) {
	i := sort.Search(len(c.Segments), func(i int) bool { return c.Segments[i].End > a })
	if i == len(c.Segments) || c.Segments[i].Start > a {
		return nil, false
	}
	return &c.Segments[i], true
}

// Locate gives the file offset of a byte of memory, and false where the core
// does not hold it.
func (c *Core) Locate(a Addr) (offset int64, ok bool) {
	off, _, f := c.locate(a)
	return off, f == nil
}

// locate gives the file offset of a byte and how many follow it there.
func (c *Core) locate(a Addr) (offset int64, n uint64, fault *Fault) {
	s, ok := c.Segment(a)
	if !ok {
		why := Unmapped
		if _, mapped := c.Mapping(a); mapped {
			why = NotDumped
		}
		return 0, 0, &Fault{Addr: a, Why: why}
	}
	in := uint64(a - s.Start)
	if in >= s.FileSize {
		return 0, 0, &Fault{Addr: a, Why: NotDumped}
	}
	offset = s.Offset + int64(in)
	if offset >= c.Size {
		return 0, 0, &Fault{Addr: a, Why: Truncated, Offset: offset}
	}
	return offset, min(s.FileSize-in, uint64(c.Size-offset)), nil
}

// ReadMemory fills p with the memory at a and gives the number of bytes read.
// Where that is less than len(p), the error is a *Fault for the first byte that
// is missing, or the error of reading the file.
func (c *Core) ReadMemory(p []byte, a Addr) (int, error) {
	n := 0
	for n < len(p) {
		// No segment holds the last address, so that the sum cannot overflow.
		offset, have, fault := c.locate(a + Addr(n))
		if fault != nil {
			return n, fault
		}
		chunk := p[n : n+int(min(uint64(len(p)-n), have))]
		got, err := c.file.readSome(chunk, offset)
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Keep holds n bytes at a in memory as long as the core is open, if it has them,
// and gives them: for what is read again and again, at more places than the cache
// of pages holds. The caller must not change them. It is nil for what is not held:
// pieces that are longer than a page or not whole in the core, and more than
// 16 MiB of them.
func (c *Core) Keep(a Addr, n uint64) []byte {
	offset, have, fault := c.locate(a)
	if fault != nil || n > min(have, pageSize) {
		return nil
	}
	return c.file.keep(offset, int64(n))
}

// Word reads one pointer-sized unsigned word in the byte order of the process.
func (c *Core) Word(a Addr) (uint64, error) {
	var b [8]byte
	p := b[:c.Arch.WordSize()]
	if _, err := c.ReadMemory(p, a); err != nil {
		return 0, err
	}
	return c.WordOf(p), nil
}

// WordOf decodes the pointer-sized word at the start of b.
func (c *Core) WordOf(b []byte) uint64 {
	if c.Arch.WordSize() == 4 {
		return uint64(c.ByteOrder.Uint32(b))
	}
	return c.ByteOrder.Uint64(b)
}

// Uint32 reads 32 bits in the byte order of the process.
func (c *Core) Uint32(a Addr) (uint32, error) {
	var b [4]byte
	if _, err := c.ReadMemory(b[:], a); err != nil {
		return 0, err
	}
	return c.ByteOrder.Uint32(b[:]), nil
}

// CString reads bytes up to a NUL, max at the most. The error is that of
// ReadMemory when memory ends before the NUL; what was read is given with it.
func (c *Core) CString(a Addr, max int) (string, error) {
	var out []byte
	buf := make([]byte, 64)
	for len(out) < max {
		n, err := c.ReadMemory(buf[:min(len(buf), max-len(out))], a+Addr(len(out)))
		if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
			return string(append(out, buf[:i]...)), nil
		}
		out = append(out, buf[:n]...)
		if err != nil {
			return string(out), err
		}
	}
	return string(out), nil
}
