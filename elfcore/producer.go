package elfcore

import "debug/elf"

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
	if len(sum.order) == 0 {
		return UnknownProducer
	}
	second := elf.NType(-1)
	if len(sum.order) > 1 {
		second = sum.order[1]
	}
	switch {
	case sum.order[0] == ntPRStatus && (second == ntPRPSInfo || second == -1):
		// fs/binfmt_elf.c: the dumping thread, then the process. QEMU's
		// linux-user/elfload.c copies that, but writes registers and
		// nothing else of a thread.
		for typ := range sum.seen {
			if typ != ntPRStatus && typ != ntPRPSInfo && typ != ntAuxv {
				return Kernel
			}
		}
		if c.NotesCut {
			return Kernel
		}
		return QEMUUser
	case sum.order[0] == ntPRPSInfo && second == ntPRStatus && (h.shnum > 1 || h.phnumFromSection):
		// gdb/linux-tdep.c writes the process first; BFD adds sections.
		return GCore
	case sum.order[0] == ntPRPSInfo && second == ntAuxv && h.osabi == elf.ELFOSABI_LINUX:
		// dotnet/runtime, src/coreclr/debug/createdump.
		return CreateDump
	}
	return UnknownProducer
}
