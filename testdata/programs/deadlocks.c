/* Threads that wait for each other, for themselves, or for threads that are
   gone. */
#include "waits.h"
#include <signal.h>
#include <stdatomic.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER, c = PTHREAD_MUTEX_INITIALIZER;

/* w wants what other holds. */
static void wants(struct witness *w, const char *kind, act *how, void *object, struct witness *other)
{
	waits(w, kind, how, object);
	held_by(w, other, "live");
}

static struct witness *want_too(const char *role, const char *kind, act *how, void *object, struct witness *owner)
{
	struct witness *w = bystander(role);
	wants(w, kind, how, object, owner);
	return w;
}

static void cycle_of(struct witness *x, struct witness *y)
{
	verdict_id = "deadlock-cycle";
	concerns(x), concerns(y);
}

static void two(void)
{
	struct witness *x = taker("x", lock, &a), *y = taker("y", lock, &b);
	wants(x, "mutex", lock, &b, y);
	wants(y, "mutex", lock, &a, x);
	want_too("behind", "mutex", lock, &a, x);
	cycle_of(x, y);
	testify(0);
}

static void two_timed(void)
{
	struct witness *x = taker("x", lock, &a), *y = taker("y", lock, &b);
	wants(timed(x), "mutex", lock_timed, &b, y);
	wants(y, "mutex", lock, &a, x);
	cycle_of(x, y);
	testify(0);
}

static void ring(void)
{
	struct witness *x = taker("x", lock, &a), *y = taker("y", lock, &b), *z = taker("z", lock, &c);
	wants(x, "mutex", lock, &b, y);
	wants(y, "mutex", lock, &c, z);
	wants(z, "mutex", lock, &a, x);
	cycle_of(x, y);
	concerns(z);
	testify(0);
}

static void self(void)
{
	struct witness *x = taker("x", lock, &a);
	wants(x, "mutex", lock, &a, x);
	verdict_id = "self-deadlock";
	concerns(x);
	testify(0);
}

static void rwlock_cycle(void)
{
	static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	struct witness *x = taker("holds", write_lock, &l), *y = taker("y", lock, &a);
	wants(x, "mutex", lock, &a, y);
	wants(y, "rwlock-read", read_lock, &l, x);
	cycle_of(x, y);
	testify(0);
}

static void join_cycle(void)
{
	struct witness *x = taker("x", lock, &a), *y = bystander("y");
	wants(y, "mutex", lock, &a, x);
	wants(x, "join", join, &y->self, y);
	part_of(x)->object = (void *)y->self;
	cycle_of(x, y);
	testify(0);
}

static pthread_once_t control = PTHREAD_ONCE_INIT;
static void lock_a(void) { lock(&a); }
static void run_once(void *o) { MUST(pthread_once(o, lock_a) == 0); }

static void once_cycle(void)
{
	struct witness *x = taker("x", lock, &a), *y = bystander("y");
	wants(y, "mutex", run_once, &control, x);
	part_of(y)->object = &a;
	wants(x, "once", run_once, &control, y);
	cycle_of(x, y);
	testify(0);
}

static void file_cycle(void)
{
	FILE *f = tmpfile();
	MUST(f != NULL);
	struct witness *x = taker("x", lock_file, f), *y = taker("y", lock, &a);
	wants(x, "mutex", lock, &a, y);
	wants(y, "file-lock", lock_file, f, x);
	part_of(y)->object = (void *)(uintptr_t)part_of(y)->futex;
	cycle_of(x, y);
	testify(0);
}

/* -- owners that are gone -- */

static void *leave_locked(void *w)
{
	lock(&a);
	publish(w);
	return NULL;
}

static void owner_exited(void)
{
	struct witness *gone = launch("gone", "zombie", LIBC_STACK, leave_locked);
	await_exit(gone);
	struct witness *x = waiter("x", "mutex", lock, &a), *y = waiter("y", "mutex", lock, &a);
	held_by(x, gone, "zombie"), held_by(y, gone, "zombie");
	verdict_id = "owner-exited";
	concerns(x), concerns(y);
	testify(0);
}

