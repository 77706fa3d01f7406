package module

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// The truth is gdb, reading the same symbols of the same file.
func TestThreadDB(t *testing.T) {
	d := crash(t, build(t, "mapped.c", "mapped"))
	s := load(t, d.core, Config{})
	db, err := s.ThreadDB()
	if err != nil {
		t.Fatal(err)
	}
	libc := named(t, s, "libc.so.6")
	if db.Module != libc {
		t.Errorf("descriptors of %s", db.Module)
	}
	if version, source := db.Version(); version != d.glibc || !strings.Contains(source, libc.File.Path) {
		t.Errorf("version %q by %q, the program was told %q", version, source, d.glibc)
	}
	if version, source, ok := s.GlibcVersion(); !ok || version != d.glibc || !strings.Contains(source, "banner") {
		t.Errorf("version %q by %q, the program was told %q", version, source, d.glibc)
	}

	var args, names []string
	for name := range db.Fields {
		names = append(names, name)
		args = append(args, "-ex", fmt.Sprintf("x/3uw &_thread_db_%s", name))
	}
	if len(names) < 30 {
		t.Errorf("only %d descriptors", len(names))
	}
	line := regexp.MustCompile(`(?m)^0x[0-9a-f]+ <.*>:\t(\d+)\t(\d+)\t(\d+)$`)
	all := line.FindAllStringSubmatch(coretest.GDB(t, append(args, libc.File.Path)...), -1)
	if len(all) != len(names) {
		t.Fatalf("gdb shows %d descriptors of %d:\n%s", len(all), len(names), coretest.GDB(t, append(args, libc.File.Path)...))
	}
	for i, name := range names {
		var want [3]uint32
		for j := range want {
			n, err := strconv.ParseUint(all[i][j+1], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			want[j] = uint32(n)
		}
		if f, ok := db.Field(name); !ok || f != (Field{want[0], want[1], want[2]}) {
			t.Errorf("%s is %v, gdb has %v", name, f, want)
		}
	}
	if size, ok := db.Sizes["sizeof_pthread"]; !ok || size < 0x400 {
		t.Errorf("sizeof_pthread is %d", size)
	}
	rtld, ok := db.Address("_rtld_global")
	if !ok || s.At(rtld) != s.Loader() {
		t.Errorf("_rtld_global is at %s", rtld)
	}
	// Since glibc 2.34 libc points at it.
	if p, ok := db.Address("__nptl_rtld_global"); ok {
		if v, err := s.core.Word(p); err != nil || elfcore.Addr(v) != rtld {
			t.Errorf("__nptl_rtld_global points at %#x, %v", v, err)
		}
	}
	if _, ok := db.Address("no_such_symbol"); ok {
		t.Error("no_such_symbol has an address")
	}
	if _, ok := db.Field("no_such_field"); ok {
		t.Error("there is a descriptor no_such_field")
	}
}

func TestThreadDBOfAStaticProgram(t *testing.T) {
	exe := build(t, "mapped.c", "mapped", "-static", "-DSTATIC", "-Wno-unused", "-Wl,-u,pthread_create", "-Wl,-w")
	d := crash(t, exe)
	s := load(t, d.core, Config{})
	if version, _, ok := s.GlibcVersion(); !ok || version != d.glibc {
		t.Errorf("version %q, the program was told %q", version, d.glibc)
	}
	db, err := s.ThreadDB()
	if err != nil || db.Module != s.Executable() {
		t.Fatalf("descriptors of %v, %v", db, err)
	}
	if a, ok := db.Address("_dl_stack_user"); !ok || s.At(a) != s.Executable() {
		t.Errorf("_dl_stack_user is at %s", a)
	}
}

func TestNoThreadDB(t *testing.T) {
	d := crash(t, build(t, "mapped.c", "mapped"))
	s := load(t, d.core, Config{NoHostFiles: true})
	if _, err := s.ThreadDB(); err == nil || !strings.Contains(err.Error(), "libc") {
		t.Errorf("descriptors without a file: %v", err)
	}
	if version, _, ok := s.GlibcVersion(); ok {
		t.Errorf("version %s without a file", version)
	}
}
