package fixup

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attributePrefix starts the names of the extended attributes in which
// systemd-coredump notes what it knows of the process.
const attributePrefix = "user.coredump."

// maxAttribute is XATTR_LIST_MAX and XATTR_SIZE_MAX of linux/limits.h: no list
// of names and no value is longer, in bytes.
const maxAttribute = 64 << 10

// keepAttributes gives dst the owner of src, where the caller may give files
// away, and what systemd-coredump noted of the process.
func keepAttributes(dst, src *os.File, info os.FileInfo, res *Result) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := dst.Chown(int(st.Uid), int(st.Gid)); err != nil {
			res.warn("the owner of the core was not kept: %v", err)
		}
	}
	buf := make([]byte, maxAttribute)
	n, err := unix.Flistxattr(int(src.Fd()), buf)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if err != nil {
		res.warn("the extended attributes of the core were not kept: %v", err)
		return
	}
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !strings.HasPrefix(name, attributePrefix) {
			continue
		}
		n, err := unix.Fgetxattr(int(src.Fd()), name, buf)
		if err == nil {
			err = unix.Fsetxattr(int(dst.Fd()), name, buf[:n], 0)
		}
		if err != nil {
			res.warn("the extended attribute %s of the core was not kept: %v", name, err)
		}
	}
}

func accessTime(info os.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(st.Atim.Unix())
}

// links is the number of names (hard links) that a file has.
func links(info os.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink)
}
