package module

import (
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// casesDir holds many real cores of all architectures, where there is a copy
// of it beside the project.
var casesDir = filepath.Join("..", "..", "shared", "cases")

// unpackCase unpacks all files of a folder into another.
func unpackCase(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.zst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		coretest.Unzstd(t, path, to)
	}
}

// stdBuildID reads a build-id by the standard library's parser.
func stdBuildID(t *testing.T, path string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".note.gnu.build-id")
	if s == nil {
		return ""
	}
	b, err := s.Data()
	if err != nil || len(b) < 16 {
		t.Fatalf("%s: %v", path, err)
	}
	return hex.EncodeToString(b[16:])
}

// Each module of which the case has a file is found and certain, no wrong file
// is used, and each thread-local of the truth has a symbol.
func TestCases(t *testing.T) {
	if _, err := os.Stat(casesDir); err != nil {
		t.Skip("NOT RUN: there is no ../shared/cases beside the project")
	}
	root, libs := t.TempDir(), make(map[string]string)
	modules, certain := 0, 0
	for _, name := range []string{
		"amd64-2.31/zombie-user", "amd64-2.36/asan", "amd64-2.36/core-alone", "amd64-2.36/cxx", "amd64-2.36/dlmopen", "amd64-2.36/dlopen",
		"amd64-2.36/gcore", "amd64-2.36/preload", "amd64-2.36/rust", "amd64-2.36/static", "amd64-2.36/static-pie", "amd64-2.36/stripped",
		"amd64-2.36/truncated-99", "amd64-2.36/filter-0x1", "amd64-2.43/dlopen", "amd64-musl/musl-mixed", "amd64-musl/musl-static",
		"arm64-2.36/dlopen", "arm64-2.43/dlopen-reuse", "arm64-max-2.41/healthy-default", "armhf-2.36/dlopen", "i386-2.36/dlopen",
		"ppc64el-2.36/dlopen", "quser-arm64-2.36/zombie-user", "quser-s390x-2.36/healthy-default", "riscv64-2.36/dlopen", "s390x-2.36/dlopen",
		"s390x-2.36/zombie-user+static",
	} {
		t.Run(name, func(t *testing.T) {
			set, _, _ := strings.Cut(name, "/")
			if libs[set] == "" {
				libs[set] = filepath.Join(root, set)
				if err := os.Mkdir(libs[set], 0o700); err != nil {
					t.Fatal(err)
				}
				unpackCase(t, filepath.Join(casesDir, "libs", set), libs[set])
			}
			dir := t.TempDir()
			unpackCase(t, filepath.Join(casesDir, name), dir)
			cfg := Config{LibDirs: []string{dir, libs[set]}, NoHostFiles: true}
			if _, err := os.Stat(filepath.Join(dir, "exe")); err == nil {
				cfg.Exe = filepath.Join(dir, "exe")
			}
			s := load(t, filepath.Join(dir, "core"), cfg)
			for _, m := range s.Modules {
				if m.IsVDSO {
					continue
				}
				modules++
				if len(m.Rejected) > 0 {
					t.Errorf("%s: rejected %+v", m, m.Rejected)
				}
				if m.File == nil {
					if hasFile(m, cfg) {
						t.Errorf("%s: there is a file, but %v", m, m.Problem)
					}
					continue
				}
				certain++
				id := stdBuildID(t, m.File.Path)
				if !m.File.Proof.Certain() || m.File.BuildID.String() != id || m.BuildID != nil && m.BuildID.String() != id {
					t.Errorf("%s: file %s, proof %s, build-id %s", m, m.File, m.File.Proof, id)
				}
			}
			checkVariables(t, s, filepath.Join(casesDir, name, "truth.json"))
		})
	}
	t.Logf("%d modules, %d with a file that is certain", modules, certain)
}

// hasFile tells whether the case has a file by the module's name.
func hasFile(m *Module, cfg Config) bool {
	for _, dir := range cfg.LibDirs {
		for _, name := range m.fileNames() {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return true
			}
		}
	}
	return m.IsExecutable && cfg.Exe != ""
}

func checkVariables(t *testing.T, s *Set, path string) {
	t.Helper()
	var truth struct {
		Threads []struct{ TLS map[string]any }
	}
	if err := json.Unmarshal(contents(t, path), &truth); err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	complete := true
	for _, m := range s.Modules {
		complete = complete && (m.IsVDSO || m.File != nil && (!m.IsExecutable || m.File.has(".symtab")))
		for _, v := range m.TLSSymbols() {
			have[v.Name] = true
			have[v.Demangled()] = true
		}
	}
	for _, th := range truth.Threads {
		for name := range th.TLS {
			// Of two libraries with the same variable, the truth calls one so.
			name = strings.Replace(name, "plugbig_", "plug_", 1)
			if complete && !have[name] && !strings.Contains(name, ".") {
				t.Errorf("%s is not among %d thread-locals", name, len(have))
				return
			}
		}
	}
}
