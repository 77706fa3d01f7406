package unwind

import (
	"debug/elf"

	"github.com/corethreads/corethreads/elfcore"
)

// ptARMExidx is PT_ARM_EXIDX, which debug/elf does not name.
const ptARMExidx elf.ProgType = 0x70000001

// exceptionTable gives the unwinding instructions that the tables of the ARM
// exception ABI have for a function of the process, nil for none
// (https://github.com/ARM-software/abi-aa/blob/main/ehabi32/ehabi32.rst, 6 and 7).
func (u *Unwinder) exceptionTable(lookup uint64) []byte {
	if code, ok := u.tables[lookup]; ok {
		return code
	}
	var code []byte
	if m := u.set.At(elfcore.Addr(lookup)); m != nil && m.BiasKnown {
		if m.Original != nil {
			m = m.Original
		}
		at := fileAddress(elfcore.Addr(lookup), m.Bias, 4)
		for _, p := range m.Programs {
			if p.Type == ptARMExidx {
				x := exidx{u.newSection(mappedImage{u.set, m.Bias, 4}), p.Vaddr, p.Memsz / 8}
				code = x.find(at)
			}
		}
	}
	if len(u.tables) < maxCached {
		u.tables[lookup] = code
	}
	return code
}

// exidx is an index table: entries of two words, sorted by the functions'
// addresses.
type exidx struct {
	*section
	start, entries uint64
}

// word reads a word of the file's address space.
func (x exidx) wordAt(at uint64) (uint32, bool) {
	b := make([]byte, 4)
	if !x.read(b, at) {
		return 0, false
	}
	return x.order.Uint32(b), true
}

// relative resolves a prel31: 31 bits that count from where they stand.
func relative(word uint32, at uint64) uint64 {
	return uint64(uint32(at) + uint32(int32(word<<1)>>1))
}

// find gives the instructions of the function that an address is in.
func (x exidx) find(pc uint64) []byte {
	first, behind := uint64(0), x.entries
	for first < behind {
		i := first + (behind-first)/2
		word, ok := x.wordAt(x.start + i*8)
		switch {
		case !ok:
			return nil
		case relative(word, x.start+i*8) <= pc:
			first = i + 1
		default:
			behind = i
		}
	}
	if first == 0 {
		return nil
	}
	at := x.start + (first-1)*8 + 4
	word, ok := x.wordAt(at)
	switch {
	case !ok || word == 1: // EXIDX_CANTUNWIND
		return nil
	case word>>31 == 1:
		if word>>24&0x7f != 0 {
			return nil
		}
		return bigEndian(nil, word, 3)
	}
	return x.entry(relative(word, at))
}

// entry gives the instructions of an entry of the exception table. The compact
// models say how they are packed; for a personality routine of a language, those
// of all compilers begin with the number of words that follow.
func (x exidx) entry(at uint64) []byte {
	word, ok := x.wordAt(at)
	if !ok {
		return nil
	}
	first, more := 3, uint32(0)
	switch {
	case word>>31 == 0:
		at += 4
		if word, ok = x.wordAt(at); !ok {
			return nil
		}
		more = word >> 24
	case word>>24 == 0x80:
	case word>>24 == 0x81 || word>>24 == 0x82:
		first, more = 2, word>>16&0xff
	default:
		return nil
	}
	code := bigEndian(nil, word, first)
	for range more {
		at += 4
		if word, ok = x.wordAt(at); !ok {
			return nil
		}
		code = bigEndian(code, word, 4)
	}
	return code
}

// bigEndian appends the last bytes of a word, the most significant first.
func bigEndian(code []byte, word uint32, bytes int) []byte {
	for i := bytes - 1; i >= 0; i-- {
		code = append(code, byte(word>>(8*i)))
	}
	return code
}
