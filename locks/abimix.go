package locks

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
)

// A condition variable of the first ABI (GLIBC_2.2.5 on x86-64) is one word: a
// pointer to a real condition variable that glibc allocates when it is first
// used. The second ABI (GLIBC_2.3.2) uses the 48 bytes themselves, and its first
// word is a sequence number that each wait raises by 2. If both are used on one
// condition variable, waits of the second kind move the pointer of the first.

// mixed is a condition variable that both ABIs have used.
type mixed struct {
	// user is the program's condition variable, 0 where it was not found;
	// pointer its first word, heap the allocated condition variable.
	user, pointer, heap elfcore.Addr
	mutex               elfcore.Addr
	// waits is how many waits of the second ABI moved the pointer.
	waits uint64
}

const (
	// maxModuleData bounds how much of a module's data is searched, in bytes.
	maxModuleData = 8 << 20

	condSize  = 48
	condChunk = 0x40 // a malloc chunk for 48 bytes, with its header
	// maxMoved bounds how far a pointer is followed back, in bytes.
	maxMoved = 0x1000
)

// heapCond finds the allocated condition variable that a moved pointer belongs
// to: one calloc(48) chunk, whose size stands in front of it. 32-bit x86 has both ABIs as well, but a pointer
// of 32 bits in a count of 64 is not moved like that.
func (a *analyzer) heapCond(p elfcore.Addr) (heap elfcore.Addr, moved uint64, ok bool) {
	if a.w != 8 {
		return 0, 0, false
	}
	for base := p &^ 15; p-base < maxMoved && base > 16; base -= 16 {
		size, ok := a.word(base - elfcore.Addr(a.w))
		if !ok {
			return 0, 0, false
		}
		if size&^7 == condChunk {
			return base, uint64(p - base), true
		}
	}
	return 0, 0, false
}

// abiMixes looks for condition variables that both ABIs have used: by threads
// whose cleanup chains name a condition variable that is not aligned, and by what
// the second ABI leaves behind in the program's own condition variable. What is
// not aligned for another reason is the program's doing.
func (a *analyzer) abiMixes(*graph) []Verdict {
	if a.musl {
		return nil
	}
	var found []*mixed
	var misaligned []elfcore.Addr
	for _, cond := range slices.Sorted(maps.Keys(a.condUsers)) {
		if uint64(cond)%a.w == 0 {
			continue
		}
		heap, moved, ok := a.heapCond(cond)
		user := elfcore.Addr(0)
		if ok {
			user = a.holderOf(cond)
		}
		if user == 0 && (!ok || a.set.At(cond) != nil) {
			misaligned = append(misaligned, cond)
			continue
		}
		found = append(found, &mixed{user: user, pointer: cond, heap: heap, mutex: a.conds[a.condUsers[cond][0]].mutex, waits: moved / 2})
	}
	for _, m := range a.scanMixed() {
		i := slices.IndexFunc(found, func(x *mixed) bool { return x.heap == m.heap })
		if i < 0 {
			found = append(found, &m)
		} else if found[i].user == 0 {
			found[i].user = m.user
		}
	}
	var out []Verdict
	told := make(map[int]bool)
	for _, m := range found {
		users := a.mixedUsers(m)
		for _, u := range users {
			told[u.thread] = true
		}
		out = append(out, a.explainMix(m, users))
	}
	for _, cond := range misaligned {
		if threads := a.refused(told, elfcore.Range{Start: cond, End: cond + condSize}); len(threads) > 0 {
			out = append(out, a.misalignedCond(cond, threads))
		}
	}
	if rest := a.refused(told, elfcore.Range{End: ^elfcore.Addr(0)}); len(rest) > 0 {
		out = append(out, a.misalignedFutex(rest))
	}
	return out
}

// refused are the threads that spin on a futex in a range because it is not
// aligned, or whose cleanup chain names a condition variable there, and that no
// verdict is about so far.
func (a *analyzer) refused(told map[int]bool, r elfcore.Range) []int {
	var out []int
	for i := range a.core.Threads {
		c, inCond := a.condOf(i)
		spins := a.calls[i].state == spinning && a.calls[i].futex.Address%4 != 0 && r.Contains(a.calls[i].futex.Address)
		if !told[i] && (spins || inCond && uint64(c.cond)%a.w != 0 && r.Contains(c.cond)) {
			told[i] = true
			out = append(out, i)
		}
	}
	return out
}

// mixedUser is a thread that uses the wrong memory, and what shows it.
type mixedUser struct {
	thread int
	how    string
}

