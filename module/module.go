package module

import (
	"debug/elf"
	"sync"

	"github.com/corethreads/corethreads/elfcore"
)

// Module is one ELF file that was mapped into the process.
type Module struct {
	// Path is the file as the kernel recorded it (NT_FILE), in the mount
	// namespace of the process, perhaps with " (deleted)" behind it; without
	// such a record it is Name, and for the program what execve was given
	// (AT_EXECFN). It can be empty.
	Path string
	// Name is l_name of the link map: what the loader calls the module, empty
	// for the program.
	Name string
	// LinkMap is the address of its struct link_map (link.h), 0 where it is
	// known from NT_FILE or the auxiliary vector only.
	LinkMap elfcore.Addr
	// Namespace is the link-map namespace (dlmopen), 0 for the first.
	Namespace int
	// Original is the module of another namespace that this link map repeats,
	// as that of the loader in namespaces made by dlmopen; nil for a mapping
	// of its own.
	Original *Module

	// Bias is added to an address of the file (l_addr), modulo the size of a
	// word. BiasKnown is false where neither a link map nor headers tell it.
	Bias      elfcore.Addr
	BiasKnown bool
	// Ranges are the memory of its segments in whole pages; without program
	// headers, what NT_FILE has of it.
	Ranges []elfcore.Range
	// Dynamic is the address of its dynamic section (l_ld), 0 for unknown or
	// none.
	Dynamic elfcore.Addr
	// Programs are its program headers, and ProgramsFrom where they were read:
	// FromNowhere means that they are not known.
	Programs     []elf.ProgHeader
	ProgramsFrom Source
	// TLS is its PT_TLS segment. Nil means that it has none, except where
	// ProgramsFrom is FromNowhere: then it is not known.
	TLS *TLSSegment
	// BuildID is that of the mapped image, read from the core; nil where it
	// has none or the core does not hold it.
	BuildID BuildID

	// File is the file on this machine that is this module, nil for none: its
	// Proof says how sure that is. Problem says why there is none; it is nil
	// for the vDSO, which is no file.
	File    *File
	Problem *Problem
	// Rejected are the files that were found in its place and not used.
	Rejected []Candidate

	IsExecutable, IsLoader, IsVDSO bool

	set *Set
	// nameAt is where l_name points, where the core does not hold the name.
	nameAt elfcore.Addr
	// image is what the core holds of the file's headers, nil for nothing.
	image *image
	// mappings are the entries of NT_FILE that make it up.
	mappings []elfcore.Mapping
	// auxv tells that AT_PHDR and AT_ENTRY are of this module.
	auxv bool

	debugOnce sync.Once
	debug     *File

	symbolsOnce sync.Once
	symbols     *symbolIndex
}

// TLSSegment is the initial image of a module's thread-local variables.
type TLSSegment struct {
	// MemSize is the size of a thread's block, FileSize that of the
	// initialised part at its start, Align its alignment, all in bytes.
	MemSize, FileSize, Align uint64
	// VAddr is where the initial image is in the file's address space, before
	// the bias.
	VAddr uint64
	// Source is where the program header was read.
	Source Source
}

// Source is where a fact was read.
type Source string

const (
	// FromNowhere: the fact is not known.
	FromNowhere Source = ""
	// FromCore: it was in memory when the process died.
	FromCore Source = "core"
	// FromFile: it comes from the proven file.
	FromFile Source = "file"
)

// Proof is how a file was proved to be the one that was mapped.
type Proof string

const (
	// ByBuildID: the file's build-id is that of the image in the core.
	ByBuildID Proof = "build-id"
	// ByHeaderBytes: there is no build-id to compare, but the core holds the
	// ELF header, the program headers and what follows them on the first page,
	// and they are equal.
	ByHeaderBytes Proof = "header-bytes"
	// ByLayout: the core holds no byte of the file's headers, but its dynamic
	// section, and that is the file's, word by word; the mappings agree.
	ByLayout Proof = "layout"
	// ByChecksum: a separate debug file whose checksum is the one that
	// .gnu_debuglink names.
	ByChecksum Proof = "checksum"
	// ByMappings is no proof: the core tells only where segments were mapped,
	// and perhaps the entry point, and these agree. Another build can look the
	// same.
	ByMappings Proof = "mappings"
	// Unproven: the core holds nothing to compare with.
	Unproven Proof = "unproven"
)

// Certain tells whether the file is the one that was mapped. One that is not
// certain gives names, never memory or headers.
func (p Proof) Certain() bool { return p != ByMappings && p != Unproven }

// ProblemKind is why a file cannot be used.
type ProblemKind string

const (
	// Missing: no file was found.
	Missing ProblemKind = "missing"
	// BuildIDDiffers: the file is another build.
	BuildIDDiffers ProblemKind = "build-id-differs"
	// LayoutDiffers: there is no build-id, but what can be compared differs.
	LayoutDiffers ProblemKind = "layout-differs"
	// WrongMachine: it is for another architecture, or no program or library.
	WrongMachine ProblemKind = "wrong-machine"
	// NoPermission: it may not be read.
	NoPermission ProblemKind = "no-permission"
	// NotELF: it is no ELF file.
	NotELF ProblemKind = "not-elf"
	// Damaged: it is cut, or its headers make no sense, or reading it failed.
	Damaged ProblemKind = "damaged"
	// DebugOnly: it is the separate debug file; it is used as that.
	DebugOnly ProblemKind = "debug-only"
)

// Problem is why a file cannot be used, or why there is none.
type Problem struct {
	Kind ProblemKind
	// Text says what is wrong, and what to do next.
	Text string
}

// Candidate is a file that was found and not used.
type Candidate struct {
	// Path is the file, How the rule by which it was found.
	Path, How string
	Problem   *Problem
}

// Contains tells whether an address lies in the module's memory.
func (m *Module) Contains(a elfcore.Addr) bool {
	for _, r := range m.Ranges {
		if r.Contains(a) {
			return true
		}
	}
	return false
}

// String names the module for people: its path, else what it is.
func (m *Module) String() string {
	switch {
	case m.Path != "":
		return m.Path
	case m.IsVDSO:
		return "the vDSO"
	case m.IsExecutable:
		return "the program"
	case m.IsLoader:
		return "the loader"
	}
	return "the module at " + m.LinkMap.String()
}

// setPrograms takes program headers over from the core or the proven file.
func (m *Module) setPrograms(programs []elf.ProgHeader, from Source) {
	m.Programs, m.ProgramsFrom = programs, from
	if h, ok := program(programs, elf.PT_TLS); ok && h.Memsz > 0 {
		m.TLS = &TLSSegment{MemSize: h.Memsz, FileSize: h.Filesz, Align: h.Align, VAddr: h.Vaddr, Source: from}
	}
	if m.BiasKnown {
		if r := m.set.core.ranges(programs, m.Bias); len(r) > 0 {
			m.Ranges = r
		}
	}
}
