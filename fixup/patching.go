package fixup

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// survey gives the patches whose old bytes the core still holds. All others
// hold their new bytes; anything else anywhere is an ErrOtherCore.
func (p *Plan) survey(core io.ReaderAt) (pending []Patch, err error) {
	var found []byte
	for _, patch := range p.Patches {
		found = append(found[:0], patch.Old...)
		if err := readAt(core, found, patch.Offset); err != nil {
			return nil, fmt.Errorf("reading %d bytes at offset %#x: %w", len(found), patch.Offset, err)
		}
		switch {
		case bytes.Equal(found, patch.Old):
			pending = append(pending, patch)
		case !bytes.Equal(found, patch.New):
			return nil, fmt.Errorf("%w: offset %#x holds %s, and the plan changes %s to %s there",
				ErrOtherCore, patch.Offset, excerpt(found), excerpt(patch.Old), excerpt(patch.New))
		}
	}
	return pending, nil
}

// excerpt gives bytes as hexadecimal that fit into a line.
func excerpt(b []byte) string {
	const most = 16
	if len(b) <= most {
		return fmt.Sprintf("%x", b)
	}
	return fmt.Sprintf("%x… (%d bytes)", b[:most], len(b))
}

// write writes the new bytes of the patches.
func write(core *os.File, patches []Patch, opts WriteOptions) error {
	for _, patch := range patches {
		opts.at("patch")
		if _, err := core.WriteAt(patch.New, patch.Offset); err != nil {
			return fmt.Errorf("writing %d bytes at offset %#x: %w", len(patch.New), patch.Offset, err)
		}
	}
	opts.at("patched")
	return nil
}

// verify reads the plan's new bytes back.
func (p *Plan) verify(core io.ReaderAt) error {
	pending, err := p.survey(core)
	if err != nil {
		return fmt.Errorf("after writing: %w", err)
	}
	if len(pending) > 0 {
		return fmt.Errorf("after writing, offset %#x still holds its old bytes", pending[0].Offset)
	}
	return nil
}

// restore puts the old bytes of the patches back where they are not there, and
// leaves alone what need not be written: on a full disk that would fail.
func restore(core *os.File, patches []Patch) error {
	var found []byte
	for _, patch := range patches {
		found = append(found[:0], patch.Old...)
		if err := readAt(core, found, patch.Offset); err != nil {
			return err
		}
		if bytes.Equal(found, patch.Old) {
			continue
		}
		if _, err := core.WriteAt(patch.Old, patch.Offset); err != nil {
			return err
		}
	}
	return core.Sync()
}