// mixedUsers finds the threads that wait on the allocated condition variable or
// on the memory that the moved pointer leads to. One that the kernel refuses goes
// round and round in pthread_cond_wait, and may have been stopped anywhere there;
// its registers have the pointer all the same.
func (a *analyzer) mixedUsers(m *mixed) []mixedUser {
	var out []mixedUser
	in := func(p elfcore.Addr) bool { return p >= m.heap && p < m.pointer+condSize }
	for i := range a.core.Threads {
		if x, ok := a.condOf(i); ok && in(x.cond) {
			out = append(out, mixedUser{i, fmt.Sprintf("the cleanup chain of thread %d names %s: it is inside pthread_cond_wait", a.tid(i), x.cond)})
			continue
		}
		if a.calls[i].state == spinning && in(a.calls[i].futex.Address) {
			out = append(out, mixedUser{i, fmt.Sprintf("thread %d spins: the kernel refuses its futex %s, which is not aligned", a.tid(i), a.calls[i].futex.Address)})
			continue
		}
		for _, r := range a.core.Arch.Regs {
			if p, ok := a.core.Threads[i].Register(r.Name); ok && elfcore.Addr(p) == m.pointer {
				out = append(out, mixedUser{i, fmt.Sprintf("the register %s of thread %d has the moved pointer", r.Name, a.tid(i))})
				break
			}
		}
	}
	return out
}

// holderOf finds the word in the data of a module, or else in any small heap,
// that is a pointer: the program's condition variable.
func (a *analyzer) holderOf(p elfcore.Addr) elfcore.Addr {
	for _, m := range a.set.Modules {
		for _, data := range a.set.WritableData(m) {
			b := make([]byte, min(data.Len(), maxModuleData))
			n, _ := a.core.ReadMemory(b, data.Start)
			for at := uint64(0); at+a.w <= uint64(n); at += a.w {
				if elfcore.Addr(a.core.WordOf(b[at:])) == p {
					return data.Start + elfcore.Addr(at)
				}
			}
		}
	}
	const maxHeap = 64 << 20
	for i := range a.core.Segments {
		s := &a.core.Segments[i]
		if !s.Writable() || s.FileSize > maxHeap || a.set.At(s.Start) != nil {
			continue
		}
		b := make([]byte, s.FileSize)
		n, _ := a.core.ReadMemory(b, s.Start)
		for at := uint64(0); at+a.w <= uint64(n); at += a.w {
			if elfcore.Addr(a.core.WordOf(b[at:])) == p && a.anyStack(s.Start+elfcore.Addr(at)) < 0 {
				return s.Start + elfcore.Addr(at)
			}
		}
	}
	return 0
}

