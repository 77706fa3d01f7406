/* Threads that block, and say what they wait for. Beside its threads, truth.json
   has "waits" and the "verdict" that a reader of the core should come to. */
#ifndef WAITS_H
#define WAITS_H

/* No program needs all of these. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "witness.h"
#include <sys/wait.h>
#include <time.h>

typedef void act(void *object);

/* What a thread does: it takes one thing, publishes, and when it is told to go
   it waits for another, for good. */
struct part {
	act *first, *then;
	void *first_object, *then_object;
	sem_t go;
	bool waits_to_go; /* and will for good, unless it is told */

	/* As in truth.json; kind is NULL for a thread that waits for nothing, and
	   "any" for one that may or may not be in a wait. */
	const char *kind, *owner_state;
	void *object, *mutex;
	pid_t owner;
	bool timed;
	/* The futex word, which the kernel told. */
	unsigned long futex;
};

static struct part parts[MAX_WITNESSES]; /* in the order of witnesses */

static const char *verdict_id;
static const struct witness *verdict_threads[MAX_WITNESSES];
static int verdict_count;

static struct part *part_of(const struct witness *w) { return &parts[w - witnesses]; }

static void *play_part(void *w)
{
	struct part *p = part_of(w);
	if (p->first != NULL)
		p->first(p->first_object);
	publish(w);
	wait_for(&p->go);
	if (p->then != NULL)
		p->then(p->then_object);
	return NULL;
}

/* Starts a thread that takes an object, and waits until it has it. */
static struct witness *taker(const char *role, act *first, void *object)
{
	struct part *p = &parts[witness_count];
	p->first = first, p->first_object = object, p->waits_to_go = true;
	MUST(sem_init(&p->go, 0, 0) == 0);
	return launch(role, "running", LIBC_STACK, play_part);
}

static struct witness *bystander(const char *role) { return taker(role, NULL, NULL); }

/* The futex word on which a thread sleeps, by the kernel's account; 0 for none.
   A 32-bit process's system calls have other numbers. */
static unsigned long futex_of(pid_t process, pid_t tid)
{
	char path[64], text[512], state = 0;
	snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, tid);
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return 0;
	if (fgets(text, sizeof text, f) != NULL && strrchr(text, ')') != NULL)
		state = strrchr(text, ')')[2];
	fclose(f);
	snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", process, tid);
	f = fopen(path, "r");
	MUST(f != NULL);
	long number = -1;
	unsigned long word = 0;
	if (fscanf(f, "%ld %lx", &number, &word) != 2)
		number = -1;
	fclose(f);
#ifdef SYS_futex_time64
	if (number == SYS_futex_time64)
		number = SYS_futex;
#endif
	return state == 'S' && number == SYS_futex ? word : 0;
}

/* Waits until a thread sleeps on another futex than the one that keeps its part
   from going on. */
static void await_sleep(struct witness *w)
{
	struct part *p = part_of(w);
	unsigned long go = (unsigned long)(uintptr_t)&p->go;
	for (;;) {
		unsigned long word = futex_of(getpid(), w->tid);
		if (word != 0 && word - go >= sizeof p->go) {
			p->futex = word;
			return;
		}
		usleep(1000);
	}
}

/* Lets a thread go and do something. */
static void tell(struct witness *w, act *then, void *object)
{
	struct part *p = part_of(w);
	p->then = then, p->then_object = object;
	p->waits_to_go = false;
	MUST(sem_post(&p->go) == 0);
}

/* Lets a thread go and wait for an object. */
static void waits(struct witness *w, const char *kind, act *then, void *object)
{
	struct part *p = part_of(w);
	p->kind = kind, p->owner_state = "none", p->object = object;
	tell(w, then, object);
	await_sleep(w);
}

static struct witness *waiter(const char *role, const char *kind, act *then, void *object)
{
	struct witness *w = bystander(role);
	waits(w, kind, then, object);
	return w;
}

