/* Threads that are stopped in functions which others left to by a jump: the test
 * compares their stacks with gdb's. Each thread is in one function of the list
 * below; with an argument there is one more, of which gdb says too much. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "tailcalls.h"

volatile int sink;
/* zero stays 0, so that nothing returns; the compiler must not know. */
static volatile int zero;
static pthread_barrier_t barrier;

/* Where the chains end. */
STEP int hold(int n)
{
	pthread_barrier_wait(&barrier);
	while (!zero)
		pause();
	return sink + n;
}

/* Chains of one, two and three. */
static STEP int last(int n)
{
	sink++;
	return hold(n + 1);
}

static STEP int second(int n)
{
	sink++;
	return last(n + 2);
}

static STEP int first(int n)
{
	sink++;
	return second(n + 3);
}

/* Two ways, with nothing in common. */
static STEP int left(int n)
{
	sink += n;
	return hold(n - 1);
}

static STEP int right(int n)
{
	sink -= n;
	return hold(n - 2);
}

static STEP int fork_in_two(int n)
{
	if (n > zero)
		return left(n);
	return right(n);
}

/* Two ways with the same end, and with the same beginning. */
static STEP int left_to_last(int n)
{
	sink += n;
	return last(n - 1);
}

static STEP int right_to_last(int n)
{
	sink -= n;
	return last(n - 2);
}

static STEP int fork_and_join(int n)
{
	if (n > zero)
		return left_to_last(n);
	return right_to_last(n);
}

static STEP int into_fork(int n)
{
	sink++;
	return fork_in_two(n + 5);
}

static STEP int into_fork_and_join(int n)
{
	sink++;
	return fork_and_join(n + 5);
}

/* A way and a short cut. */
static STEP int short_cut(int n)
{
	if (n > zero)
		return last(n);
	return hold(n);
}

static STEP int short_cut_first(int n)
{
	if (n > zero)
		return hold(n);
	return last(n);
}

/* The same function from two places of one. */
static STEP int two_places(int n)
{
	if (n > zero) {
		sink++;
		return hold(n * 2 + sink);
	}
	sink--;
	return hold(n * 3 - sink);
}

/* A function that calls itself, by a name that the compiler does not see through. */
int again(int n);

STEP int myself(int n)
{
	sink++;
	if (n > 0)
		return again(n - 1);
	return hold(n);
}

int again(int n) __attribute__((alias("myself")));

/* Two functions that call each other. */
static STEP int pong(int n);

static STEP int ping(int n)
{
	sink++;
	if (n > 0)
		return pong(n - 1);
	return hold(n);
}

static STEP int pong(int n)
{
	sink--;
	return ping(n - 1);
}

/* A way around that comes back to where it began. */
static STEP int round_trip(int n);

static STEP int round_and_out(int n)
{
	sink++;
	if (n > 0)
		return round_trip(n - 1);
	return hold(n);
}

static STEP int round_trip(int n)
{
	sink--;
	return round_and_out(n);
}

/* Through pointers. */
static int (*volatile pointer)(int) = hold;
static int (*volatile to_last)(int) = last;

static STEP int by_pointer(int n)
{
	sink++;
	return pointer(n);
}

static STEP int maybe_by_pointer(int n)
{
	if (n > zero)
		return hold(n);
	return pointer(n);
}

static STEP int called_by_pointer(int n)
{
	return to_last(n) + 1;
}

/* Into the C library, where nothing is known of other calls. */
static STEP int maybe_to_libc(int n)
{
	if (n > zero)
		return hold(n);
	return puts("never");
}

/* From inside an inlined function. */
static inline __attribute__((always_inline)) int inlined_twice(int n)
{
	sink += 2;
	return hold(n);
}

static inline __attribute__((always_inline)) int inlined(int n)
{
	sink += 3;
	return inlined_twice(n + 1);
}

static STEP int around_inlined(int n)
{
	sink++;
	return inlined(n);
}

/* Stopped in an inlined function, called from one. */
static inline __attribute__((always_inline)) void stop_here(void)
{
	pthread_barrier_wait(&barrier);
	while (!zero)
		pause();
}

static STEP int holds_inlined(int n)
{
	stop_here();
	return n + sink;
}

static STEP int to_inlined(int n)
{
	sink++;
	return holds_inlined(n);
}

static inline __attribute__((always_inline)) int calls_inlined(int n)
{
	return to_inlined(n) + sink;
}

static STEP int from_inlined(int n)
{
	return calls_inlined(n) + 1;
}

/* A function that the compiler both inlined and kept. */
int kept(int n)
{
	for (int i = 0; i < 10; i++) {
		sink += i * n;
		sink ^= n;
		sink -= i;
		sink *= 3;
	}
	return last(n + sink);
}

__attribute__((flatten)) int flat(int n)
{
	return kept(n) + 1;
}

static STEP int to_kept(int n)
{
	sink++;
	return kept(n);
}

/* Parts of functions that are kept elsewhere. */
static STEP __attribute__((cold)) int seldom(int n)
{
	sink++;
	return hold(n);
}

static STEP int split(int n)
{
	if (__builtin_expect(n > zero, 0)) {
		sink += 7;
		seldom(n + 1);
		sink += 8;
		return seldom(n);
	}
	for (int i = 0; i < n; i++)
		sink += i;
	return n;
}

/* A function of the C library that is left to. */
static STEP int to_pause(int n)
{
	sink += n;
	pthread_barrier_wait(&barrier);
	return pause();
}

#define PLAIN(name) static STEP int call_##name(int n) { sink++; return name(n) + sink; }
#define LIST(DO) \
	DO(hold) DO(last) DO(second) DO(first) DO(fork_in_two) DO(fork_and_join) DO(into_fork) DO(into_fork_and_join) \
	DO(short_cut) DO(short_cut_first) DO(two_places) DO(myself) DO(round_trip) DO(by_pointer) DO(maybe_by_pointer) \
	DO(called_by_pointer) DO(maybe_to_libc) DO(around_inlined) DO(to_inlined) DO(from_inlined) DO(flat) DO(kept) DO(to_kept) \
	DO(seldom) DO(split) DO(to_pause) DO(other_file) DO(library_entry) DO(library_back)

LIST(PLAIN)
PLAIN(ping)

#define START(name) static void *start_##name(void *arg) { sink += call_##name((int)(long)arg); return NULL; }
LIST(START)
START(ping)

/* A thread whose first function left by a jump. */
static STEP void *held(void *arg)
{
	sink += hold((int)(long)arg);
	return NULL;
}

static void *start_by_jump(void *arg)
{
	sink++;
	return held(arg);
}

#define ENTRY(name) start_##name,
static void *(*const starts[])(void *) = {LIST(ENTRY) start_by_jump, start_ping};

int main(int argc, char **argv)
{
	const int n = (int)(sizeof starts / sizeof *starts) - (argc == 1);
	(void)argv;
	pthread_t id;
	pthread_barrier_init(&barrier, NULL, n + 1);
	for (int i = 0; i < n; i++)
		if (pthread_create(&id, NULL, starts[i], (void *)100L))
			abort();
	pthread_barrier_wait(&barrier);
	usleep(200 * 1000);
	abort();
}
