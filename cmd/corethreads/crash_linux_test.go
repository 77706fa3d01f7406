package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corethreads/corethreads/internal/coretest"
)

// TestCheckTellsHowItDied makes a program die in ways that check knows.
func TestCheckTellsHowItDied(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "stacks")
	coretest.Output(t, coretest.Tool(t, "gcc", "gcc"), "-g", "-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-stack-protector",
		"-pthread", "-o", exe, filepath.Join("..", "..", "unwind", "testdata", "stacks.c"))
	for _, c := range []struct {
		scenario string
		want     []string
		never    []string
	}{
		{"overflow", []string{"used up its stack", "died in overflow+"}, []string{"written over"}},
		{"smash", []string{"written over", "0x41414140", "died in crash+"}, []string{"used up its stack"}},
		{"smash-return", []string{"written over", "0x41414140"}, []string{"used up its stack"}},
		{"null", []string{"died in 0x0, called", "by jump_to_null+"}, []string{"written over", "used up its stack"}},
		{"waits", []string{"died in "}, []string{"died in abort", "died in __", "written over", "used up its stack"}},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			t.Parallel()
			core := coretest.Dump(t, exe, coretest.Run{Args: []string{c.scenario}})
			var out, said bytes.Buffer
			if code := run(context.Background(), []string{"check", core, "--exe", exe}, nil, &out, &said); code == exitFailed {
				t.Fatalf("exit code %d: %s", code, said.String())
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("%q is missing in:\n%s", w, out.String())
				}
			}
			for _, w := range c.never {
				if strings.Contains(text, w) {
					t.Errorf("%q is in:\n%s", w, out.String())
				}
			}
		})
	}
}
