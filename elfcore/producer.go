package elfcore

import (
	"debug/elf"
	"slices"
)

// Producer is who wrote a core.
type Producer string

const (
	Kernel          Producer = "kernel"
	GCore           Producer = "gcore" // gdb's generate-core-file
	CreateDump      Producer = "createdump"
	QEMUUser        Producer = "qemu-user"
	UnknownProducer Producer = "unknown"
)

// producer tells the writers apart by the order of their notes.
func (c *Core) producer(h *header, sum *noteSummary) Producer {
	startWith := func(types ...elf.NType) bool {
		return len(sum.order) >= len(types) && slices.Equal(sum.order[:len(types)], types)
	}
	switch {
	case !sum.others && !c.NotesCut && (startWith(ntPRStatus, ntPRPSInfo, ntAuxv) || startWith(ntAuxv, ntPRPSInfo, ntPRStatus)):
		// linux-user/elfload.c of QEMU up to 8, and from 9 on: general
		// registers and nothing else of a thread.
		return QEMUUser
	case startWith(ntPRStatus, ntPRPSInfo):
		// fs/binfmt_elf.c: the thread that died, then the process.
		return Kernel
	case startWith(ntPRPSInfo, ntPRStatus) && (h.shnum > 1 || h.phnumFromSection):
		// gdb/linux-tdep.c writes the process first; BFD adds sections.
		return GCore
	case startWith(ntPRPSInfo, ntAuxv) && h.osabi == elf.ELFOSABI_LINUX:
		// dotnet/runtime, src/coreclr/debug/createdump.
		return CreateDump
	}
	return UnknownProducer
}
