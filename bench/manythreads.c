/* A process with many threads and much memory, which dies of SIGABRT: what
   bench/run measures on.

   usage: manythreads THREADS MIB ZOMBIES SPAN_GIB

   THREADS   threads alive at the end, main among them
   MIB       memory that is touched, with bytes that do not compress
   ZOMBIES   threads on user stacks that have exited and were not joined; glibc
             lists them before main, so that a debugger takes one for main
   SPAN_GIB  one more mapping, of this size, with one page touched in each GiB:
             the kernel dumps the rest of it as a hole */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ends with status 2, and no core, where the machine will not play along. */
#define MUST(condition)                                                        \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, \
				#condition, strerror(errno));                  \
			exit(2);                                               \
		}                                                              \
	} while (0)

enum { STACK_BYTES = 64 * 1024 };

static __thread volatile int number; /* for debuggers: nobody reads it */

static sem_t started; /* posted by each thread that has set its number */
static sem_t never;   /* what they wait for then, in a futex */

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) != 0)
		MUST(errno == EINTR);
}

static void *live(void *n)
{
	number = (int)(intptr_t)n;
	MUST(sem_post(&started) == 0);
	wait_for(&never);
	return NULL;
}

static void *exit_at_once(void *tid)
{
	number = -1;
	*(pid_t *)tid = gettid();
	MUST(sem_post(&started) == 0);
	return NULL;
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	MUST(p != MAP_FAILED);
	return p;
}

static void start(void *(*routine)(void *), void *argument, void *user_stack)
{
	pthread_attr_t attr;
	pthread_t thread;
	MUST(pthread_attr_init(&attr) == 0);
	if (user_stack)
		MUST(pthread_attr_setstack(&attr, user_stack, STACK_BYTES) == 0);
	else
		MUST(pthread_attr_setstacksize(&attr, STACK_BYTES) == 0);
	MUST((errno = pthread_create(&thread, &attr, routine, argument)) == 0);
	MUST(pthread_attr_destroy(&attr) == 0);
}

static void make_zombie(void)
{
	pid_t tid;
	start(exit_at_once, &tid, map(STACK_BYTES));
	wait_for(&started);
	while (tgkill(getpid(), tid, 0) == 0)
		usleep(100);
	MUST(errno == ESRCH);
}

/* Fills whole pages with a xorshift sequence, which holds no zero word. */
static void touch(size_t bytes)
{
	uint64_t *p = map(bytes), x = 0x9e3779b97f4a7c15;
	for (size_t i = 0; i < bytes / sizeof *p; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = x;
	}
}

static long parse(const char *s)
{
	char *end;
	errno = 0;
	long n = strtol(s, &end, 10);
	MUST(errno == 0 && end != s && *end == '\0' && n >= 0);
	return n;
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fprintf(stderr, "usage: manythreads THREADS MIB ZOMBIES SPAN_GIB\n");
		return 2;
	}
	long threads = parse(argv[1]), mib = parse(argv[2]);
	long zombies = parse(argv[3]), span = parse(argv[4]);

	MUST(sem_init(&started, 0, 0) == 0 && sem_init(&never, 0, 0) == 0);
	number = 1;
	if (mib > 0)
		touch((size_t)mib << 20);
	if (span > 0) {
		char *p = map((size_t)span << 30);
		for (long i = 0; i < span; i++)
			p[(size_t)i << 30] = 1;
	}
	for (long i = 0; i < zombies; i++)
		make_zombie();
	for (long i = 2; i <= threads; i++)
		start(live, (void *)(intptr_t)i, NULL);
	for (long i = 2; i <= threads; i++)
		wait_for(&started);
	abort();
}
