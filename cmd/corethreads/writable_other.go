//go:build !unix

package main

// writable tells whether a file can be created in a folder, as far as that is
// known before it is tried.
func writable(string) bool { return true }
