package fixup

import (
	"fmt"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
)

// correctPointers plans to write the thread pointers that descriptors show over
// others in the notes, as old versions of gdb's gcore and of the kernel left
// there. gdb with libthread_db goes by the lists, but lldb and gdb 17's own
// lookup of thread-locals go by the notes alone.
func (m *maker) correctPointers() error {
	wrong := make(map[int]bool)
	for _, f := range m.Find(diagnose.ThreadPointerBad) {
		for _, tid := range f.TIDs {
			wrong[tid] = true
		}
	}
	for i := range m.c.Threads {
		t := &m.c.Threads[i]
		if handle := m.p.Threads[i].Handle; wrong[t.TID] && handle >= 0 && m.p.Handles[handle].Proved {
			if err := m.correctPointer(t, m.p.Threads[i].Pointer); err != nil {
				return err
			}
		}
	}
	return nil
}

// correctPointer plans one thread pointer. What a note holds is not memory, so
// that the patch has an offset and no address.
func (m *maker) correctPointer(t *elfcore.Thread, right elfcore.Addr) error {
	recorded, offset, _ := t.ThreadPointer()
	if recorded == right {
		return nil
	}
	old := make([]byte, m.c.Arch.PointerFieldSize())
	if err := readAt(m.c, old, offset); err != nil {
		return fmt.Errorf("the thread pointer of thread %d at offset %#x: %w", t.TID, offset, err)
	}
	corrected := make([]byte, len(old))
	if len(old) == 4 {
		m.c.ByteOrder.PutUint32(corrected, uint32(right))
	} else {
		m.c.ByteOrder.PutUint64(corrected, uint64(right))
	}
	m.notes = append(m.notes, Patch{
		Offset: offset, Old: old, New: corrected,
		Reason: fmt.Sprintf("thread %d: its notes have the thread pointer %s, its descriptor shows that it was %s: lldb and gdb 17's own lookup go by the notes", t.TID, recorded, right),
	})
	return nil
}
