package locks

import (
	"fmt"
	"path"
	"strings"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/module"
)

// Symbol names an address: by its symbol, else by the file that it lies in and
// the distance from the file's start in memory. Empty for neither.
func Symbol(set *module.Set, at elfcore.Addr) string {
	if sym, offset, ok := set.Symbolize(at); ok {
		if offset == 0 {
			return sym.Demangled()
		}
		return fmt.Sprintf("%s+%d", sym.Demangled(), offset)
	}
	if m := set.At(at); m != nil && m.BiasKnown {
		return fmt.Sprintf("%s+%#x", path.Base(strings.TrimSuffix(m.String(), " (deleted)")), uint64(at-m.Bias))
	}
	return ""
}

// name gives an address with its name.
func (a *analyzer) name(at elfcore.Addr) string {
	if name := Symbol(a.set, at); name != "" {
		return fmt.Sprintf("%s <%s>", at, name)
	}
	return at.String()
}
