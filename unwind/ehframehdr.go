package unwind

import (
	"github.com/corethreads/corethreads/elfcore"
)

// searchTable is .eh_frame_hdr: the functions of .eh_frame sorted by address,
// so that one is found without a look at the others
// (https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/ehframechpt.html).
type searchTable struct {
	*section
	// first is the address of the table, count its entries: pairs of 4 bytes
	// relative to the header, a function's start and its FDE.
	first, count uint64
}

const searchEntry = 8

// openSearchTable reads the header at an address. It gives nil for none that
// can be searched; frame is then where .eh_frame starts, 0 for unknown.
func openSearchTable(s *section) (t *searchTable, frame uint64) {
	head := make([]byte, 4+2*8)
	for len(head) > 4 && !s.read(head, s.header) {
		head = head[:len(head)-4]
	}
	c := cursor{b: head, start: s.header, order: s.order, word: s.word}
	version, frameEncoding, countEncoding, encoding := c.u8(), byte(c.u8()), byte(c.u8()), byte(c.u8())
	if version != 1 || frameEncoding == encOmit {
		return nil, 0
	}
	frame = c.encoded(frameEncoding, s.header)
	if c.bad {
		return nil, 0
	}
	count := c.encoded(countEncoding, s.header)
	if c.bad || countEncoding == encOmit || encoding != encDataRelative|encS4 {
		return nil, frame
	}
	return &searchTable{section: s, first: c.address(), count: count}, frame
}

// entryAt reads one pair.
func (t *searchTable) entryAt(i uint64) (begin, fde uint64, ok bool) {
	b := make([]byte, searchEntry)
	at := t.first + i*searchEntry
	if !t.read(b, at) {
		return 0, 0, false
	}
	c := cursor{b: b, start: at, order: t.order, word: t.word}
	begin, fde = c.encoded(encDataRelative|encS4, t.header), c.encoded(encDataRelative|encS4, t.header)
	return begin, fde, true
}

// find gives the address of the FDE of the last function that starts at an
// address or before it.
func (t *searchTable) find(pc uint64) (uint64, bool) {
	low, high := uint64(0), t.count // the answer is in front of high
	for low < high {
		middle := low + (high-low)/2
		begin, _, ok := t.entryAt(middle)
		if !ok {
			return 0, false
		}
		if begin <= pc {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == 0 {
		return 0, false
	}
	_, fde, ok := t.entryAt(low - 1)
	return fde, ok
}

// fileAddress is an address of the process in the address space of a file that
// was mapped with a bias.
func fileAddress(a, bias elfcore.Addr, word int) uint64 {
	if word == 4 {
		return uint64(uint32(a - bias))
	}
	return uint64(a - bias)
}
