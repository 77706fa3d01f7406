package locks

import (
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
)

// TestLockRun has the loader's locks as _rtld_global has them: _dl_nns, two or
// three recursive mutexes, and the 64 bits of _dl_load_adds.
func TestLockRun(t *testing.T) {
	for name, x := range map[string]struct {
		word, size, mutexes uint64
		padded              bool // to 8 bytes, in front of _dl_load_adds
		order               binary.ByteOrder
	}{
		"x86_64, 2.36":  {8, 40, 3, false, binary.LittleEndian},
		"x86_64, 2.31":  {8, 40, 2, false, binary.LittleEndian},
		"aarch64, 2.36": {8, 48, 3, false, binary.LittleEndian},
		"s390x, 2.36":   {8, 40, 3, false, binary.BigEndian},
		"i386, 2.36":    {4, 24, 3, false, binary.LittleEndian},
		"armhf, 2.36":   {4, 24, 3, true, binary.LittleEndian},
	} {
		arch := &elfcore.Arch{Class: elf.ELFCLASS32}
		if x.word == 8 {
			arch.Class = elf.ELFCLASS64
		}
		a := &analyzer{core: &elfcore.Core{Arch: arch, ByteOrder: x.order}, w: x.word, layout: layoutOf(x.word)}
		put := func(b []byte, at uint64, v uint32) { x.order.PutUint32(b[at:], v) }
		at := x.word
		if x.padded {
			at += 8 // _dl_nns lies one word before a multiple of 8
		}
		b := make([]byte, at+x.mutexes*x.size+16)
		if x.word == 8 {
			x.order.PutUint64(b[at-8:], 1)
		} else {
			put(b, at-4, 1)
		}
		for i := range x.mutexes {
			put(b, at+i*x.size+a.layout.mutexKind, kindRecursive)
		}
		put(b, at, 2) // the first is held
		put(b, at+mutexCount, 1)
		put(b, at+mutexOwner, 4711)
		put(b, at+a.layout.mutexUsers, 1)
		end := at + x.mutexes*x.size
		if x.padded {
			end = (end + 7) &^ 7
		}
		x.order.PutUint64(b[end:], 5)
		if k := a.lockRun(b, at, x.size); k != x.mutexes {
			t.Errorf("%s: %d mutexes, not %d", name, k, x.mutexes)
		}
		put(b, at+a.layout.mutexKind, 0)
		if k := a.lockRun(b, at, x.size); k != 0 {
			t.Errorf("%s: %d mutexes where the first is not recursive", name, k)
		}
	}
}
