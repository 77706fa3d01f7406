package module

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
)

// libcs are the proven files that can be the C library or its libpthread. A
// program without a loader has it inside.
func (s *Set) libcs() []*Module {
	var out []*Module
	for _, m := range s.Modules {
		if m.Original != nil || m.File == nil || !m.File.Proof.Certain() {
			continue
		}
		if isLibcName(m.Path) || isLibcName(m.Name) || m.IsExecutable && s.Loader() == nil {
			out = append(out, m)
		}
	}
	return out
}

// isLibcName tells the names that glibc's libraries have had: libc.so.6,
// libc-2.31.so, libpthread.so.0, libpthread-2.31.so.
func isLibcName(path string) bool {
	name := filepath.Base(path)
	for _, prefix := range []string{"libc.so", "libc-2", "libpthread.so", "libpthread-2"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// banner starts what libc prints when it is run (csu/version.c).
const banner = "GNU C Library "

var bannerVersion = regexp.MustCompile(`^[^\x00\n]* version ([0-9]+\.[0-9]+)`)

// GlibcVersion is the version of glibc as its proven file tells it, such as
// 2.36, and where it stands there. It is false where there is no such file.
func (s *Set) GlibcVersion() (version, source string, ok bool) {
	for _, m := range s.libcs() {
		if v, ok := m.bannerVersion(); ok {
			return v, fmt.Sprintf("the banner in %s", m.File.Path), true
		}
	}
	for _, m := range s.libcs() {
		if v := m.nptlVersion(); v != "" {
			return v, fmt.Sprintf("nptl_version in %s", m.File.Path), true
		}
	}
	return "", "", false
}

// nptlVersion reads the string by which libthread_db knows its libc, empty for
// none. It has two names since it is exported (2.34).
func (m *Module) nptlVersion() string {
	for _, name := range []string{"nptl_version", "__nptl_version"} {
		for _, sym := range m.Lookup(name) {
			if v := m.stringOf(sym); v != "" {
				return v
			}
		}
	}
	return ""
}

// bannerVersion looks for the banner among the file's constants.
func (m *Module) bannerVersion() (string, bool) {
	const chunk, overlap = 256 << 10, 512
	for _, s := range m.File.Sections {
		if s.Type != elf.SHT_PROGBITS || s.Flags&(elf.SHF_ALLOC|elf.SHF_WRITE|elf.SHF_EXECINSTR) != elf.SHF_ALLOC {
			continue
		}
		r := m.File.plain(s)
		buf := make([]byte, chunk+overlap)
		for at := int64(0); at < r.Size(); at += chunk {
			n, err := r.ReadAt(buf, at)
			if err != nil && err != io.EOF {
				break
			}
			_, text, found := bytes.Cut(buf[:n], []byte(banner))
			if v := bannerVersion.FindSubmatch(text[:min(len(text), overlap)]); found && v != nil {
				return string(v[1]), true
			}
		}
	}
	return "", false
}

// stringOf reads a variable that holds characters from the file.
func (m *Module) stringOf(s Symbol) string {
	const max = 64
	b := make([]byte, max)
	n, _ := m.File.ReadVirtual(b, s.Value)
	text, _, ended := strings.Cut(string(b[:n]), "\x00")
	if !ended {
		return ""
	}
	return text
}
