package stream

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// keptAttribute is the extended attribute of a kept file that tells which file it
// was unpacked from, and what it was itself then: who changed either since, or
// put a copy in its place, changed one of these.
const keptAttribute = "user.corethreads.unpacked"

// note gives the attribute's value, "" where it cannot be told.
func note(core, kept fs.FileInfo) string {
	from, ok := core.Sys().(*syscall.Stat_t)
	to, ok2 := kept.Sys().(*syscall.Stat_t)
	if !ok || !ok2 {
		return ""
	}
	return fmt.Sprintf("from %d %d %d to %d %d %d",
		from.Ino, from.Size, core.ModTime().UnixNano(), to.Ino, to.Size, kept.ModTime().UnixNano())
}

// remember notes that a whole core was unpacked into f. Where the file system has
// no attributes, the next call compares.
func remember(f *os.File, core fs.FileInfo) {
	if kept, err := f.Stat(); err == nil {
		unix.Fsetxattr(int(f.Fd()), keptAttribute, []byte(note(core, kept)), 0)
	}
}

// recalls tells that f is what was unpacked from the core, and that neither has
// changed since.
func recalls(f *os.File, core fs.FileInfo) bool {
	kept, err := f.Stat()
	if err != nil {
		return false
	}
	value := make([]byte, 256)
	n, err := unix.Fgetxattr(int(f.Fd()), keptAttribute, value)
	want := note(core, kept)
	return err == nil && want != "" && string(value[:n]) == want
}

// Forget takes the note away from a file whose times will not show that it was
// changed: the next call compares.
func Forget(f *os.File) { unix.Fremovexattr(int(f.Fd()), keptAttribute) }

// ours tells that a file belongs to the user who runs this, and that nobody else
// can write it.
func ours(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
