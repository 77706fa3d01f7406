package stream

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
)

// blockSize is the unit of holes: a page, and the block of most file systems.
const blockSize = 4096

// append adds p to the file: blocks of zeroes as holes, the others as data.
// Every p but the last must be a multiple of blockSize long.
func (s *scratch) append(p []byte) error {
	if s.kept {
		return s.compare(p)
	}
	checked := false
	for len(p) > 0 {
		zeroes := zeroLen(p)
		s.size += int64(zeroes)
		p = p[zeroes:]
		data := dataLen(p)
		if data == 0 {
			continue
		}
		if !checked {
			if err := s.checkRoom(); err != nil {
				return s.failed(err)
			}
			checked = true
		}
		if _, err := s.WriteAt(p[:data], s.size); err != nil {
			return s.failed(err)
		}
		s.size += int64(data)
		p = p[data:]
	}
	return nil
}

// zeroLen is the length of the blocks at the start of p that are all zero.
func zeroLen(p []byte) int {
	n := 0
	for n < len(p) && isZero(p[n:min(n+blockSize, len(p))]) {
		n += blockSize
	}
	return min(n, len(p))
}

// dataLen is the length of the blocks at the start of p that are not.
func dataLen(p []byte) int {
	n := 0
	for n < len(p) && !isZero(p[n:min(n+blockSize, len(p))]) {
		n += blockSize
	}
	return min(n, len(p))
}

// isZero tells that the first byte is zero, and each other one like its
// neighbour.
func isZero(block []byte) bool {
	return block[0] == 0 && bytes.Equal(block[1:], block[:len(block)-1])
}

// checkRoom fails while there is still some room on the disk: whatever else
// runs on this machine wants to write, too. How much room a core will take
// cannot be known beforehand, as no format tells how much of it is zeroes.
func (s *scratch) checkRoom() error {
	size, free, err := room(s.File)
	if err != nil {
		return err
	}
	least := reserve(size)
	if free < least {
		return fmt.Errorf("%w: %d MiB are free and %d MiB must stay so", syscall.ENOSPC, free>>20, least>>20)
	}
	return nil
}

// reserve is how much of a disk of this size must stay free: one per cent,
// but neither next to nothing nor a fortune nor most of a small disk. It is 0
// for a disk of no size, as which file systems without a limit show themselves.
func reserve(size uint64) uint64 {
	const least, most = 64 << 20, 1 << 30
	return min(max(size/100, least), most, size/8)
}

// failed says what to do about an error of the disk.
func (s *scratch) failed(err error) error {
	text := fmt.Sprintf("unpacking into %s after %d bytes", s.dir, s.size)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		text += " (--tmp-dir names another place)"
	}
	return fmt.Errorf("%s: %w", text, err)
}
