// Package module gives the ELF files that were mapped into the process: where
// to find them, proof that they are the right ones, their symbols, call-frame
// information, DWARF and TLS segment; and memory as core first, then proven
// file.
//
// The modules come from the loader's link maps, in all namespaces; where those
// are not in the core, from the list of mapped files (NT_FILE). No file is
// believed by its name: its build-id must be that of the mapped image, or,
// where there is none to compare, its headers and its layout must. A file that
// differs is never used; it is kept as a rejected Candidate with the reason.
//
// Neither the core nor the files are trusted: lengths are checked against what
// there is, walks are bounded, and nothing of these files is executed.
package module
