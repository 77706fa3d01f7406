/* What the programs here share: thread-local variables by which a thread is
   known, and truth.json, in which the process says what it was before it dies.

   A program plays one scenario: it makes its threads, each of which publishes
   what it knows of itself, and ends in testify(). Nothing here reads glibc's
   private structures; a thread is what it says it is. */
#ifndef WITNESS_H
#define WITNESS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

/* Ends with status 2, and no core, where the machine will not play along. */
#define MUST(condition)                                                        \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, \
				#condition, strerror(errno));                  \
			exit(2);                                               \
		}                                                              \
	} while (0)

/* The variables that a debugger gets wrong. */
__thread int tls_int;
__thread uint64_t tls_u64;
__thread const char *tls_str;

enum {
	MAX_WITNESSES = 128,
	/* Small stacks make small cores; some have PTHREAD_STACK_MIN that large. */
#if defined __aarch64__ || defined __powerpc64__
	STACK_BYTES = 128 * 1024,
#else
	STACK_BYTES = 64 * 1024,
#endif
};

enum stack { LIBC_STACK, USER_STACK };

/* A thread, in its own words. */
struct witness {
	char role[24];
	const char *state; /* as in truth.json; NULL: its descriptor was reused */
	enum stack stack;
	void *user_stack;
	pthread_t self;
	pid_t tid;
	int *int_address, int_value;
	uint64_t *u64_address, u64_value;
	const char **str_address, *str_value;
	sem_t published;
	bool spoke;
};

static struct witness witnesses[MAX_WITNESSES];
static int witness_count;

struct scenario {
	const char *name, *notes;
	void (*play)(void);
};

static const struct scenario *scenario;

/* Whether to stay alive at the end, for a debugger to dump the process. */
static bool stay;

/* Writes what else a program has to say into truth.json, where it is set. */
static void (*more_truth)(int fd);

static struct witness *enrol(const char *role, const char *state, enum stack stack)
{
	MUST(witness_count < MAX_WITNESSES);
	struct witness *w = &witnesses[witness_count++];
	MUST(snprintf(w->role, sizeof w->role, "%s", role) < (int)sizeof w->role);
	w->state = state;
	w->stack = stack;
	MUST(sem_init(&w->published, 0, 0) == 0);
	return w;
}

/* Called by the thread itself: fills its thread-locals and publishes them. */
static void publish(struct witness *w)
{
	w->tid = gettid();
	w->self = pthread_self();
	tls_int = 1000 + (int)(w - witnesses);
	tls_u64 = UINT64_C(0xc0de) << 48 | (uint64_t)w->tid;
	tls_str = w->role;
	w->int_address = &tls_int, w->int_value = tls_int;
	w->u64_address = &tls_u64, w->u64_value = tls_u64;
	w->str_address = &tls_str, w->str_value = tls_str;
	w->spoke = true;
	MUST(sem_post(&w->published) == 0);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) != 0)
		MUST(errno == EINTR);
}

/* Makes the thread's attributes; a user stack is kept in the witness. */
static pthread_attr_t attributes(struct witness *w)
{
	pthread_attr_t attr;
	MUST(pthread_attr_init(&attr) == 0);
	if (w->stack == USER_STACK) {
		w->user_stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST(w->user_stack != MAP_FAILED);
		MUST(pthread_attr_setstack(&attr, w->user_stack, STACK_BYTES) == 0);
	} else {
		MUST(pthread_attr_setstacksize(&attr, STACK_BYTES) == 0);
	}
	return attr;
}

/* Starts a thread, whose body must publish its argument, and waits until it
   has. Threads started in turn are thus in libc's lists in that order. */
static struct witness *launch(const char *role, const char *state, enum stack stack,
			      void *(*body)(void *))
{
	struct witness *w = enrol(role, state, stack);
	pthread_attr_t attr = attributes(w);
	pthread_t thread;
	MUST((errno = pthread_create(&thread, &attr, body, w)) == 0);
	wait_for(&w->published);
	for (struct witness *old = witnesses; old < w; old++)
		if (pthread_equal(old->self, w->self))
			old->state = NULL;
	return w;
}

/* Waits until the kernel has let go of a thread: it clears the thread's id in
   memory before it frees the id. */
static void await_exit(const struct witness *w)
{
	while (syscall(SYS_tgkill, getpid(), w->tid, 0) == 0)
		sched_yield();
	MUST(errno == ESRCH);
}

_Noreturn static void rest(void)
{
	for (;;)
		pause();
}

static void *live(void *w)
{
	publish(w);
	rest();
}

static void *leave(void *w)
{
	publish(w);
	return NULL;
}

static struct witness *worker(const char *role, enum stack stack)
{
	return launch(role, "running", stack, live);
}

/* A thread that exited and that nobody joins. */
static struct witness *zombie(const char *role, enum stack stack)
{
	struct witness *w = launch(role, "zombie", stack, leave);
	await_exit(w);
	return w;
}

