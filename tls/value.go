package tls

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/corethreads/corethreads/elfcore"
)

// Value is one variable of one thread.
type Value struct {
	// Address is where it is, 0 where that is not known.
	Address elfcore.Addr
	Status  Status
	// How and Why are those of the block.
	How, Why string
	// Bytes are what the core holds there: nil where any byte is missing, or
	// the size is not known. Of a very large variable they are the start.
	Bytes []byte
}

// maxValue bounds how many bytes of one variable are read.
const maxValue = 1 << 20

// Value reads a variable of a thread.
func (r *Resolver) Value(t Thread, v *Variable) Value {
	block := r.Block(t, v.Module)
	out := Value{Status: block.Status, How: block.How, Why: block.Why}
	if block.Status != OK {
		return out
	}
	base := r.narrow(block.Address + elfcore.Addr(v.Offset))
	if v.rustState != nil {
		state := make([]byte, 1)
		if _, err := r.core.ReadMemory(state, base+elfcore.Addr(*v.rustState)); err == nil {
			out.Why = rustState(state[0])
		}
	}
	at, why := r.follow(base, v.path)
	if why != "" {
		out.Status, out.Why = NotInCore, why
		return out
	}
	out.Address = at
	if v.Size == 0 {
		out.Why = "its size is not known"
		return out
	}
	b := make([]byte, min(v.Size, maxValue))
	if _, err := r.core.ReadMemory(b, out.Address); err != nil {
		out.Status, out.Why = NotInCore, err.Error()
		return out
	}
	out.Bytes = b
	return out
}

// Format gives a value for people. The type is not known, only the size: a word
// is a number, and where it points into memory, an address with what is there;
// a text is shown as one; everything else in hexadecimal.
func (r *Resolver) Format(b []byte) string {
	if s, ok := text(b); ok && len(b) > 8 {
		return s
	}
	switch len(b) {
	case 1:
		c := b[0]
		s := strconv.Itoa(int(c))
		if c >= 0x20 && c < 0x7f {
			s += " " + strconv.QuoteRune(rune(c))
		}
		return s
	case 2:
		x := r.core.ByteOrder.Uint16(b)
		return number(uint64(x), int64(int16(x)))
	case 4:
		x := r.core.ByteOrder.Uint32(b)
		if r.w == 4 {
			if s, ok := r.pointer(elfcore.Addr(x)); ok {
				return s
			}
		}
		return number(uint64(x), int64(int32(x)))
	case 8:
		x := r.core.ByteOrder.Uint64(b)
		if r.w == 8 {
			if s, ok := r.pointer(elfcore.Addr(x)); ok {
				return s
			}
		}
		return number(x, int64(x))
	}
	const shown = 32
	if len(b) > shown {
		return fmt.Sprintf("%s… (%d bytes)", hex.EncodeToString(b[:shown]), len(b))
	}
	return hex.EncodeToString(b)
}

// number gives an integer: one that is negative when it is signed, both ways;
// one that is too large to be a count, in hexadecimal alone.
func number(unsigned uint64, signed int64) string {
	switch {
	case signed < math.MinInt32 || signed >= 1<<48:
		return fmt.Sprintf("%#x", unsigned)
	case signed < 0:
		return fmt.Sprintf("%d (%#x)", signed, unsigned)
	case unsigned >= 1<<16:
		return fmt.Sprintf("%d (%#x)", unsigned, unsigned)
	}
	return strconv.FormatUint(unsigned, 10)
}

// pointer gives an address with its symbol, and the text behind it if there is
// one. It is false for a word that points nowhere.
func (r *Resolver) pointer(a elfcore.Addr) (string, bool) {
	if _, ok := r.core.Segment(a); !ok || a < elfcore.Addr(r.core.PageSize()) {
		return "", false
	}
	out := a.String()
	if sym, offset, ok := r.set.Symbolize(a); ok {
		out += fmt.Sprintf(" <%s+%d>", sym.Demangled(), offset)
		if offset == 0 {
			out = strings.TrimSuffix(out, "+0>") + ">"
		}
	}
	const most = 64
	b := make([]byte, most)
	n, _ := r.set.ReadMemory(b, a)
	if s, ok := text(b[:n]); ok {
		out += " " + s
	}
	return out, true
}

// text takes bytes for a C string: two printable characters at least, and then
// its NUL, or no end, which … says.
func text(b []byte) (string, bool) {
	s := string(b)
	end := strings.IndexByte(s, 0)
	more := ""
	if end < 0 {
		end, more = len(s), "…"
	}
	s = s[:end]
	if len(s) < 2 {
		return "", false
	}
	for i, c := range s {
		if c == utf8.RuneError && more != "" && len(s)-i < utf8.UTFMax {
			s = s[:i] // a rune that the limit cut
			break
		}
		if c == utf8.RuneError || !unicode.IsPrint(c) && c != '\n' && c != '\t' {
			return "", false
		}
	}
	return strconv.Quote(s) + more, true
}
