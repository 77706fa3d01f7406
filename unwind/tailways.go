package unwind

import "slices"

const (
	// maxTailFunctions and maxJumps bound the functions and jumps that can be
	// between two frames, maxWays the steps along all ways through them.
	maxTailFunctions = 256
	maxJumps         = 1 << 12
	maxWays          = 1 << 14
)

// ways finds the ways by jumps from one function to another.
type ways struct {
	*Unwinder
	goal      place
	functions map[place]*tailFunction
	jumps     int

	// path is the way that is gone at the moment, first the first that led to
	// the goal. Of that, all ways share the first head and the last tail jumps.
	path, first []*jump
	head, tail  int
	steps       int
}

// tailFunction is a function between two frames, with the jumps by which it can
// have left.
type tailFunction struct {
	described
	jumps []*jump
	// reaches tells that there is a way from it to the goal.
	reaches bool
}

// jump is a tail call.
type jump struct {
	from *tailFunction
	site callSite
	// to is nil for the goal.
	to   *tailFunction
	gone bool
}

// search gives the jumps that are on every way from a function to the goal, in
// their order: those in which the ways begin, and those in which they end. It
// gives none where it cannot be sure to know all ways. A way that comes back to
// where it was, or passes the goal, has on it what one without that detour has.
func (w *ways) search(from described) []*jump {
	start, ok := w.explore(from)
	if !ok {
		return nil
	}
	w.mark()
	if !start.reaches || !w.follow(start) {
		return nil
	}
	if w.head == len(w.first) {
		return w.first
	}
	return append(slices.Clone(w.first[:w.head]), w.first[len(w.first)-w.tail:]...)
}

// explore finds all functions that can be reached in front of the goal.
func (w *ways) explore(from described) (*tailFunction, bool) {
	start := &tailFunction{described: from}
	w.functions[from.place] = start
	for open := []*tailFunction{start}; len(open) > 0; {
		f := open[0]
		open = open[1:]
		if f.entry == 0 {
			return nil, false
		}
		calls := f.debug.callsOf(f.entry)
		if calls == nil || !calls.complete {
			return nil, false
		}
		for _, s := range calls.all {
			if !s.tail {
				continue
			}
			to, ok := w.target(f.described, s)
			if w.jumps++; !ok || w.jumps > maxJumps {
				return nil, false
			}
			j := &jump{from: f, site: s}
			if to.place != w.goal {
				if j.to = w.functions[to.place]; j.to == nil {
					j.to = &tailFunction{described: to}
					w.functions[to.place] = j.to
					open = append(open, j.to)
				}
			}
			f.jumps = append(f.jumps, j)
		}
		if len(w.functions) > maxTailFunctions {
			return nil, false
		}
	}
	return start, true
}

// mark finds the functions from which there is a way to the goal.
func (w *ways) mark() {
	for more := true; more; {
		more = false
		for _, f := range w.functions {
			if !f.reaches && slices.ContainsFunc(f.jumps, (*jump).leads) {
				f.reaches, more = true, true
			}
		}
	}
}

func (j *jump) leads() bool { return j.to == nil || j.to.reaches }

// follow goes all ways from a function to the goal that take no jump twice. It
// is false where there are too many, or when it is clear that they share
// nothing.
func (w *ways) follow(f *tailFunction) bool {
	for _, j := range f.jumps {
		if j.gone || !j.leads() {
			continue
		}
		if w.steps++; w.steps > maxWays {
			return false
		}
		j.gone = true
		w.path = append(w.path, j)
		if j.to == nil {
			if !w.arrive() {
				return false
			}
		} else if !w.follow(j.to) {
			return false
		}
		w.path = w.path[:len(w.path)-1]
		j.gone = false
	}
	return true
}

// arrive compares a way that has led to the goal with the first one; false
// where nothing is left that all share.
func (w *ways) arrive() bool {
	if w.first == nil {
		w.first = slices.Clone(w.path)
		w.head, w.tail = len(w.first), len(w.first)
		return true
	}
	a, b := w.first, w.path
	n := 0
	for n < min(w.head, len(b)) && a[n] == b[n] {
		n++
	}
	w.head = n
	n = 0
	for n < min(w.tail, len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	w.tail = n
	return w.head+w.tail > 0
}