static void held_by(struct witness *w, const struct witness *owner, const char *state)
{
	part_of(w)->owner = owner->tid;
	part_of(w)->owner_state = state;
}

/* The object has an owner, but nothing in memory says which. */
static void held_by_somebody(struct witness *w) { part_of(w)->owner_state = "unknown"; }

static struct witness *timed(struct witness *w)
{
	part_of(w)->timed = true;
	return w;
}

static void concerns(const struct witness *w) { verdict_threads[verdict_count++] = w; }

static struct timespec in_an_hour(clockid_t clock)
{
	struct timespec t;
	MUST(clock_gettime(clock, &t) == 0);
	t.tv_sec += 3600;
	return t;
}

/* -- what threads take and wait for -- */

static void lock(void *m) { MUST((errno = pthread_mutex_lock(m)) == 0); }

static void lock_timed(void *m)
{
	struct timespec t = in_an_hour(CLOCK_REALTIME);
	MUST((errno = pthread_mutex_timedlock(m, &t)) == 0);
}

static void read_lock(void *l) { MUST((errno = pthread_rwlock_rdlock(l)) == 0); }
static void write_lock(void *l) { MUST((errno = pthread_rwlock_wrlock(l)) == 0); }
static void wait_sem(void *s) { wait_for(s); }
static void join(void *thread) { MUST((errno = pthread_join(*(pthread_t *)thread, NULL)) == 0); }
static void lock_file(void *f) { flockfile(f); }

/* A condition variable and its mutex. */
struct condition {
	pthread_cond_t cond;
	pthread_mutex_t mutex;
};

static void wait_cond(void *condition)
{
	struct condition *c = condition;
	lock(&c->mutex);
	for (;;)
		MUST((errno = pthread_cond_wait(&c->cond, &c->mutex)) == 0);
}

static struct witness *cond_waiter(const char *role, act *then, struct condition *c)
{
	struct witness *w = waiter(role, "cond", then, c);
	part_of(w)->mutex = &c->mutex;
	return w;
}

/* -- the truth about it -- */

static void write_address(int fd, const char *name, const void *p)
{
	if (p == NULL)
		dprintf(fd, "\"%s\":null,", name);
	else
		dprintf(fd, "\"%s\":\"%#lx\",", name, ADDRESS(p));
}

static void write_waits(int fd)
{
	const char *comma = "";
	dprintf(fd, "\n \"waits\":[");
	for (int i = 0; i < witness_count; i++) {
		struct part *p = &parts[i];
		if (p->waits_to_go && strcmp(witnesses[i].state, "running") == 0) {
			p->kind = "sem", p->object = &p->go, p->owner_state = "none";
			while ((p->futex = futex_of(getpid(), witnesses[i].tid)) == 0)
				usleep(1000);
		}
		if (p->kind == NULL || strcmp(witnesses[i].state, "running") != 0)
			continue;
		dprintf(fd, "%s\n  {\"tid\":%d,\"kind\":\"%s\",", comma, witnesses[i].tid, p->kind), comma = ",";
		write_address(fd, "object", p->object);
		write_address(fd, "mutex", p->mutex);
		dprintf(fd, "\"owner_tid\":%d,\"owner_state\":\"%s\",\"timed\":%s,\"futex\":\"%#lx\"}",
			p->owner, p->owner_state, p->timed ? "true" : "false", p->futex);
	}
	dprintf(fd, "],\n \"verdict\":");
	if (verdict_id == NULL) {
		dprintf(fd, "null,");
		return;
	}
	dprintf(fd, "{\"id\":\"%s\",\"tids\":[", verdict_id);
	comma = "";
	for (int i = 0; i < verdict_count; i++)
		dprintf(fd, "%s%d", comma, verdict_threads[i]->tid), comma = ",";
	dprintf(fd, "]},");
}

static int play_waits(int argc, char **argv, const struct scenario *scenarios, size_t count)
{
	more_truth = write_waits;
	return play(argc, argv, scenarios, count);
}

#endif
