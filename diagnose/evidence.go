package diagnose

import (
	"fmt"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// Bytes gives a size for people, in binary units.
func Bytes(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	f, i := float64(n)/unit, 0
	for f >= unit && i < 4 {
		f /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[i])
}

// brokenLists finds lists that do not close, although the core holds all of
// what they lead to.
func brokenLists(r *Report) []Finding {
	var out []Finding
	for _, kind := range []nptl.ListKind{nptl.StackUser, nptl.StackUsed} {
		l := r.Process.List(kind)
		if l == nil || l.End == nptl.Closed {
			continue
		}
		f := Finding{ID: ListBroken, Severity: Error, Fixable: true}
		effect := "libthread_db will refuse the whole process: gdb shows no thread-locals for any thread"
		switch l.End {
		case nptl.Cycle:
			f.Cause = "cycle"
			effect = "gdb will hang while it loads this core"
			f.Detail = fmt.Sprintf("After %d handles %s comes to %s for the second time and never returns to its head at %s.", len(l.Nodes), l.Kind, l.At, l.Head)
		case nptl.Zero:
			f.Cause = "zero"
			f.Detail = fmt.Sprintf("After %d handles the next pointer at %s is 0.", len(l.Nodes), l.At)
		case nptl.Zeroes:
			f.Cause = "zeroes"
			f.Detail = fmt.Sprintf("After %d handles %s leads to %s, where the core has nothing but zeroes", len(l.Nodes), l.Kind, l.At)
			if r.Core.Producer == elfcore.GCore {
				f.Detail += ": gdb up to 17 writes stacks with guard pages of glibc 2.42 and later as zeroes. A core written by the kernel would have them"
			}
			f.Detail += "."
		case nptl.Unreadable:
			if l.Fault != elfcore.Unmapped {
				continue // a limit of the core, not a fault of the list
			}
			f.Cause = "unmapped"
			f.Detail = fmt.Sprintf("After %d handles %s leads to %s, where no memory was mapped: a stack that was unmapped before its thread was joined, or a damaged descriptor.", len(l.Nodes), l.Kind, l.At)
		}
		f.Summary = fmt.Sprintf("the list %s does not close: %s", l.Kind, effect)
		out = append(out, f)
	}
	return out
}

// badThreadPointers finds threads whose notes have a thread pointer that leads
// to no descriptor, although they have one.
func badThreadPointers(r *Report) []Finding {
	f := Finding{ID: ThreadPointerBad, Severity: Warning, Fixable: true}
	for i := range r.Process.Threads {
		t := &r.Process.Threads[i]
		recorded, _, ok := r.Core.Threads[i].ThreadPointer()
		if !ok || t.PointerSource != nptl.FromHandle || recorded == t.Pointer {
			continue
		}
		f.TIDs = append(f.TIDs, r.Core.Threads[i].TID)
		f.Pthreads = append(f.Pthreads, t.Pthread)
		if len(f.TIDs) == 1 {
			f.Detail = fmt.Sprintf("For thread %d the notes have %s; its descriptor shows that it was %s.", f.TIDs[0], recorded, t.Pointer)
		}
	}
	if len(f.TIDs) == 0 {
		return nil
	}
	f.Summary = fmt.Sprintf("the notes have a wrong thread pointer for %s: lldb and gdb 17's own lookup will find no thread-locals there", count(f.TIDs, "thread"))
	return []Finding{f}
}

// implausibleRegisters finds threads whose registers were not saved.
func implausibleRegisters(r *Report) []Finding {
	f := Finding{ID: RegistersImplausible, Severity: Warning}
	for i := range r.Core.Threads {
		t := &r.Core.Threads[i]
		pc, ok1 := t.PC()
		sp, ok2 := t.SP()
		if ok1 && ok2 && pc == 0 && sp == 0 {
			f.TIDs = append(f.TIDs, t.TID)
		}
	}
	if len(f.TIDs) == 0 {
		return nil
	}
	f.Summary = fmt.Sprintf("the registers of %s are all zero: the dump did not save them", count(f.TIDs, "thread"))
	return []Finding{f}
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// libthreadDB says which libthread_db gdb needs.
func libthreadDB(r *Report) []Finding {
	lib := r.Process.Libc
	if lib.Kind != nptl.Glibc || !r.Debugger.ThreadDebugging {
		return nil
	}
	f := Finding{ID: LibthreadDB, Severity: Note}
	version := VersionRange(lib)
	if version == "" {
		version = "of the same version as the core's"
	}
	f.Summary = fmt.Sprintf("gdb needs the libthread_db of glibc %s to list this core's threads", version)
	f.Detail = "If it says \"Unable to find libthread_db matching inferior's thread library\", give it the directory of that libthread_db.so.1 before it loads the core:\n" +
		"  set auto-load safe-path /\n" +
		"  set libthread-db-search-path DIR"
	return []Finding{f}
}

// VersionRange gives what is known of the version of glibc for people, empty for
// nothing.
func VersionRange(lib nptl.Libc) string {
	switch {
	case lib.Min != 0 && lib.Min == lib.Max:
		return nptl.VersionString(lib.Min)
	case lib.Min != 0 && lib.Max != 0:
		return nptl.VersionString(lib.Min) + " to " + nptl.VersionString(lib.Max)
	case lib.Min != 0:
		return nptl.VersionString(lib.Min) + " or later"
	case lib.Max != 0:
		return nptl.VersionString(lib.Max) + " or earlier"
	}
	return ""
}