// scanMixed looks in the modules' data for condition variables whose first word
// is a moved pointer, and whose group sizes show as many waits of the second ABI
// that timed out as the pointer was moved by: nothing else looks like that.
func (a *analyzer) scanMixed() []mixed {
	var out []mixed
	for _, m := range a.set.Modules {
		if m.IsLoader || m.IsVDSO {
			continue
		}
		for _, data := range a.set.WritableData(m) {
			b := make([]byte, min(data.Len(), maxModuleData))
			n, _ := a.core.ReadMemory(b, data.Start)
			b = b[:n]
			for at := 0; at+condSize <= len(b); at += 8 {
				if x, ok := a.mixedImage(b[at : at+condSize]); ok {
					x.user = data.Start + elfcore.Addr(at)
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// mixedImage judges 48 bytes. A wait that times out leaves the size of its group
// one lower; nothing else of the second ABI was ever written.
func (a *analyzer) mixedImage(b []byte) (mixed, bool) {
	o := a.core.ByteOrder
	p := elfcore.Addr(o.Uint64(b))
	if p == 0 || p&1 != 0 || o.Uint64(b[8:]) != 0 {
		return mixed{}, false
	}
	for _, sizes := range []int{24, 16} { // __g_size, up to 2.40 and from 2.41
		waits := -(o.Uint32(b[sizes:]) + o.Uint32(b[sizes+4:]))
		if waits == 0 || waits > maxMoved/2 {
			continue
		}
		rest := uint64(0)
		for at := 16; at < condSize; at += 8 {
			if at != sizes {
				rest |= o.Uint64(b[at:])
			}
		}
		heap, moved, ok := a.heapCond(p)
		if !ok || rest != 0 || moved != 2*uint64(waits) {
			continue
		}
		return mixed{pointer: p, heap: heap, waits: uint64(waits)}, true
	}
	return mixed{}, false
}

// wrappers are the modules, besides the C library, that define functions for
// condition variables: they stand between the program and glibc.
func (a *analyzer) wrappers() (names []string, functions []string) {
	for _, name := range []string{"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_cond_signal", "pthread_cond_broadcast", "pthread_cond_init", "pthread_cond_destroy"} {
		for _, s := range a.set.Lookup(name) {
			base := path.Base(s.Module.String())
			if s.Module.IsLoader || isLibc(base) {
				continue
			}
			if !slices.Contains(names, s.Module.String()) {
				names = append(names, s.Module.String())
			}
			if !slices.Contains(functions, name) {
				functions = append(functions, name)
			}
		}
	}
	return names, functions
}

// isLibc tells whether a file is the C library or its thread library.
func isLibc(base string) bool {
	for _, name := range []string{"libc.so.6", "libc-2.", "libpthread.so.0", "libpthread-2."} {
		if len(base) >= len(name) && base[:len(name)] == name {
			return true
		}
	}
	return false
}

// explainMix tells the story of one condition variable.
func (a *analyzer) explainMix(m *mixed, users []mixedUser) Verdict {
	v := Verdict{ID: CondvarABIMix, Confidence: High, Objects: []elfcore.Addr{m.user}}
	switch {
	case m.user != 0 && len(users) > 0:
		v.Confidence = Certain
	case len(users) == 0 && !strings.Contains(a.report.AbortMessage, "futex"):
		v.Confidence = Medium
		v.doubt("no thread was using it when the process died: only its own bytes show it")
	}
	where := "a condition variable"
	if m.user != 0 {
		where = "the condition variable " + a.name(m.user)
	}
	v.Summary = fmt.Sprintf("%s was used through two incompatible ABIs of glibc", where)
	v.fact("the pointer %s lies %d bytes into the 48-byte heap chunk at %s, which glibc allocates for a condition variable of the ABI GLIBC_2.2.5", m.pointer, 2*m.waits, m.heap)
	if m.user != 0 {
		v.fact("that pointer is the first word of %s", where)
	}
	if m.mutex != 0 {
		v.fact("its waiters use the mutex %s", a.name(m.mutex))
	}
	for _, u := range users {
		v.Threads = append(v.Threads, u.thread)
		v.fact("%s", u.how)
	}
	if a.report.AbortMessage != "" {
		v.fact("glibc aborted with: %s", a.report.AbortMessage)
	}
	v.Explanation = fmt.Sprintf("Of the two ABIs of condition variables, the old one (GLIBC_2.2.5) keeps a pointer in the first word, the new one (GLIBC_2.3.2) a counter. Some functions were called by the old ABI and others, on the same condition variable, by the new one: %s of the new kind moved the pointer by %d bytes. The next call of the old kind worked on the wrong memory; glibc then spins, loses wake-ups, or aborts with \"The futex facility returned an unexpected error code\".", plural(int(m.waits), "wait"), 2*m.waits)
	modules, functions := a.wrappers()
	if len(modules) > 0 {
		v.fact("%s defines %s: it stands between the program and glibc", modules[0], joined(functions))
		v.Remedy = fmt.Sprintf("In %s, get the next function by dlvsym(RTLD_NEXT, name, \"GLIBC_2.3.2\"), since dlsym(RTLD_NEXT, …) gives the oldest version before glibc 2.36, and wrap all of pthread_cond_init, _destroy, _wait, _timedwait, _signal and _broadcast, or none.", path.Base(modules[0]))
	} else {
		v.doubt("no module was seen that wraps the functions: its symbols are not in the core")
		v.Remedy = "Find what wraps pthread_cond_* (LD_PRELOAD, a profiler) and let it get the next function by dlvsym(RTLD_NEXT, name, \"GLIBC_2.3.2\"), all of them or none."
	}
	return v
}

// misalignedCond is the verdict about a condition variable that the program
// itself has put where none can be: in a packed structure.
func (a *analyzer) misalignedCond(cond elfcore.Addr, threads []int) Verdict {
	v := a.misalignedFutex(threads)
	v.Objects = []elfcore.Addr{cond}
	v.Summary = fmt.Sprintf("%s on the condition variable %s, which is not aligned", a.theyWait(threads), a.name(cond))
	v.fact("the cleanup chain of thread %d names it, and it is no pointer of the first ABI that was moved", a.tid(a.condUsers[cond][0]))
	v.Remedy = "Do not put a condition variable into a packed structure, and do not cast unaligned memory to one."
	return v
}

// misalignedFutex is the verdict about threads whose futex is not aligned.
func (a *analyzer) misalignedFutex(threads []int) Verdict {
	v := Verdict{ID: MisalignedFutex, Confidence: High, Threads: threads}
	for _, t := range threads {
		if x := a.calls[t]; x.state == spinning {
			v.Objects = append(v.Objects, x.futex.Address)
			v.fact("thread %d called futex(%s), and the kernel refused it (EINVAL)", a.tid(t), a.name(x.futex.Address))
			v.Summary = fmt.Sprintf("%s on the futex %s, which is not aligned", a.theyWait(threads), a.name(x.futex.Address))
		}
	}
	v.Explanation = "The kernel refuses a futex whose address is no multiple of 4. Depending on its version glibc then aborts, or goes round and round in the wait, which takes all of a processor."
	v.Remedy = "Do not put locks or condition variables into packed structures, and do not cast unaligned memory to one."
	return v
}

func joined(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	out := words[0]
	for _, w := range words[1 : len(words)-1] {
		out += ", " + w
	}
	return out + " and " + words[len(words)-1]
}