/* The child's only thread waits for a thread that fork did not copy. The parent
   ends it once it sleeps. */
static void fork_child(void)
{
	struct witness *holds = taker("holds", lock, &a);
	bystander("worker");
	pid_t child = fork();
	MUST(child >= 0);
	if (child != 0) {
		while (futex_of(child, child) != (uintptr_t)&a)
			usleep(1000);
		MUST(kill(child, SIGABRT) == 0);
		int status;
		MUST(waitpid(child, &status, 0) == child);
		exit(0);
	}
	for (struct witness *w = witnesses + 1; w < witnesses + witness_count; w++)
		w->state = "parent-only";
	witnesses[0].tid = getpid();
	parts[0] = (struct part){.kind = "mutex", .object = &a, .futex = (uintptr_t)&a};
	held_by(&witnesses[0], holds, "parent");
	verdict_id = "owner-in-parent";
	concerns(&witnesses[0]);
	write_truth(getpid(), 0);
	lock(&a);
}

/* -- a signal handler that allocates -- */

enum { SIZE = 4000 }; /* more than the thread's own cache keeps */

static atomic_bool allocates;

static void allocate(int signal)
{
	(void)signal;
	void *volatile p = malloc(SIZE);
	free(p);
}

static void allocate_for_ever(void *unused)
{
	(void)unused;
	void *volatile p;
	allocates = true;
	for (;;) {
		p = malloc(SIZE);
		free(p);
	}
}

static void in_malloc(void)
{
	struct sigaction s = {.sa_handler = allocate};
	MUST(sigaction(SIGUSR1, &s, NULL) == 0);
	struct witness *x = bystander("x");
	struct part *p = part_of(x);
	p->kind = "malloc-arena";
	tell(x, allocate_for_ever, NULL);
	while (!allocates)
		usleep(1000);
	/* The signal must strike while malloc holds its lock. */
	while ((p->futex = futex_of(getpid(), x->tid)) == 0) {
		MUST(syscall(SYS_tgkill, getpid(), x->tid, SIGUSR1) == 0);
		usleep(200);
	}
	await_sleep(x);
	p->object = (void *)(uintptr_t)p->futex;
	held_by_somebody(x);
	verdict_id = "self-deadlock";
	concerns(x);
	testify(0);
}

/* -- a condition variable that is destroyed while threads wait on it -- */

static void destroy(void *c) { pthread_cond_destroy(c); }

static void destroy_in_use(void)
{
	static struct condition in_use = {PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
	struct witness *x = cond_waiter("x", wait_cond, &in_use), *y = cond_waiter("y", wait_cond, &in_use);
	struct witness *destroyer = waiter("destroyer", "cond-destroy", destroy, &in_use.cond);
	verdict_id = "cond-destroy-in-use";
	concerns(destroyer), concerns(x), concerns(y);
	testify(0);
}

static const struct scenario scenarios[] = {
	{"deadlock", "two threads, two mutexes", two},
	{"deadlock-timed", "two threads, two mutexes, one wait with a time-out", two_timed},
	{"ring", "three threads, three mutexes", ring},
	{"self", "a mutex taken twice", self},
	{"rwlock-cycle", "the writer of a rwlock and the holder of a mutex", rwlock_cycle},
	{"join-cycle", "a thread joins another that wants its mutex", join_cycle},
	{"once-cycle", "a routine of pthread_once wants the mutex of a thread that waits for it", once_cycle},
	{"file-cycle", "a FILE and a mutex", file_cycle},
	{"owner-exited", "the owner of a mutex has exited", owner_exited},
	{"owner-in-parent", "in the child of a fork, a mutex of a thread of the parent", fork_child},
	{"malloc-in-handler", "a signal handler allocates while its thread does", in_malloc},
	{"destroy-in-use", "a condition variable is destroyed while two threads wait on it", destroy_in_use},
};

int main(int argc, char **argv)
{
	return play_waits(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
