package fixup

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// clone makes dst share all blocks of src (ioctl_ficlone(2)).
func clone(dst, src *os.File) error {
	return unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
}

// nextData gives the next range of data at or after off (lseek(2), SEEK_DATA):
// start = end = size when there is none. To a file system that knows no holes
// all is data.
func nextData(f *os.File, off, size int64) (start, end int64, err error) {
	start, err = f.Seek(off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, errors.ErrUnsupported):
		return off, size, nil
	case err != nil:
		return 0, 0, err
	}
	end, err = f.Seek(start, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, err
	}
	return min(start, size), min(end, size), nil
}

// copyInKernel copies up to n bytes without bringing them here, and gives the
// number copied (copy_file_range(2)).
func copyInKernel(dst, src *os.File, off, n int64) (int64, error) {
	from, to := off, off
	for {
		done, err := unix.CopyFileRange(int(src.Fd()), &from, int(dst.Fd()), &to, int(n), 0)
		if err != unix.EINTR {
			return int64(done), err
		}
	}
}

// startWriting tells the kernel to begin with writing a range to the disk, so
// that this goes on while the next one is copied, and the sync at the end has
// little left to wait for (sync_file_range(2)). It is only a wish.
func startWriting(f *os.File, off, n int64) {
	unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}

// renameToNew renames to a name that must be free (rename(2), RENAME_NOREPLACE).
func renameToNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, errors.ErrUnsupported):
		return renameIfAbsent(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
