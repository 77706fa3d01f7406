package main

import "strings"

// Command lines that people are told to paste are made of these words.

// shellWord makes a word of a command line: an option, or anything else that a
// program is to be given as it is. Of --flag=value the value is quoted, as people
// write it.
func shellWord(s string) string {
	if flag, value, ok := strings.Cut(s, "="); ok && strings.HasPrefix(flag, "--") && needsNoQuotes(flag) {
		return flag + "=" + shellWord(value)
	}
	if needsNoQuotes(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func needsNoQuotes(s string) bool {
	// A shell takes = for itself in the first word of a line only, and zsh at
	// the start of any.
	return s != "" && s[0] != '=' && strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-", r)
	}) < 0
}

// fileWord is a file's name as it must be given for no option to be made of it.
func fileWord(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}

// shellQuote makes a file's name a word of a command line.
func shellQuote(path string) string { return shellWord(fileWord(path)) }

// coreWord is shellQuote for a core, which "-" stands for on standard input.
func coreWord(path string) string {
	if path == "-" {
		return path
	}
	return shellQuote(path)
}
