package tls

import (
	"fmt"
	"sync"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// Status is whether a thread has a module's block, and whether the core shows
// it.
type Status string

const (
	// OK: the address is known and the memory is in the core.
	OK Status = "ok"
	// NotAllocated: the thread never touched a variable of the module.
	NotAllocated Status = "not-allocated"
	// NotInCore: the address, or what is at it, is not in the core.
	NotInCore Status = "not-in-core"
	// NoThreadPointer: the thread pointer is not known.
	NoThreadPointer Status = "no-thread-pointer"
	// Undecided: the loader's records contradict each other.
	Undecided Status = "undecided"
)

// Block is where a thread's copy of a module's variables lies.
type Block struct {
	// Address is where it starts, if Status is OK.
	Address elfcore.Addr
	Status  Status
	// How says how the address was found: "static", "dtv", or "static+dtv"
	// where both agree. Why says what the other states rest on.
	How, Why string
}

func noBlock(s Status, format string, args ...any) Block {
	return Block{Status: s, Why: fmt.Sprintf(format, args...)}
}

// Block finds a thread's block of a module.
func (r *Resolver) Block(t Thread, m *Module) Block {
	if t.Pointer == 0 {
		return noBlock(NoThreadPointer, "%s", t.NoPointer)
	}
	if r.process.Libc.Kind == nptl.Musl {
		return r.muslBlock(t, m)
	}
	if m.Static {
		// Every thread has it, whatever its dtv says: modules that were
		// loaded later with static storage leave the slot unset in older
		// threads.
		b := Block{Address: r.static(m, t.Pointer), Status: OK, How: "static"}
		if d, why := r.vector(t).read(r, t.Pointer); why == "" && m.ID != 0 && m.ID <= d.length {
			if val, err := r.core.Word(d.slot(m.ID)); err == nil && elfcore.Addr(val) == b.Address {
				b.How = "static+dtv"
			}
		}
		return b
	}
	return r.dynamic(t, m)
}

// static is the address of a static block.
func (r *Resolver) static(m *Module, tp elfcore.Addr) elfcore.Addr {
	tls := r.core.Arch.TLS
	a := tp - elfcore.Addr(tls.Bias)
	if tls.Variant == 2 {
		a -= elfcore.Addr(m.Offset)
	} else {
		a += elfcore.Addr(m.Offset)
	}
	return r.narrow(a)
}

// narrow keeps an address within the process's words.
func (r *Resolver) narrow(a elfcore.Addr) elfcore.Addr { return a & elfcore.Addr(r.allOnes()) }

// dtv is a thread's vector of blocks (sysdeps/generic/dl-dtv.h): {length},
// {generation}, then {block, to_free} for each module, two words each.
type dtv struct {
	r          *Resolver
	at         elfcore.Addr // of the generation
	length     uint64
	generation uint64
}

func (d *dtv) slot(id uint64) elfcore.Addr { return d.at + elfcore.Addr(2*d.r.w*id) }

// dtvOf reads the head of a thread's dtv; the second result says why it cannot.
func (r *Resolver) dtvOf(tp elfcore.Addr) (*dtv, string) {
	tls := r.core.Arch.TLS
	p, err := r.core.Word(r.narrow(tp - elfcore.Addr(tls.Bias) + elfcore.Addr(tls.DTV)))
	if err != nil {
		return nil, fmt.Sprintf("the pointer to the dtv is not there: %v", err)
	}
	d := &dtv{r: r, at: elfcore.Addr(p)}
	if p == 0 || p%r.w != 0 {
		return nil, "there is no dtv"
	}
	if d.length, err = r.core.Word(d.at - elfcore.Addr(2*r.w)); err != nil {
		return nil, fmt.Sprintf("the dtv is not there: %v", err)
	}
	if d.generation, err = r.core.Word(d.at); err != nil {
		return nil, fmt.Sprintf("the dtv is not there: %v", err)
	}
	if d.length > maxModID || d.generation > maxGeneration {
		return nil, fmt.Sprintf("what should be the dtv at %s is none: it was freed, or is damaged", d.at)
	}
	return d, ""
}

// vector is what was read of a thread's dtv, once for all modules.
type vector struct {
	head, sound sync.Once
	dtv         *dtv
	why         string
	doubt       string
}

func (r *Resolver) vector(t Thread) *vector {
	if t.vector == nil {
		return &vector{} // of a Thread that is not from Threads
	}
	return t.vector
}

// read gives the head of the dtv, or says why it cannot be had.
func (v *vector) read(r *Resolver, tp elfcore.Addr) (*dtv, string) {
	v.head.Do(func() { v.dtv, v.why = r.dtvOf(tp) })
	return v.dtv, v.why
}

// contradicts says why the dtv, which was read, is not believed.
func (v *vector) contradicts(r *Resolver, tp elfcore.Addr) string {
	v.sound.Do(func() { v.doubt = r.contradicts(v.dtv, tp) })
	return v.doubt
}

// dynamic finds a block that is allocated when a thread first touches it.
func (r *Resolver) dynamic(t Thread, m *Module) Block {
	v := r.vector(t)
	d, why := v.read(r, t.Pointer)
	switch {
	case why != "":
		return noBlock(NotInCore, "%s", why)
	case m.Moving:
		return noBlock(Undecided, "the loader was just loading or unloading the module: its slot names another one")
	case m.ID == 0:
		return noBlock(Undecided, "the module's number is not known")
	}
	if why := v.contradicts(r, t.Pointer); why != "" {
		return noBlock(Undecided, "%s", why)
	}
	switch {
	case m.Generation > d.generation:
		return noBlock(NotAllocated, "its dtv is of generation %d, the module of %d", d.generation, m.Generation)
	case m.ID > d.length:
		return noBlock(NotAllocated, "its dtv ends before module %d", m.ID)
	}
	val, err := r.core.Word(d.slot(m.ID))
	switch {
	case err != nil:
		return noBlock(NotInCore, "the slot of module %d is not there: %v", m.ID, err)
	case val == 0 || val == r.allOnes():
		return noBlock(NotAllocated, "slot %d of its dtv is not set", m.ID)
	case !r.slotsKnown:
		return noBlock(Undecided, "slot %d of its dtv has %#x, but whether that is out of date cannot be told", m.ID, val)
	}
	return Block{Address: elfcore.Addr(val), Status: OK, How: "dtv"}
}

// contradicts tells that a dtv is not this thread's, or was freed: a slot of a
// module with static storage holds something else than its block.
func (r *Resolver) contradicts(d *dtv, tp elfcore.Addr) string {
	for _, m := range r.modules {
		if !m.Static || m.ID == 0 || m.ID > d.length || m.Generation > d.generation || m.Moving {
			continue
		}
		val, err := r.core.Word(d.slot(m.ID))
		if err == nil && val != 0 && val != r.allOnes() && elfcore.Addr(val) != r.static(m, tp) {
			return fmt.Sprintf("slot %d of its dtv is %#x, not the static block %s: the dtv was freed, or belongs to another thread", m.ID, val, r.static(m, tp))
		}
	}
	return ""
}
