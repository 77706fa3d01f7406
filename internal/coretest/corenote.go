package coretest

import "debug/elf"

// The notes of a core that debug/elf does not name, by linux/elf.h.
const (
	ntAuxv    elf.NType = 6
	ntFile    elf.NType = 0x46494c45 // "FILE"
	ntSiginfo elf.NType = 0x53494749 // "SIGI"
)

// Prstatus makes the NT_PRSTATUS note of thread pid, killed or stopped by
// signal (pr_cursig), with the first registers of pr_reg; the others are 0.
// Offsets are of struct elf_prstatus, linux/elfcore.h.
func (a ABI) Prstatus(pid int32, signal uint16, regs ...uint64) Note {
	desc := make([]byte, a.PrstatusSize)
	a.Order.PutUint32(desc, uint32(signal)) // pr_info.si_signo
	a.Order.PutUint16(desc[12:], signal)    // pr_cursig
	a.Order.PutUint32(desc[a.PIDOffset:], uint32(pid))
	copy(desc[a.RegOffset:], a.integers(a.RegSize, regs))
	return Note{Name: "CORE", Type: elf.NT_PRSTATUS, Desc: desc}
}

// Prpsinfo is what an NT_PRPSINFO note tells of the process.
type Prpsinfo struct {
	PID, PPID int32
	UID, GID  uint32
	Command   string // pr_fname, 16 bytes
	Args      string // pr_psargs, 80 bytes
}

// Prpsinfo makes the NT_PRPSINFO note: 136 bytes on 64-bit, and 124 or 128 on
// 32-bit by ShortIDs. Offsets are of struct elf_prpsinfo, linux/elfcore.h:
// four bytes, then pr_flag of a word's size, uid and gid, and four pids.
func (a ABI) Prpsinfo(p Prpsinfo) Note {
	ids := 8
	if a.Class == elf.ELFCLASS64 {
		ids = 16
	}
	pid := ids + 8
	if a.ShortIDs {
		pid = ids + 4
	}
	desc := make([]byte, pid+16+16+80)
	desc[1] = 'R' // pr_sname
	if a.ShortIDs {
		a.Order.PutUint16(desc[ids:], uint16(p.UID))
		a.Order.PutUint16(desc[ids+2:], uint16(p.GID))
	} else {
		a.Order.PutUint32(desc[ids:], p.UID)
		a.Order.PutUint32(desc[ids+4:], p.GID)
	}
	a.Order.PutUint32(desc[pid:], uint32(p.PID))
	a.Order.PutUint32(desc[pid+4:], uint32(p.PPID))
	copy(desc[pid+16:pid+16+16], p.Command)
	copy(desc[pid+32:], p.Args)
	return Note{Name: "CORE", Type: elf.NT_PRPSINFO, Desc: desc}
}

// AuxEntry is one entry of the auxiliary vector.
type AuxEntry struct{ Type, Value uint64 }

// Auxv makes the NT_AUXV note, AT_NULL at its end included.
func (a ABI) Auxv(entries ...AuxEntry) Note {
	var words []uint64
	for _, e := range entries {
		words = append(words, e.Type, e.Value)
	}
	atNull := []uint64{0, 0}
	return Note{Name: "CORE", Type: ntAuxv, Desc: a.Words(append(words, atNull...)...)}
}

// FileMapping is one entry of NT_FILE. Start and End are addresses; Offset is
// where in the file the mapping starts, in units of the note's page size.
type FileMapping struct {
	Start, End, Offset uint64
	Path               string
}

// File makes the NT_FILE note, as fill_files_note of fs/binfmt_elf.c does:
// words count and page_size, count triples, then the NUL-terminated paths.
func (a ABI) File(pageSize uint64, mappings ...FileMapping) Note {
	words := []uint64{uint64(len(mappings)), pageSize}
	var paths []byte
	for _, m := range mappings {
		words = append(words, m.Start, m.End, m.Offset)
		paths = append(append(paths, m.Path...), 0)
	}
	return Note{Name: "CORE", Type: ntFile, Desc: append(a.Words(words...), paths...)}
}

// Siginfo is what an NT_SIGINFO note tells of a fault.
type Siginfo struct {
	Signo, Errno, Code int32
	Addr               uint64 // si_addr
}

// Siginfo makes the NT_SIGINFO note: 128 bytes, asm-generic/siginfo.h. The
// union that si_addr is in follows three ints, aligned to a word.
func (a ABI) Siginfo(s Siginfo) Note {
	desc := make([]byte, 128)
	for i, v := range []int32{s.Signo, s.Errno, s.Code} {
		a.Order.PutUint32(desc[4*i:], uint32(v))
	}
	union := 12
	if a.Class == elf.ELFCLASS64 {
		union = 16
	}
	copy(desc[union:], a.Words(s.Addr))
	return Note{Name: "CORE", Type: ntSiginfo, Desc: desc}
}
