package tls_test

import (
	"testing"

	"github.com/corethreads/corethreads/tls"
)

// TestModuleWithoutFile names a module that only the loader's list of slots has.
func TestModuleWithoutFile(t *testing.T) {
	m := &tls.Module{LinkMap: 0x1000, ID: 3}
	if got, want := m.String(), "the module at 0x1000"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
