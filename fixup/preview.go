package fixup

import (
	"fmt"
	"io"
	"sort"

	"github.com/corethreads/corethreads/diagnose"
	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/nptl"
)

// Preview diagnoses the core that a plan would make, without writing it. Symbols
// are those that the core was read with; they may be nil.
func Preview(c *elfcore.Core, symbols nptl.Symbols, p *Plan) (*diagnose.Report, error) {
	repaired, err := elfcore.New(&overlay{c, p.Patches}, c.Size)
	if err != nil {
		return nil, fmt.Errorf("the repaired core could not be read: %w", err)
	}
	return diagnose.Core(repaired, nptl.Read(repaired, symbols)), nil
}

// overlay is a file with sorted patches laid over it.
type overlay struct {
	file    io.ReaderAt
	patches []Patch
}

func (f *overlay) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.file.ReadAt(b, at)
	first := sort.Search(len(f.patches), func(i int) bool { return f.patches[i].end() > at })
	for i := first; i < len(f.patches) && f.patches[i].Offset < at+int64(n); i++ {
		p := &f.patches[i]
		from, to := max(p.Offset, at), min(p.end(), at+int64(n))
		copy(b[from-at:to-at], p.New[from-p.Offset:])
	}
	return n, err
}
