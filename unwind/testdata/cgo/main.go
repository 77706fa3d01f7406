// A Go program whose C code dies on a thread of C's own, while goroutines wait.
package main

/*
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static __attribute__((noinline)) void die(void) { abort(); }
static void *body(void *arg) { (void)arg; sleep(1); die(); return NULL; }
static void begin(void) { pthread_t t; if (pthread_create(&t, NULL, body, NULL)) abort(); }
static void block(void) { for (;;) pause(); }
*/
import "C"

import "time"

//go:noinline
func wait() { C.block() }

func main() {
	go wait()
	go func() {
		for {
			time.Sleep(time.Hour)
		}
	}()
	C.begin()
	select {}
}
