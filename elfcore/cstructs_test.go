package elfcore_test

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/elfcore"
	"github.com/corethreads/corethreads/internal/coretest"
)

// TestCStructs has a C compiler lay out the notes.
func TestCStructs(t *testing.T) {
	for flag, abi := range map[string]coretest.ABI{"-m64": coretest.X86_64, "-m32": coretest.I386} {
		t.Run(flag, func(t *testing.T) {
			exe := filepath.Join(t.TempDir(), "notes")
			coretest.Output(t, coretest.Tool(t, "gcc", "gcc gcc-multilib"), flag, "-Wall", "-Wextra", "-Werror", "-o", exe, filepath.Join("testdata", "notes.c"))
			values := map[string]uint64{}
			var notes []coretest.Note
			for line := range strings.Lines(coretest.Output(t, exe)) {
				var name, desc string
				var typ elf.NType
				var value uint64
				if _, err := fmt.Sscanf(line, "value %s %x", &name, &value); err == nil {
					if flag == "-m32" {
						name = strings.TrimPrefix(name, "x") // as in xcs
					}
					values[name] = value
				} else if _, err := fmt.Sscanf(line, "note %s %x %s", &name, &typ, &desc); err == nil {
					b, err := hex.DecodeString(desc)
					if err != nil {
						t.Fatal(err)
					}
					notes = append(notes, coretest.Note{Name: name, Type: typ, Desc: b})
				} else {
					t.Fatalf("the program said %q", line)
				}
			}
			last := len(notes) - 1
			c := readNotes(t, abi, notes[:last]...)
			wantWarnings(t, c)
			if len(c.Threads) != 1 || c.Threads[0].TID != 4711 || c.Threads[0].Signal != 11 {
				t.Fatalf("threads %+v", c.Threads)
			}
			th := &c.Threads[0]
			for name, want := range values {
				if got, ok := th.Register(name); !ok || got != want {
					t.Errorf("%s is %#x (%v), want %#x", name, got, ok, want)
				}
			}
			if len(values) != len(c.Arch.Regs) {
				t.Errorf("the table has %d registers, struct user_regs_struct %d", len(c.Arch.Regs), len(values))
			}
			pc, sp, tp := values["rip"], values["rsp"], values["fs_base"]
			if flag == "-m32" {
				pc, sp, tp = values["eip"], values["esp"], 0x7a7b7c7d // base_addr
			}
			gotPC, _ := th.PC()
			gotSP, _ := th.SP()
			gotTP, _, ok := th.ThreadPointer()
			if uint64(gotPC) != pc || uint64(gotSP) != sp || uint64(gotTP) != tp || !ok {
				t.Errorf("pc, sp and thread pointer are %s, %s, %s, want %#x, %#x, %#x", gotPC, gotSP, gotTP, pc, sp, tp)
			}
			if want := (elfcore.Process{PID: 4242, PPID: 4243, Name: "victim", Args: "victim --now"}); c.Process == nil || *c.Process != want {
				t.Errorf("the process is %+v", c.Process)
			}
			if s := c.Signal; s == nil || s.Name() != "SIGSEGV" || *s.Code != 2 || s.Address == nil || *s.Address != 0x51525354 || s.Sender != nil {
				t.Errorf("the signal is %+v", s)
			}
			if s := readNotes(t, abi, notes[last]).Signal; s == nil || s.Name() != "SIGQUIT" || s.Sender == nil || *s.Sender != 4244 || s.Address != nil {
				t.Errorf("the signal that was sent is %+v", s)
			}
		})
	}
}
