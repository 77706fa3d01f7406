package module

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// packXZ packs by the reference program.
func packXZ(t *testing.T, data []byte, flags ...string) []byte {
	t.Helper()
	cmd := exec.Command(coretest.Tool(t, "xz", "xz-utils"), append([]string{"-c"}, flags...)...)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUnpackXZ(t *testing.T) {
	data := bytes.Repeat([]byte("a symbol table "), 10000)
	for name, flags := range map[string][]string{
		"default": nil, "many blocks": {"-T2", "--block-size=4096"}, "no check": {"--check=none"}, "sha256": {"--check=sha256"},
	} {
		packed := packXZ(t, data, flags...)
		if got, err := unpackXZ(packed, uint64(len(data))); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if got, err := unpackXZ(packed, uint64(len(data))-1); err == nil {
			t.Errorf("%s: %d bytes, more than it may have", name, len(got))
		}
		step := len(packed)/40 + 1
		for i := 0; i < len(packed); i += step {
			if got, err := unpackXZ(packed[:i], maxMiniDebug); err == nil {
				t.Errorf("%s cut at %d: %d bytes, and no error", name, i, len(got))
			}
			changed := bytes.Clone(packed)
			changed[i] ^= 0x55
			got, err := unpackXZ(changed, maxMiniDebug)
			if err == nil && !bytes.Equal(got, data) && name != "no check" {
				t.Errorf("%s with byte %d changed: other contents, and no error", name, i)
			}
		}
	}
	if got, err := unpackXZ(packXZ(t, data, "--lzma2=dict=128MiB"), maxMiniDebug); err == nil {
		t.Errorf("a dictionary of 128 MiB was allocated for %d bytes", len(got))
	}
}
