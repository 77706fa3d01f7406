package elfcore_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/corethreads/corethreads/elfcore"
)

// Sums and differences are those of whole numbers, or known not to be.
func TestAddrArithmetic(t *testing.T) {
	whole := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 2), rapid.Uint64Range(1<<64-3, 1<<64-1))
		a, b := near.Draw(t, "a"), near.Draw(t, "b")
		sum := new(big.Int).Add(whole(a), whole(b))
		if got, ok := elfcore.Addr(a).Add(b); ok != sum.IsUint64() || ok && uint64(got) != sum.Uint64() {
			t.Errorf("%d+%d is %d (%v)", a, b, got, ok)
		}
		difference := new(big.Int).Sub(whole(a), whole(b))
		if got, ok := elfcore.Addr(a).Sub(elfcore.Addr(b)); ok != difference.IsUint64() || ok && got != difference.Uint64() {
			t.Errorf("%d-%d is %d (%v)", a, b, got, ok)
		}
	})
}

func TestAddrText(t *testing.T) {
	for a, want := range map[elfcore.Addr]string{0: `"0x0"`, 0x7f00_0000_1234: `"0x7f0000001234"`, ^elfcore.Addr(0): `"0xffffffffffffffff"`} {
		b, err := json.Marshal(a)
		if err != nil || string(b) != want {
			t.Errorf("%d is %s in JSON (%v)", a, b, err)
		}
		var back elfcore.Addr
		if err := json.Unmarshal(b, &back); err != nil || back != a {
			t.Errorf("%s is read back as %s (%v)", b, back, err)
		}
	}
	for _, bad := range []string{`"12"`, `"0x"`, `"0xg"`, `"0x10000000000000000"`, `12`} {
		a := elfcore.Addr(7)
		if err := json.Unmarshal([]byte(bad), &a); err == nil || a != 7 {
			t.Errorf("%s is read as %s (%v)", bad, a, err)
		}
	}
}

func TestRange(t *testing.T) {
	r := elfcore.Range{Start: 0x1000, End: 0x1010}
	if r.String() != "1000-1010" || r.Len() != 16 {
		t.Errorf("%s has %d bytes", r, r.Len())
	}
	if n := (elfcore.Range{Start: 2, End: 1}).Len(); n != 0 {
		t.Errorf("a range backwards has %d bytes", n)
	}
	for a, want := range map[elfcore.Addr]bool{0xfff: false, 0x1000: true, 0x100f: true, 0x1010: false} {
		if r.Contains(a) != want {
			t.Errorf("%s contains %s: %v", r, a, !want)
		}
	}
	for o, want := range map[elfcore.Range]bool{
		{Start: 0, End: 0x1000}:      false,
		{Start: 0, End: 0x1001}:      true,
		{Start: 0x1004, End: 0x1005}: true,
		{Start: 0x100f, End: 0x2000}: true,
		{Start: 0x1010, End: 0x2000}: false,
		{Start: 0, End: 0x2000}:      true,
	} {
		if r.Overlaps(o) != want || o.Overlaps(r) != want {
			t.Errorf("%s overlaps %s: %v", r, o, !want)
		}
	}
}
