// Gowaits is a Go program with C code in it, all of whose threads are idle when it
// dies: goroutines wait for a mutex, a channel and a condition variable, which the
// threads' registers do not show, and a thread is inside a C function.
package main

/*
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static void rest(void) { for (;;) pause(); }
// Go's own handler would stop every thread first.
static void die(void) { signal(SIGABRT, SIG_DFL); abort(); }
*/
import "C"

import (
	"sync"
	"time"
)

func main() {
	var held sync.Mutex
	held.Lock()
	cond := sync.NewCond(&sync.Mutex{})
	for range 8 {
		go func() { held.Lock() }()
		go func() {
			cond.L.Lock()
			cond.Wait()
		}()
		go func() { <-make(chan int) }()
		go C.rest()
	}
	time.Sleep(200 * time.Millisecond)
	C.die()
}
