//go:build !unix

package coretest

import "os/exec"

// killGroup leaves it at the process itself where there are no groups.
func killGroup(*exec.Cmd) {}
