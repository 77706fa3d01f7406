package locks

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/corethreads/corethreads/elfcore"
)

// abortMessage reads what glibc wrote before it aborted: __abort_msg points at
// {u32 size; char msg[]} in pages of its own (sysdeps/posix/libc_fatal.c). Where
// libc's symbols are not here, its data is searched for such a pointer.
func (a *analyzer) abortMessage() string {
	for _, sym := range a.set.Lookup("__abort_msg") {
		if at, ok := sym.Address(); ok {
			p, _ := a.word(at)
			return a.messageAt(p)
		}
	}
	for _, m := range a.set.Modules {
		if !isLibc(path.Base(m.String())) {
			continue
		}
		for _, data := range a.set.WritableData(m) {
			b := make([]byte, min(data.Len(), 1<<20))
			n, _ := a.core.ReadMemory(b, data.Start)
			for at := uint64(0); at+a.w <= uint64(n); at += a.w {
				p := a.core.WordOf(b[at:])
				if p == 0 || p%a.core.PageSize() != 0 {
					continue
				}
				if text := a.messageAt(elfcore.Addr(p)); text != "" {
					return text
				}
			}
		}
	}
	return ""
}

// messageAt reads the structure that __abort_msg points at; empty where it is
// none.
func (a *analyzer) messageAt(p elfcore.Addr) string {
	size, ok := a.u32(p)
	if !ok || size == 0 || uint64(size)%a.core.PageSize() != 0 || size > 1<<20 {
		return ""
	}
	text, err := a.core.CString(p+4, int(size)-4)
	if err != nil || len(text) < 4 || !utf8.ValidString(text) {
		return ""
	}
	for _, c := range text {
		if !unicode.IsPrint(c) && c != '\n' && c != '\t' {
			return ""
		}
	}
	return strings.TrimSpace(text)
}
