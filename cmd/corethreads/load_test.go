package main

import (
	"path/filepath"
	"testing"
)

// TestFixedName proposes names that are not the core's, in folders that can be
// written.
func TestFixedName(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		"core.123":                       "core.123.fixed",
		"core.zst":                       "core.fixed",
		"./core.123.lz4":                 "core.123.fixed",
		"-":                              "core.fixed",
		filepath.Join(dir, "core.xz"):    filepath.Join(dir, "core.fixed"),
		filepath.Join(dir, "no", "core"): "core.fixed",
		filepath.Join(dir, ".zst"):       filepath.Join(dir, "core.fixed"),
	} {
		if got := fixedName(path); got != want {
			t.Errorf("for %s it proposes %s, want %s", path, got, want)
		}
	}
}
