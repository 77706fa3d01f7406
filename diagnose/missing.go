package diagnose

import (
	"errors"
	"fmt"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// truncated says how much of the core is missing, and of which threads.
func truncated(r *Report) []Finding {
	c := r.Core
	if !c.Truncated() && !c.NotesCut && c.StreamCut == nil {
		return nil
	}
	lost := r.lost(elfcore.Truncated)
	f := Finding{ID: CoreTruncated, Severity: Warning, TIDs: lost.tids()}
	f.Summary = fmt.Sprintf("the core is cut: %s of %s are there", Bytes(uint64(c.Size)), Bytes(uint64(c.Size+c.MissingBytes)))
	f.Summary += lost.summary(len(c.Threads))
	var detail []string
	if c.NotesCut {
		detail = append(detail, "It ends inside its notes, so that threads may be missing.")
	} else {
		detail = append(detail, "Its notes are whole: it has all threads with their registers.")
	}
	detail = append(detail, lost.detail("cut off")...)
	detail = append(detail, "What is there is right; what lies at high addresses, stacks and libraries, is the first to go.")
	const next = "For a whole core next time: "
	switch {
	case c.StreamCut != nil:
		detail = append(detail, fmt.Sprintf("The %s file itself is cut or damaged (%v): copy it again, or see whether the disk was full when it was written.", c.Compression, c.StreamCut))
	case c.Producer == elfcore.GCore || c.Producer == elfcore.CreateDump:
		detail = append(detail, next+"room on the disk, and no limit on the size of files (ulimit -f).")
	default:
		detail = append(detail, next+"ulimit -c unlimited (LimitCORE=infinity), with systemd-coredump ProcessSizeMax and ExternalSizeMax above the size of the process, and room on the disk.")
	}
	f.Detail = strings.Join(detail, " ")
	return []Finding{f}
}

// filtered says that memory was left out that the threads need, and on whose
// behalf.
func filtered(r *Report) []Finding {
	if r.Core.Truncated() {
		return nil
	}
	lost := r.lost(elfcore.NotDumped)
	f := Finding{ID: CoreFiltered, Severity: Warning, TIDs: lost.tids(), Summary: "memory that shows the threads was not dumped"}
	if len(f.TIDs) > 0 {
		f.Summary = "memory of the threads was not dumped" + lost.summary(len(r.Core.Threads))
	}
	detail := lost.detail("not in the core")
	for _, l := range r.Process.Limits {
		if l.Fault == elfcore.NotDumped {
			detail = append(detail, capital(l.Text)+".")
		}
	}
	if len(detail) == 0 {
		return nil
	}
	f.Detail = strings.Join(append(detail, "gdb shows zeroes in its place; registers, and what is there, are right.", r.whyFiltered()), " ")
	return []Finding{f}
}

// whyFiltered tells who left memory out, as far as the core shows it.
func (r *Report) whyFiltered() string {
	const next = "For a whole core next time: "
	const filter = "set bits 0 and 1 of /proc/PID/coredump_filter (anonymous memory; CoredumpFilter= of systemd)"
	if r.Core.Producer == elfcore.CreateDump {
		return "createdump wrote a partial dump. " + next + "createdump --full, or DOTNET_DbgMiniDumpType=4."
	}
	dumped, left := r.anonymous()
	switch {
	case !r.Core.HasMappings || left == 0:
		return next + filter + ", and do not exclude the memory by MADV_DONTDUMP."
	case dumped == 0:
		return fmt.Sprintf("Of %s of anonymous memory nothing was dumped: that is coredump_filter. ", Bytes(left)) + next + filter + "."
	}
	return fmt.Sprintf("%s of anonymous memory were dumped and %s were not, which no coredump_filter does: the program excluded them (MADV_DONTDUMP). ", Bytes(dumped), Bytes(left)) +
		next + "let the program keep its threads' memory in, or write the core with gdb's gcore and set dump-excluded-mappings on."
}

// anonymous counts the bytes of memory that is private to the process and its
// own, as stacks are: those that were dumped, and those in segments that were
// left out. coredump_filter treats all of them alike (fs/coredump.c,
// vma_dump_size).
func (r *Report) anonymous() (dumped, left uint64) {
	for i := range r.Core.Segments {
		s := &r.Core.Segments[i]
		if _, file := r.Core.Mapping(s.Start); file || !s.Writable() {
			continue
		}
		if s.FileSize == 0 {
			left += s.Len()
		}
		dumped += s.FileSize
	}
	return dumped, left
}

// lost are the threads of which something is missing from the core.
type lost struct {
	stacks, descriptors []int
}

// lost finds the threads whose stack, or whose descriptor, which their
// thread-locals lie beside, is missing for a reason.
func (r *Report) lost(why elfcore.FaultReason) lost {
	var l lost
	for i := range r.Core.Threads {
		t := &r.Core.Threads[i]
		if sp, ok := t.SP(); ok && r.isMissing(sp, why) {
			l.stacks = append(l.stacks, t.TID)
		}
		descriptor := r.Process.Threads[i].Pthread
		if descriptor == 0 {
			descriptor, _, _ = t.ThreadPointer()
		}
		if r.isMissing(descriptor, why) {
			l.descriptors = append(l.descriptors, t.TID)
		}
	}
	return l
}

// isMissing tells whether memory that a thread writes to is missing for a
// reason.
func (r *Report) isMissing(a elfcore.Addr, why elfcore.FaultReason) bool {
	var b [1]byte
	if _, there := r.Core.Locate(a); there || a == 0 {
		return false
	}
	var fault *elfcore.Fault
	if _, err := r.Core.ReadMemory(b[:], a); !errors.As(err, &fault) {
		return false
	}
	if s, ok := r.Core.Segment(a); ok {
		return fault.Why == why && s.Writable()
	}
	// createdump does not describe what it leaves out.
	return why == elfcore.NotDumped && r.Core.Producer == elfcore.CreateDump
}

// tids are all threads that something is missing of, each once.
func (l lost) tids() []int {
	out := append([]int(nil), l.stacks...)
	seen := make(map[int]bool)
	for _, tid := range out {
		seen[tid] = true
	}
	for _, tid := range l.descriptors {
		if !seen[tid] {
			out = append(out, tid)
		}
	}
	return out
}

// summary is the end of a sentence that says how many threads are concerned.
func (l lost) summary(threads int) string {
	var parts []string
	if n := len(l.stacks); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d threads without stack", n, threads))
	}
	if n := len(l.descriptors); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d without descriptor and thread-locals", n, threads))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", " + strings.Join(parts, ", ")
}

// detail are sentences that name the threads.
func (l lost) detail(what string) []string {
	var out []string
	if len(l.stacks) > 0 {
		out = append(out, fmt.Sprintf("Stacks %s, so that backtraces end at once: %s.", what, some(l.stacks)))
	}
	if len(l.descriptors) > 0 {
		out = append(out, fmt.Sprintf("Descriptors and thread-locals %s: %s.", what, some(l.descriptors)))
	}
	return out
}

// some names the first of many threads.
func some(tids []int) string {
	const most = 8
	var b strings.Builder
	for i, tid := range tids[:min(len(tids), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", tid)
	}
	if n := len(tids) - most; n > 0 {
		fmt.Fprintf(&b, " and %d more", n)
	}
	return b.String()
}
