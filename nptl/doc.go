// Package nptl gives glibc's own view of its threads: the layout of struct
// pthread, its lists in libthread_db's order, and the handles on them.
//
// It needs no libc file, no symbols and no table of versions. A list node is
// proved by structures that glibc writes before it links the node; the heads of
// the lists are found by scanning the few kilobytes of data where glibc keeps
// them; offsets inside struct pthread are found by what all descriptors of the
// core agree on. What cannot be decided is said to be undecided.
//
// The descriptor is struct pthread of nptl/descr.h. In this package a node is
// the address of its member list, and all offsets count from there, since the
// part in front of it is the only one whose size no core tells.
package nptl
