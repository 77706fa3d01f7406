package elfcore

import (
	"bytes"
	"strings"
)

// Process is NT_PRPSINFO: the process as ps would show it.
type Process struct {
	// PID and PPID are ids in the pid namespace of whoever wrote the core.
	PID, PPID int
	// Name is pr_fname, at most 15 bytes; Args is pr_psargs, at most 79.
	Name, Args string
}

// Command is the command line as far as the core has it, else the name.
func (p *Process) Command() string {
	if p.Args != "" {
		return p.Args
	}
	return p.Name
}

// parsePRPSInfo reads struct elf_prpsinfo (linux/elfcore.h). On 32-bit systems
// it comes in two sizes: uid and gid have 16 or 32 bits.
func (c *Core) parsePRPSInfo(desc []byte, offset int64) {
	var pid int // offsetof(struct elf_prpsinfo, pr_pid)
	switch {
	case c.Arch.WordSize() == 8 && len(desc) >= 136:
		pid = 24
	case c.Arch.WordSize() == 4 && len(desc) == 124:
		pid = 12
	case c.Arch.WordSize() == 4 && len(desc) >= 128:
		pid = 16
	default:
		c.warn(offset, "NT_PRPSINFO has %d bytes, a size that no system uses: the process id is not known", len(desc))
		return
	}
	name := desc[pid+16:]
	c.Process = &Process{
		PID:  int(int32(c.ByteOrder.Uint32(desc[pid:]))),
		PPID: int(int32(c.ByteOrder.Uint32(desc[pid+4:]))),
		Name: text(name[:16]),
		Args: strings.TrimRight(text(name[16:16+80]), " "),
	}
}

// text is a C string in a field of fixed size.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// Auxiliary vector types (linux/auxvec.h).
const (
	AuxPhdr    = 3  // AT_PHDR: address of the program's program headers
	AuxPhent   = 4  // AT_PHENT: size of one in bytes
	AuxPhnum   = 5  // AT_PHNUM: how many
	AuxPageSz  = 6  // AT_PAGESZ: page size in bytes
	AuxBase    = 7  // AT_BASE: load address of the loader, 0 for none
	AuxEntry   = 9  // AT_ENTRY: entry point of the program
	AuxExecFn  = 31 // AT_EXECFN: address of the program's path
	AuxSysinfo = 33 // AT_SYSINFO_EHDR: address of the vDSO
)

// parseAuxv reads NT_AUXV: pairs of words, the last of type 0.
func (c *Core) parseAuxv(desc []byte, _ int64) {
	w := c.Arch.WordSize()
	for len(desc) >= 2*w {
		typ, value := c.WordOf(desc), c.WordOf(desc[w:])
		if typ == 0 {
			return
		}
		if _, twice := c.Auxv[typ]; !twice {
			c.Auxv[typ] = value
		}
		desc = desc[2*w:]
	}
}

// PageSize is the page size that the process ran with, in bytes.
func (c *Core) PageSize() uint64 {
	if n := c.Auxv[AuxPageSz]; n >= 0x1000 && n <= 0x100000 && n&(n-1) == 0 {
		return n
	}
	return c.Arch.PageSize
}
