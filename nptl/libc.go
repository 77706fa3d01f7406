package nptl

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// LibcKind is the C library of the process, as far as its threads show it.
type LibcKind string

const (
	Glibc       LibcKind = "glibc"
	Musl        LibcKind = "musl"
	NoLibc      LibcKind = "none" // a program without a C library, as Go makes them
	UnknownLibc LibcKind = "unknown"
)

// Libc is what the core tells of the C library. Versions are minor numbers of
// 2.x; 0 is one that is not known.
type Libc struct {
	Kind LibcKind
	// Version is known only from the name of the mapped file.
	Version int
	// Min and Max bound the version by the layout of the descriptors.
	Min, Max int
	// Source says where Version, else Min and Max, come from, and of a process
	// without glibc and musl what it has instead, where that is known.
	Source string
}

// VersionString gives a minor number as 2.N.
func VersionString(minor int) string { return "2." + strconv.Itoa(minor) }

// libc tells the library by the mapped files, then by its descriptors.
func (v *view) libc(found bool, l *Layout, lists []List, p *pointers) Libc {
	var lib Libc
	name, version := v.libcFile()
	switch {
	case name == "musl" || !found && v.muslRing(p):
		return Libc{Kind: Musl}
	case found || name != "":
		lib.Kind = Glibc
	case v.goProgram():
		return Libc{Kind: NoLibc, Source: "a Go program, whose threads are its runtime's own"}
	case v.bionic():
		return Libc{Kind: UnknownLibc, Source: "bionic, Android's libc, which has no libthread_db"}
	default:
		return Libc{Kind: UnknownLibc}
	}
	if version != 0 {
		lib.Version, lib.Min, lib.Max = version, version, version
		lib.Source = "the name of the mapped file " + name
		return lib
	}
	if found {
		v.boundVersion(&lib, l, lists, p)
	}
	return lib
}

// libcFile looks for a C library among the mapped files: its file name, or just
// "musl". Up to 2.33 glibc's files carry the version in their names.
func (v *view) libcFile() (name string, version int) {
	versioned := regexp.MustCompile(`^(?:libc|ld|libpthread)-2\.(\d{1,3})\.so$`)
	for i := range v.Mappings {
		base := path.Base(strings.TrimSuffix(v.Mappings[i].Path, " (deleted)"))
		switch {
		case strings.HasPrefix(base, "ld-musl-") || strings.HasPrefix(base, "libc.musl-"):
			return "musl", 0
		case strings.HasPrefix(base, "libc.so.6"), strings.HasPrefix(base, "ld-linux"), strings.HasPrefix(base, "ld64.so"), base == "ld.so.1":
			if version == 0 {
				name = base
			}
		}
		if m := versioned.FindStringSubmatch(base); m != nil && version == 0 {
			name = base
			version, _ = strconv.Atoi(m[1])
		}
	}
	return name, version
}

// muslRing tells whether a thread pointer leads to a descriptor of musl.
func (v *view) muslRing(p *pointers) bool {
	for i := range v.Threads {
		tp, _, ok := v.Threads[i].ThreadPointer()
		if ok && p.tcb[i] && v.muslDescriptor(tp) {
			return true
		}
	}
	return false
}

// muslDescriptor tells whether a musl descriptor (src/internal/pthread_impl.h)
// is at a thread pointer: self, dtv, prev, next, where glibc has the TCB itself
// and multiple_threads in the last two.
func (v *view) muslDescriptor(tp elfcore.Addr) bool {
	if !v.Arch.Descriptor.SelfPointers || tp == 0 || !v.points(tp, tp) {
		return false
	}
	prev, next, ok := v.pair(tp + elfcore.Addr(2*v.w))
	return ok && v.points(elfcore.Addr(prev)+elfcore.Addr(3*v.w), tp) && v.points(elfcore.Addr(next)+elfcore.Addr(2*v.w), tp)
}

// boundVersion narrows the version by what changed in struct pthread and in the
// place of the lists.
func (v *view) boundVersion(lib *Libc, l *Layout, lists []List, p *pointers) {
	low, high := 0, 0
	var why []string
	atLeast := func(n int, reason string) {
		if n > low {
			low, why = n, append(why, reason)
		}
	}
	atMost := func(n int, reason string) {
		if high == 0 || n < high {
			high, why = n, append(why, reason)
		}
	}
	for _, list := range lists {
		switch list.Place {
		case inLoader.String():
			atLeast(33, "the lists are in the loader")
		case inLibpthread.String():
			atMost(33, "the lists are in libpthread")
		}
	}
	if l.PID != 0 {
		atMost(24, "the process id stands in struct pthread")
	}
	if v.w == 4 && l.RobustHead == 0x0c {
		atLeast(36, "robust_head follows tid")
	}
	switch {
	case l.JoinState:
		atLeast(43, "joinstate in struct pthread")
	case l.StackMode:
		atLeast(42, "stack_mode in struct pthread")
		if l.Join != 0 {
			atMost(42, "no joinstate in struct pthread")
		}
	case l.UserStack != 0:
		atMost(41, "user_stack in struct pthread")
	}
	if p.known {
		for _, d := range v.Arch.Descriptor.Distances {
			if int64(d.Distance) == p.distance {
				if d.Min > 0 {
					atLeast(d.Min, fmt.Sprintf("the descriptor lies %#x below the thread pointer", d.Distance))
				}
				if d.Max > 0 {
					atMost(d.Max, fmt.Sprintf("the descriptor lies %#x below the thread pointer", d.Distance))
				}
			}
		}
	}
	for _, s := range v.Arch.Descriptor.StartRoutines {
		if s.Offset == l.StartRoutine && (low == 0 || s.Max == 0 || low <= s.Max) && (high == 0 || s.Min == 0 || high >= s.Min) {
			if s.Min > 0 {
				atLeast(s.Min, "the place of start_routine in struct pthread")
			}
			if s.Max > 0 {
				atMost(s.Max, "the place of start_routine in struct pthread")
			}
		}
	}
	if low > high && high != 0 {
		// Contradictory evidence is no evidence.
		return
	}
	lib.Min, lib.Max = low, high
	lib.Source = strings.Join(slices.Compact(why), "; ")
}

// takeVersion takes the version from the library's own file, if that is glibc.
func (p *Process) takeVersion(s Symbols) {
	text, source := s.Version()
	minor, ok := strings.CutPrefix(text, "2.")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil || p.Libc.Kind == Musl {
		return
	}
	if p.Libc.Min > n || p.Libc.Max != 0 && p.Libc.Max < n {
		p.disagree("glibc is %s by its file, %s to %s by the core's descriptors", text, VersionString(p.Libc.Min), VersionString(p.Libc.Max))
		return
	}
	p.Libc.Kind, p.Libc.Version, p.Libc.Min, p.Libc.Max, p.Libc.Source = Glibc, n, n, n, source
}
