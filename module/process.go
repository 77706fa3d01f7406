package module

import (
	"debug/elf"
	"sync/atomic"

	"github.com/corethreads/corethreads/elfcore"
)

// process is the memory of the dead process, with the arithmetic of its words.
type process struct {
	*elfcore.Core
	budget *budget
}

func newProcess(c *elfcore.Core) process {
	b := &budget{}
	b.programs.Store(1 << 20)
	b.names.Store(64 << 20)
	b.symbols.Store(1 << 22)
	return process{c, b}
}

// budget is how much may be kept of what the core says, over all modules: in a
// hostile core any number of them can share the same long table.
type budget struct {
	// programs and symbols count entries, names bytes.
	programs, names, symbols atomic.Int64
}

// spend takes n from what is left, and is false where that is not enough.
func spend(left *atomic.Int64, n int) bool { return left.Add(-int64(n)) >= 0 }

// name reads a name of a link map or of the auxiliary vector.
func (p process) name(at elfcore.Addr) (string, error) {
	s, err := p.CString(at, maxPath)
	if err != nil || !spend(&p.budget.names, len(s)) {
		return "", err
	}
	return s, nil
}

// sum is a+n modulo the size of a word, as the loader adds: a prelinked
// library moved down has a bias that wraps.
func (p process) sum(a elfcore.Addr, n uint64) elfcore.Addr {
	if p.Arch.WordSize() == 4 {
		return elfcore.Addr(uint32(uint64(a) + n))
	}
	return a + elfcore.Addr(n)
}

// difference is a-b modulo the size of a word.
func (p process) difference(a, b elfcore.Addr) elfcore.Addr { return p.sum(a, -uint64(b)) }

// words reads n consecutive words.
func (p process) words(a elfcore.Addr, n int) ([]uint64, error) {
	w := p.Arch.WordSize()
	b := make([]byte, n*w)
	if _, err := p.ReadMemory(b, a); err != nil {
		return nil, err
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = p.WordOf(b[i*w:])
	}
	return out, nil
}

// pageDown and pageUp round to pages of the process.
func (p process) pageDown(a uint64) uint64 { return a &^ (p.PageSize() - 1) }

func (p process) pageUp(a uint64) uint64 { return p.pageDown(a + p.PageSize() - 1) }

// pointer is a word as an address that can be read: on AArch64 the processor
// ignores the top byte, and malloc keeps a tag there where memory tagging is on
// (https://docs.kernel.org/arch/arm64/tagged-address-abi.html).
func (p process) pointer(word uint64) elfcore.Addr {
	if p.Arch.Machine == elf.EM_AARCH64 {
		word &^= 0xff << 56
	}
	return elfcore.Addr(word)
}

// layout is how ELF structures are encoded in this process.
func (p process) layout() layout { return layout{class: p.Class, order: p.ByteOrder} }

// dynamicSection reads the dynamic section in memory, as much of it as the core
// holds.
func (p process) dynamicSection(at elfcore.Addr) (entries []dyn, whole bool) {
	b := make([]byte, maxDynamic*2*p.Arch.WordSize())
	n, _ := p.ReadMemory(b, at)
	return p.layout().dynamic(b[:n])
}
