//go:build unix

package main

import "golang.org/x/sys/unix"

// writable tells whether a file can be created in a folder.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