static const char *architecture(void)
{
#if defined __x86_64__ && defined __ILP32__
	return "x32";
#elif defined __x86_64__
	return "x86_64";
#elif defined __i386__
	return "i386";
#elif defined __aarch64__
	return "aarch64";
#elif defined __arm__
	return "armhf";
#elif defined __riscv && __riscv_xlen == 64
	return "riscv64";
#elif defined __powerpc64__ && defined __LITTLE_ENDIAN__
	return "ppc64le";
#elif defined __s390x__
	return "s390x";
#else
#error "say here what this architecture is called"
#endif
}

/* musl does not tell its version. */
static const char *libc_name(void)
{
#ifdef __GLIBC__
	static char name[32];
	snprintf(name, sizeof name, "glibc %s", gnu_get_libc_version());
	return name;
#else
	return "musl";
#endif
}

#define ADDRESS(p) (unsigned long)(uintptr_t)(p)

static void write_witness(int fd, const struct witness *w)
{
	dprintf(fd, "\n  {\"role\":\"%s\",\"tid\":%d,\"pthread\":\"%#lx\",\"state\":\"%s\",\"user_stack\":%s,\"tls\":{",
		w->role, w->tid, ADDRESS(w->self), w->state, w->stack == USER_STACK ? "true" : "false");
	if (w->spoke) {
		dprintf(fd, "\"tls_int\":{\"addr\":\"%#lx\",\"kind\":\"int\",\"size\":%zu,\"value\":%d},",
			ADDRESS(w->int_address), sizeof tls_int, w->int_value);
		dprintf(fd, "\"tls_u64\":{\"addr\":\"%#lx\",\"kind\":\"u64\",\"size\":%zu,\"value\":\"%#llx\"},",
			ADDRESS(w->u64_address), sizeof tls_u64, (unsigned long long)w->u64_value);
		dprintf(fd, "\"tls_str\":{\"addr\":\"%#lx\",\"kind\":\"cstr\",\"size\":%zu,\"ptr\":\"%#lx\",\"value\":\"%s\"}",
			ADDRESS(w->str_address), sizeof tls_str, ADDRESS(w->str_value), w->str_value);
	}
	dprintf(fd, "}}");
}

/* dprintf, because stdio's buffers and a thread's malloc arena would grow the
   core. A thread id of 0 is written as null. */
static void write_truth(pid_t crash_tid, pid_t shadowed)
{
	char crash[16] = "null", shadow[16] = "null";
	if (crash_tid != 0)
		snprintf(crash, sizeof crash, "%d", crash_tid);
	if (shadowed != 0)
		snprintf(shadow, sizeof shadow, "%d", shadowed);
	int fd = open("truth.json", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	MUST(fd >= 0);
	dprintf(fd, "{\"scenario\":\"%s\",\"arch\":\"%s\",\"libc\":\"%s\",\"pid\":%d,\"crash_tid\":%s,\n \"threads\":[",
		scenario->name, architecture(), libc_name(), getpid(), crash);
	const char *comma = "";
	for (struct witness *w = witnesses; w < witnesses + witness_count; w++) {
		if (w->state == NULL)
			continue;
		dprintf(fd, "%s", comma), comma = ",";
		write_witness(fd, w);
	}
	dprintf(fd, "],\n \"zombies\":[");
	comma = "";
	for (struct witness *w = witnesses; w < witnesses + witness_count; w++) {
		if (w->state == NULL || strcmp(w->state, "zombie") != 0)
			continue;
		dprintf(fd, "%s\"%#lx\"", comma, ADDRESS(w->self)), comma = ",";
	}
	dprintf(fd, "],");
	if (more_truth != NULL)
		more_truth(fd);
	MUST(dprintf(fd, "\n \"shadowed_lwp\":%s,\n \"notes\":\"%s\"}\n", shadow, scenario->notes) > 0);
	MUST(close(fd) == 0);
}

/* The end of every scenario. shadowed is the thread, if any, whose id
   libthread_db gives first to the handle of another: an id of 0 in a handle
   becomes the pid, stack_user comes before stack_used, and in each the newest
   thread comes first. */
_Noreturn static void testify(pid_t shadowed)
{
	if (stay) {
		write_truth(0, shadowed);
		MUST(write(STDOUT_FILENO, "ready\n", 6) == 6);
		rest();
	}
	write_truth(gettid(), shadowed);
	abort();
}

/* main() of every program: SCENARIO [stay]. */
static int play(int argc, char **argv, const struct scenario *scenarios, size_t count)
{
	stay = argc == 3 && strcmp(argv[2], "stay") == 0;
	for (const struct scenario *s = scenarios; s < scenarios + count; s++) {
		if (argc < 2 || strcmp(argv[1], s->name) != 0 || (argc > 2 && !stay))
			continue;
		scenario = s;
		/* libc lists the initial thread with those on user stacks. */
		publish(enrol("main", "running", USER_STACK));
		s->play();
		return 0;
	}
	fprintf(stderr, "usage: %s SCENARIO [stay]\n", argv[0]);
	for (const struct scenario *s = scenarios; s < scenarios + count; s++)
		fprintf(stderr, "  %-22s %s\n", s->name, s->notes);
	return 2;
}

#endif
