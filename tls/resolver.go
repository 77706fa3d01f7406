package tls

import (
	"errors"
	"fmt"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
	"github.com/corethreads/corethreads/nptl"
)

// Resolver finds thread-local variables of one core. It does not change after
// New and is safe for concurrent use.
type Resolver struct {
	core    *elfcore.Core
	process *nptl.Process
	set     *module.Set

	modules  []*Module
	threads  []Thread
	warnings []string

	w uint64
	// slotsKnown tells that the loader's list of slots was found.
	slotsKnown bool
	// slotsRead counts the slots that were looked at.
	slotsRead uint64
}

// Thread is a thread whose variables can be asked for: an LWP of the core, or one
// that is gone and has left a handle (with musl, only its memory).
type Thread struct {
	// LWP is the index in Core.Threads, −1 for none.
	LWP int
	// Handle is the index in nptl.Process.Handles, −1 for none.
	Handle int
	// Pthread is its descriptor, 0 where it has none.
	Pthread elfcore.Addr
	// Pointer is its thread pointer, the ABI's bias included; 0 where that is
	// not known, and NoPointer says why.
	Pointer   elfcore.Addr
	NoPointer string

	// vector is what was read of its dtv, shared by the copies of a Thread.
	vector *vector
}

// Module is a module with thread-local storage.
type Module struct {
	// Module is the file; nil for one that only the loader's list of slots
	// names.
	*module.Module
	// LinkMap is the address of its struct link_map, 0 for none.
	LinkMap elfcore.Addr
	// ID is its number in dtvs (l_tls_modid), 0 where that is not known.
	ID uint64
	// Static tells that its block is at the same distance from every thread
	// pointer: Offset, as l_tls_offset has it, in bytes.
	Static bool
	Offset uint64
	// Generation is that of its slot. Moving tells that the slot names
	// another module: it was just being loaded or unloaded.
	Generation uint64
	Moving     bool
	// Size and Align are those of its block in bytes.
	Size, Align uint64
	// Image is where its initial image is in memory, ImageSize bytes long.
	Image     elfcore.Addr
	ImageSize uint64
	// From says where these facts come from.
	From string
}

// String names the module for people.
func (m *Module) String() string {
	if m.Module == nil {
		return fmt.Sprintf("the module at %s", m.LinkMap)
	}
	return m.Module.String()
}

// New reads the loader's records. It does not fail: what cannot be told of a
// module or a thread is told when it is asked for.
func New(c *elfcore.Core, p *nptl.Process, s *module.Set) *Resolver {
	r := &Resolver{core: c, process: p, set: s, w: uint64(c.Arch.WordSize())}
	if p.Libc.Kind == nptl.Musl {
		r.muslModules()
	} else {
		r.glibcModules()
	}
	r.threads = r.listThreads()
	return r
}

// Modules are the modules with thread-local storage, in the order of the link
// maps.
func (r *Resolver) Modules() []*Module { return r.modules }

// Threads are the threads of the core, in its order, then the handles whose
// threads are gone, in libthread_db's order.
func (r *Resolver) Threads() []Thread { return r.threads }

// Warnings say what of the loader's records could not be read.
func (r *Resolver) Warnings() []string { return r.warnings }

func (r *Resolver) warn(text string) { r.warnings = append(r.warnings, text) }

// listThreads settles the thread pointer of each thread and handle.
func (r *Resolver) listThreads() []Thread {
	var out []Thread
	for i := range r.core.Threads {
		n := r.process.Threads[i]
		t := Thread{LWP: i, Handle: n.Handle, Pthread: n.Pthread}
		switch {
		case n.PointerSource != nptl.FromNowhere && (n.PointerProved || n.Pthread != 0 || r.process.Libc.Kind != nptl.Glibc || r.leftOut(n.Pointer)):
			t.Pointer = n.Pointer
		case n.Pthread != 0:
		case n.PointerSource != nptl.FromNowhere:
			t.NoPointer = fmt.Sprintf("the core has %s as its thread pointer, which leads to no descriptor", n.Pointer)
		default:
			t.NoPointer = "the core has no thread pointer for it, and no descriptor of it was found"
		}
		out = append(out, t)
	}
	for i, h := range r.process.Handles {
		if h.Owner < 0 {
			out = append(out, Thread{LWP: -1, Handle: i, Pthread: h.Pthread})
		}
	}
	if r.process.Libc.Kind == nptl.Musl {
		out = append(out, r.exitedMuslThreads(out)...)
	}
	distance, known := r.process.PointerDistance, r.process.PointerKnown
	if !known {
		distance, known = r.searchDistance(out)
	}
	for i := range out {
		t := &out[i]
		t.vector = &vector{}
		if t.Pointer != 0 || t.Pthread == 0 {
			continue
		}
		if !known {
			t.NoPointer = "the notes have no thread pointer, and the distance from its descriptor could not be told"
			continue
		}
		t.Pointer = r.narrow(t.Pthread + elfcore.Addr(distance))
	}
	return out
}

// leftOut tells whether there was memory at an address that the core does not
// hold: nothing there speaks against a thread pointer.
func (r *Resolver) leftOut(a elfcore.Addr) bool {
	_, err := r.core.Word(a)
	var fault *elfcore.Fault
	return errors.As(err, &fault) && fault.Why != elfcore.Unmapped
}

// searchDistance finds thread pointer minus pthread where the core has no thread
// pointers at all (armhf, qemu-user): at the right distance stands a dtv whose
// slots are the static blocks.
func (r *Resolver) searchDistance(threads []Thread) (int64, bool) {
	const lowest, highest = 0x400, 0xa00 // sizeof(struct pthread) was always between
	votes := make(map[int64]int)
	asked := 0
	for _, t := range threads {
		if t.Pthread == 0 {
			continue
		}
		if asked++; asked > 64 {
			break
		}
		found, only := int64(0), 0
		for k := int64(lowest); k < highest; k += int64(r.w) {
			tp := t.Pthread + elfcore.Addr(k)
			if r.provesDTV(tp) {
				found = k
				only++
			}
		}
		if only == 1 {
			votes[found]++
		}
	}
	best, most, tied := int64(0), 0, false
	for k, n := range votes {
		switch {
		case n > most:
			best, most, tied = k, n, false
		case n == most:
			tied = true
		}
	}
	return best, most > 0 && !tied
}

// provesDTV tells whether a dtv at this thread pointer holds the static blocks of
// all start-up modules that it has slots for, one at least.
func (r *Resolver) provesDTV(tp elfcore.Addr) bool {
	d, why := r.dtvOf(tp)
	if why != "" {
		return false
	}
	proved := 0
	for _, m := range r.modules {
		if !m.Static || m.ID == 0 || m.ID > d.length {
			continue
		}
		val, err := r.core.Word(d.slot(m.ID))
		if err != nil {
			return false
		}
		if elfcore.Addr(val) == r.static(m, tp) {
			proved++
		} else if val != 0 && val != r.allOnes() {
			return false
		}
	}
	return proved > 0
}

func (r *Resolver) allOnes() uint64 {
	if r.w == 4 {
		return 1<<32 - 1
	}
	return ^uint64(0)
}
