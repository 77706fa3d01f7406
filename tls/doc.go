// Package tls gets from a thread and a variable to an address and a value.
//
// It needs no libthread_db: where each module's block of thread-local storage
// lies is read from the loader's own records in the core (struct link_map, the
// list of slots, each thread's dtv), whose private layout is inferred from the
// core; names come from the modules' symbol tables. What the records do not
// decide is said to be undecided, with the reason.
package tls
