package fixup

import "errors"

// lockKind is how much of a core a run asks for.
type lockKind int

const (
	lockShared    lockKind = iota // others may read, nobody edits
	lockExclusive                 // to edit
)

var errBusy = errors.New("another run is working on this core; try again when it is done")
