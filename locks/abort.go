package locks

import (
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// abortMessage reads what glibc wrote before it aborted: __abort_msg points at
// {u32 size; char msg[]} in memory of its own (sysdeps/posix/libc_fatal.c). It
// takes libc's symbols.
func (a *analyzer) abortMessage() string {
	for _, sym := range a.set.Lookup("__abort_msg") {
		at, ok := sym.Address()
		if !ok {
			continue
		}
		p, ok := a.word(at)
		if !ok || p == 0 {
			continue
		}
		return a.messageAt(p)
	}
	return ""
}

// messageAt reads the structure that __abort_msg points at.
func (a *analyzer) messageAt(p elfcore.Addr) string {
	size, ok := a.u32(p)
	if !ok || size == 0 || uint64(size)%a.core.PageSize() != 0 || size > 1<<20 {
		return ""
	}
	text, err := a.core.CString(p+4, int(size)-4)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
}
