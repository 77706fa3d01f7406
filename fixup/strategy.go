package fixup

import (
	"fmt"
	"slices"
	"strings"
)

// Strategy is a way of repairing a handle whose thread is gone. A living
// thread's handle always keeps its place and gets its owner's id.
type Strategy string

const (
	// Retire sets the id to −1, glibc's own mark of a joined thread, which
	// gdb has skipped since 7.9. Four bytes a handle; the lists and all
	// evidence stay.
	Retire Strategy = "retire"
	// Unlink makes the neighbours skip the handle: for gdb before 7.9, and for
	// descriptors that are not in the core.
	Unlink Strategy = "unlink"
	// RemapTLS points the handle's dtv at that of the thread it stands for.
	// The handle still stands for it, but leads to the right variables.
	RemapTLS Strategy = "remap-tls"
	// Expose gives the handle an id that no thread has: gdb shows the exited
	// thread as one without registers, and its thread-locals can be read.
	Expose Strategy = "expose"
)

// Strategies lists all strategies, the default first.
func Strategies() []Strategy { return []Strategy{Retire, Unlink, RemapTLS, Expose} }

// ParseStrategy reads the name of a strategy.
func ParseStrategy(name string) (Strategy, error) {
	if s := Strategy(name); slices.Contains(Strategies(), s) {
		return s, nil
	}
	var names []string
	for _, s := range Strategies() {
		names = append(names, string(s))
	}
	return "", fmt.Errorf("no strategy %q; there are %s", name, strings.Join(names, ", "))
}

// Refusal is the error of a strategy that cannot work on a core.
type Refusal struct {
	Strategy Strategy
	// Why says what stands in the way, Instead which strategy can work.
	Why     string
	Instead Strategy
}

func (r *Refusal) Error() string {
	but := ""
	if r.Instead != "" {
		but = fmt.Sprintf(", but %s can", r.Instead)
	}
	return fmt.Sprintf("%s cannot repair this core%s: %s", r.Strategy, but, r.Why)
}
