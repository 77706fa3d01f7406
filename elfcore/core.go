package elfcore

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/corethreads/corethreads/internal/stream"
)

// Core is one core. It does not change after New and is safe for concurrent
// use.
type Core struct {
	Arch  *Arch
	Class elf.Class
	// ByteOrder is that of the dead process, in notes and in memory.
	ByteOrder binary.ByteOrder
	// Size is the number of bytes there are of the uncompressed core.
	Size int64
	// Compression names what the file was packed with, empty for nothing. Path
	// is where the uncompressed core can be opened again, empty if nowhere.
	Compression, Path string
	// StreamCut is what ended a compressed core before its end, nil for one
	// that is whole. What came out before that is there.
	StreamCut error

	// Segments are the PT_LOAD segments by address. They do not overlap.
	Segments []Segment
	// Mappings are the entries of NT_FILE by address: what was mapped from
	// files. HasMappings tells whether the core has that note at all.
	Mappings    []Mapping
	HasMappings bool
	// Threads are the LWPs in the order of their NT_PRSTATUS notes.
	Threads []Thread
	// NotesCut tells that notes are missing because the core is cut or damaged,
	// so that there may have been more threads.
	NotesCut bool

	// Process is NT_PRPSINFO, nil without that note.
	Process *Process
	// Signal is why the process was dumped, nil where the core does not say.
	Signal *Signal
	// Auxv is the auxiliary vector by type (AT_… of linux/auxvec.h), empty
	// without NT_AUXV.
	Auxv map[uint64]uint64
	// Producer is who wrote the core.
	Producer Producer
	// Kernel is the version of the kernel that the process ran on, from the
	// note in the vDSO; empty where that is not in the core.
	Kernel string

	// MissingBytes is how much the program headers promise beyond the end of
	// the file: more than zero for a core that was cut.
	MissingBytes int64
	// Warnings are what was odd, in the order of the file.
	Warnings []Warning

	file   *cachedFile
	stream *stream.File
	// byTID gives the index of the first thread with an id.
	byTID map[int]int
	// signalThread is the index of the thread that Signal belongs to.
	signalThread int
}

// Warning is something odd about a core that did not keep it from being read.
type Warning struct {
	// Offset is where in the core.
	Offset int64
	// Text says what, and what follows from it.
	Text string
}

// Segment is one PT_LOAD program header.
type Segment struct {
	Range
	// Offset is where its bytes start in the core; FileSize is how many of
	// them the core holds, counted from Start, less than Len where the rest
	// was not dumped.
	Offset   int64
	FileSize uint64
	Flags    elf.ProgFlag
	// Index counts program headers from 0.
	Index int
}

// Readable, Writable and Executable tell the protection of the memory.
func (s *Segment) Readable() bool   { return s.Flags&elf.PF_R != 0 }
func (s *Segment) Writable() bool   { return s.Flags&elf.PF_W != 0 }
func (s *Segment) Executable() bool { return s.Flags&elf.PF_X != 0 }

// FormatError says what of a file is not as a core must be.
type FormatError struct {
	// Offset is where in the file, in bytes.
	Offset int64
	// What says what is wrong there and what to do next.
	What string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("at offset %#x: %s", e.Offset, e.What)
}

// New reads a core of size bytes. The core keeps r and reads from it whenever
// it needs memory; r must not change.
//
// The error is a *FormatError for a file that is no core of a Linux process.
// A core that is cut is no error: what is there is used, and MissingBytes and
// NotesCut say what is not.
func New(r io.ReaderAt, size int64) (*Core, error) {
	c := &Core{
		Size:  size,
		Auxv:  make(map[uint64]uint64),
		file:  newCachedFile(r, size),
		byTID: make(map[int]int),
	}
	h, err := readHeader(c.file)
	if err != nil {
		return nil, err
	}
	c.Class, c.ByteOrder = h.class, h.order
	c.Arch = archOf(h.machine, h.class, h.order)
	loads, noteSegments, err := c.readProgramHeaders(h)
	if err != nil {
		return nil, err
	}
	c.Segments = c.sortSegments(loads)
	notes, err := c.readNotes(noteSegments)
	if err != nil {
		return nil, err
	}
	if !c.Arch.Known() {
		c.warn(18, "the layout of a thread's registers is not known for %s: its threads cannot be listed", c.Arch.Name)
	}
	c.Kernel = c.kernelVersion()
	c.Producer = c.producer(h, notes)
	c.settleSignal()
	return c, nil
}

// Truncated tells whether the core ends before its program headers say so.
func (c *Core) Truncated() bool { return c.MissingBytes > 0 }

// CrashThread is the thread that died: the one whose signal ended the process.
// It is nil where the core does not say, as in a dump of a living process.
func (c *Core) CrashThread() *Thread {
	if c.Signal == nil || c.signalThread >= len(c.Threads) {
		return nil
	}
	return &c.Threads[c.signalThread]
}

// Thread finds a thread by its kernel id, nil for none. Of several with one id,
// which only a damaged core has, it is the first.
func (c *Core) Thread(tid int) *Thread {
	i, ok := c.byTID[tid]
	if !ok {
		return nil
	}
	return &c.Threads[i]
}

// maxWarnings bounds what a hostile core can make us say.
const maxWarnings = 64

// warn adds a warning about the bytes at a file offset.
func (c *Core) warn(offset int64, format string, args ...any) {
	if len(c.Warnings) == maxWarnings {
		c.Warnings = append(c.Warnings, Warning{Offset: offset, Text: "more is odd about this core; only the first warnings are kept"})
	}
	if len(c.Warnings) > maxWarnings {
		return
	}
	c.Warnings = append(c.Warnings, Warning{Offset: offset, Text: fmt.Sprintf(format, args...)})
}

// String gives a warning with its place in the file.
func (w Warning) String() string {
	if w.Offset == 0 {
		return w.Text
	}
	return fmt.Sprintf("at offset %#x: %s", w.Offset, w.Text)
}
