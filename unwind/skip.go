package unwind

import "debug/dwarf"

// skipChildren reads past what stands in an entry, and takes the entries that it
// reads off a number that may be read. It is false where that is used up, or
// where the unit ends first. The Reader's own SkipChildren recurses: entries that
// stand in one another by the million, a byte each, end the process with its
// stack, which nothing can contain.
func skipChildren(r *dwarf.Reader, e *dwarf.Entry, left *int) bool {
	for depth := 0; ; {
		switch {
		case e.Tag == 0:
			depth--
		case e.Children:
			next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset)
			if ok && next > e.Offset { // else it would lead back
				r.Seek(next)
			} else {
				depth++
			}
		}
		if depth == 0 {
			return true
		}
		if *left <= 0 {
			return false
		}
		*left--
		var err error
		if e, err = r.Next(); err != nil || e == nil || e.Tag == dwarf.TagCompileUnit || e.Tag == dwarf.TagPartialUnit {
			return false
		}
	}
}
