package fixup

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes a lock that ends with unlock, with f, or with the process
// (flock(2)). It does not wait: errBusy when it is taken.
func lock(f *os.File, kind lockKind) error {
	how := unix.LOCK_SH
	if kind == lockExclusive {
		how = unix.LOCK_EX
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errBusy
		default:
			return fmt.Errorf("cannot be locked: %w", err)
		}
	}
}

func unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
