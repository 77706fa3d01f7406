package unwind_test

import (
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
	"github.com/corethreads/corethreads/unwind"
)

// TestFunctionsInFunctions finds what is inlined in lambdas and in methods of
// local classes, which stand in the functions around them.
func TestFunctionsInFunctions(t *testing.T) {
	exe := build(t, "g++", "nested.cc", "-O2")
	core := coretest.Dump(t, exe, coretest.Run{})
	compare(t, exe, core, 1, func(f []unwind.Function) bool { return f[0].Line > 0 })
	inlined := 0
	for _, frames := range stacks(t, exe, core) {
		for _, f := range frames {
			if f.function().Inlined && f.module.IsExecutable {
				inlined++
			}
		}
	}
	if inlined != 3 {
		t.Errorf("%d functions were inlined, not 3", inlined)
	}
}
