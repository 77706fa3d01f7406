// Package diagnose tells what in a core will mislead a debugger, and why: the
// model of libthread_db and gdb, the findings and the verdict.
package diagnose
