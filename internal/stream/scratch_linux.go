package stream

import (
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// anonymous creates a file of mode 0600 that has no name in dir, so that no
// death of the process can leave it behind.
func anonymous(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return unlinked(dir) // such as on NFS, which does not know O_TMPFILE
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, "unpacked core")), nil
}

// renameToNew renames a file unless that would replace one that came to be
// meanwhile, as a plain rename does.
func renameToNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL { // NFS has no such rename, but links
		return linkToNew(from, to)
	}
	return err
}

// widen lets more of a program's output wait in a pipe, so that the two ends
// wake each other less often. It is only a wish.
func widen(pipe io.Reader) {
	f, ok := pipe.(*os.File)
	if !ok {
		return
	}
	if c, err := f.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) })
	}
}

// room gives the size of the disk that a file is on, and what is free of it, in
// bytes. It is not known where the size is 0.
func room(f *os.File) (size, free uint64, err error) {
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &disk); err != nil {
		return 0, 0, err
	}
	block := uint64(disk.Bsize)
	return disk.Blocks * block, disk.Bavail * block, nil
}
