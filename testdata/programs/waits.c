/* Threads that wait for every kind of object of the C library, for nobody's
   fault: main holds what they want, or nobody has done yet what they wait for. */
#include "waits.h"
#include <stdatomic.h>

static struct witness *const initial = &witnesses[0]; /* main */

/* -- mutexes -- */

static void make_mutex(pthread_mutex_t *m, int type, int protocol, int robust, int shared)
{
	pthread_mutexattr_t a;
	MUST(pthread_mutexattr_init(&a) == 0);
	MUST(pthread_mutexattr_settype(&a, type) == 0);
	MUST(pthread_mutexattr_setprotocol(&a, protocol) == 0);
	MUST(pthread_mutexattr_setrobust(&a, robust) == 0);
	MUST(pthread_mutexattr_setpshared(&a, shared) == 0);
	MUST((errno = pthread_mutex_init(m, &a)) == 0);
}

static struct witness *contend(const char *role, const char *kind, act *how, pthread_mutex_t *m)
{
	lock(m);
	struct witness *w = waiter(role, kind, how, m);
	held_by(w, initial, "live");
	return w;
}

static void mutexes(void)
{
	static pthread_mutex_t m[8];
	make_mutex(&m[0], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[1], PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[2], PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[3], PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[4], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_SHARED);
	make_mutex(&m[5], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[6], PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[7], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED);
	contend("normal", "mutex", lock, &m[0]);
	contend("recursive", "mutex", lock, &m[1]);
	lock(&m[1]); /* twice */
	contend("errorcheck", "mutex", lock, &m[2]);
	contend("adaptive", "mutex", lock, &m[3]);
	contend("shared", "mutex", lock, &m[4]);
	contend("robust", "robust-mutex", lock, &m[5]);
	contend("pi", "pi-mutex", lock, &m[6]);
	held_by(waiter("pi-second", "pi-mutex", lock, &m[6]), initial, "live");
	contend("robust-pi", "robust-mutex", lock, &m[7]);
	testify(0);
}

/* A priority ceiling is for threads with a real-time priority, which takes a
   right (ulimit -r). New threads inherit main's. */
static void ceiling(void)
{
	struct sched_param low = {.sched_priority = 5};
	MUST(sched_setscheduler(0, SCHED_FIFO, &low) == 0);
	static pthread_mutex_t m;
	pthread_mutexattr_t a;
	MUST(pthread_mutexattr_init(&a) == 0);
	MUST(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_PROTECT) == 0);
	MUST(pthread_mutexattr_setprioceiling(&a, 10) == 0);
	MUST((errno = pthread_mutex_init(&m, &a)) == 0);
	contend("protected", "mutex", lock, &m);
	testify(0);
}

static void lock_monotonic(void *m)
{
	struct timespec t = in_an_hour(CLOCK_MONOTONIC);
	MUST((errno = pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t)) == 0);
}

static void mutexes_timed(void)
{
	static pthread_mutex_t m[5];
	make_mutex(&m[0], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[1], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[2], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[3], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
	make_mutex(&m[4], PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_PRIVATE);
	timed(contend("normal", "mutex", lock_timed, &m[0]));
	timed(contend("normal-monotonic", "mutex", lock_monotonic, &m[1]));
	timed(contend("pi", "pi-mutex", lock_timed, &m[2]));
	timed(contend("pi-monotonic", "pi-mutex", lock_monotonic, &m[3]));
	timed(contend("robust", "robust-mutex", lock_timed, &m[4]));
	testify(0);
}

/* Mutexes whose waiters gave up: their words still say that somebody waits. */
static void *give_up(void *w)
{
	struct timespec soon;
	MUST(clock_gettime(CLOCK_REALTIME, &soon) == 0);
	soon.tv_sec++;
	MUST(pthread_mutex_timedlock(part_of(w)->then_object, &soon) == ETIMEDOUT);
	publish(w);
	rest();
}

static void gave_up(void)
{
	static pthread_mutex_t m[3];
	static const int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT, PTHREAD_PRIO_NONE};
	for (int i = 0; i < 3; i++) {
		make_mutex(&m[i], PTHREAD_MUTEX_NORMAL, protocols[i], i == 2 ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
		lock(&m[i]);
		parts[witness_count].then_object = &m[i];
		launch("impatient", "running", LIBC_STACK, give_up);
	}
	testify(0);
}

/* -- condition variables -- */

static void wait_cond_until(void *condition, clockid_t clock)
{
	struct condition *c = condition;
	struct timespec t = in_an_hour(clock);
	lock(&c->mutex);
	MUST((errno = pthread_cond_timedwait(&c->cond, &c->mutex, &t)) == 0);
}

static void wait_cond_realtime(void *c) { wait_cond_until(c, CLOCK_REALTIME); }
static void wait_cond_monotonic(void *c) { wait_cond_until(c, CLOCK_MONOTONIC); }

static void make_condition(struct condition *c, int shared, clockid_t clock)
{
	pthread_condattr_t a;
	MUST(pthread_condattr_init(&a) == 0);
	MUST(pthread_condattr_setpshared(&a, shared) == 0);
	MUST(pthread_condattr_setclock(&a, clock) == 0);
	MUST(pthread_cond_init(&c->cond, &a) == 0);
	make_mutex(&c->mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, shared);
}

static void conds(void)
{
	static struct condition plain, shared, monotonic;
	make_condition(&plain, PTHREAD_PROCESS_PRIVATE, CLOCK_REALTIME);
	make_condition(&shared, PTHREAD_PROCESS_SHARED, CLOCK_REALTIME);
	make_condition(&monotonic, PTHREAD_PROCESS_PRIVATE, CLOCK_MONOTONIC);
	cond_waiter("plain-0", wait_cond, &plain);
	cond_waiter("plain-1", wait_cond, &plain);
	timed(cond_waiter("plain-timed", wait_cond_realtime, &plain));
	cond_waiter("shared", wait_cond, &shared);
	timed(cond_waiter("monotonic", wait_cond_monotonic, &monotonic));
	testify(0);
}

/* A signal makes the condition variable begin a new group of waiters; those of
   the old one that were not woken sleep on another word. */
static atomic_int wakes;

static void wait_cond_counted(void *condition)
{
	struct condition *c = condition;
	lock(&c->mutex);
	MUST((errno = pthread_cond_wait(&c->cond, &c->mutex)) == 0);
	MUST(pthread_mutex_unlock(&c->mutex) == 0);
	wakes++;
	rest();
}

static void cond_groups(void)
{
	static struct condition c = {PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
	struct witness *old[3];
	for (int i = 0; i < 3; i++)
		old[i] = cond_waiter("old", wait_cond_counted, &c);
	MUST(pthread_cond_signal(&c.cond) == 0);
	while (wakes == 0)
		usleep(1000);
	usleep(50000);
	for (int i = 0; i < 3; i++) /* which of them it was, is the kernel's choice */
		if (futex_of(getpid(), old[i]->tid) == 0)
			part_of(old[i])->kind = NULL;
	cond_waiter("new-0", wait_cond, &c);
	cond_waiter("new-1", wait_cond, &c);
	testify(0);
}

/* A thread that was signalled waits for the mutex, inside pthread_cond_wait. */
static void cond_again(void)
{
	static struct condition c = {PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
	struct witness *w = cond_waiter("signalled", wait_cond, &c);
	lock(&c.mutex);
	unsigned long before = part_of(w)->futex;
	MUST(pthread_cond_signal(&c.cond) == 0);
	do {
		await_sleep(w);
	} while (part_of(w)->futex == before);
	struct part *p = part_of(w);
	p->kind = "mutex", p->object = &c.mutex, p->mutex = NULL;
	held_by(w, initial, "live");
	testify(0);
}

/* -- the others -- */

static void rwlocks(void)
{
	static pthread_rwlock_t written, read, preferred;
	pthread_rwlockattr_t a;
	MUST(pthread_rwlockattr_init(&a) == 0);
	MUST(pthread_rwlock_init(&written, &a) == 0);
	MUST(pthread_rwlock_init(&read, &a) == 0);
	MUST(pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
	MUST(pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED) == 0);
	MUST(pthread_rwlock_init(&preferred, &a) == 0);
	write_lock(&written);
	held_by(waiter("reader-behind-writer", "rwlock-read", read_lock, &written), initial, "live");
	held_by(waiter("writer-behind-writer", "rwlock-write", write_lock, &written), initial, "live");
	read_lock(&read);
	held_by_somebody(waiter("writer-behind-reader", "rwlock-write", write_lock, &read));
	held_by_somebody(waiter("second-writer", "rwlock-write", write_lock, &read));
	read_lock(&preferred);
	held_by_somebody(waiter("preferred-writer", "rwlock-write", write_lock, &preferred));
	held_by_somebody(waiter("reader-behind-preferred", "rwlock-read", read_lock, &preferred));
	testify(0);
}

static void wait_sem_timed(void *s)
{
	struct timespec t = in_an_hour(CLOCK_REALTIME);
	MUST(sem_timedwait(s, &t) == 0);
}

static void sems(void)
{
	static sem_t plain, shared;
	MUST(sem_init(&plain, 0, 0) == 0 && sem_init(&shared, 1, 0) == 0);
	waiter("plain-0", "sem", wait_sem, &plain);
	waiter("plain-1", "sem", wait_sem, &plain);
	timed(waiter("plain-timed", "sem", wait_sem_timed, &plain));
	waiter("shared", "sem", wait_sem, &shared);
	testify(0);
}

static void arrive(void *b) { pthread_barrier_wait(b); }

static void barriers(void)
{
	static pthread_barrier_t fresh, used;
	MUST(pthread_barrier_init(&fresh, NULL, 3) == 0);
	waiter("first", "barrier", arrive, &fresh);
	waiter("second", "barrier", arrive, &fresh);
	MUST(pthread_barrier_init(&used, NULL, 1) == 0);
	for (int i = 0; i < 7; i++)
		arrive(&used);
	MUST(pthread_barrier_destroy(&used) == 0);
	MUST(pthread_barrier_init(&used, NULL, 2) == 0);
	waiter("alone", "barrier", arrive, &used);
	testify(0);
}

static pthread_once_t control = PTHREAD_ONCE_INIT;
static sem_t in_routine;

static void rest_in_routine(void)
{
	MUST(sem_post(&in_routine) == 0);
	rest();
}

static void run_once(void *o) { MUST(pthread_once(o, rest_in_routine) == 0); }

static void once(void)
{
	MUST(sem_init(&in_routine, 0, 0) == 0);
	struct witness *runs = bystander("runs-it");
	tell(runs, run_once, &control);
	wait_for(&in_routine);
	held_by(waiter("waits-0", "once", run_once, &control), runs, "live");
	held_by(waiter("waits-1", "once", run_once, &control), runs, "live");
	testify(0);
}

static void join_timed(void *thread)
{
	struct timespec t = in_an_hour(CLOCK_REALTIME);
	MUST((errno = pthread_timedjoin_np(*(pthread_t *)thread, NULL, &t)) == 0);
}

static struct witness *joins(const char *role, act *how, struct witness *target)
{
	struct witness *w = waiter(role, "join", how, &target->self);
	part_of(w)->object = (void *)target->self;
	held_by(w, target, "live");
	return w;
}

static void join_chain(void)
{
	struct witness *last = worker("last", LIBC_STACK);
	struct witness *middle = joins("middle", join, last);
	joins("first", join, middle);
	timed(joins("timed", join_timed, worker("other", USER_STACK)));
	testify(0);
}

/* main is in pthread_join, and another thread dies. */
static void *die_when_main_sleeps(void *w)
{
	publish(w);
	while (futex_of(getpid(), getpid()) == 0 || futex_of(getpid(), getpid()) != parts[0].futex)
		parts[0].futex = futex_of(getpid(), getpid());
	testify(0);
}

static void main_joins(void)
{
	struct witness *target = worker("worker", LIBC_STACK);
	parts[0] = (struct part){.kind = "join", .object = (void *)target->self, .owner = target->tid, .owner_state = "live"};
	launch("crasher", "running", LIBC_STACK, die_when_main_sleeps);
	join(&target->self);
}

/* The lock of a FILE is behind it, where only libc knows; the kernel tells. */
static void file_locks(void)
{
	FILE *f = tmpfile();
	MUST(f != NULL);
	struct witness *holds = taker("holds", lock_file, f);
	struct witness *w = waiter("waits", "file-lock", lock_file, f);
	part_of(w)->object = (void *)(uintptr_t)part_of(w)->futex;
	held_by(w, holds, "live");
	testify(0);
}

static const struct scenario scenarios[] = {
	{"mutexes", "mutexes of every kind, held by main", mutexes},
	{"ceiling", "a mutex with a priority ceiling, held by main", ceiling},
	{"mutexes-timed", "mutexes, waited for with a time-out", mutexes_timed},
	{"gave-up", "mutexes whose waiters gave up", gave_up},
	{"conds", "condition variables, shared, timed and plain", conds},
	{"cond-groups", "a condition variable with waiters in both groups", cond_groups},
	{"cond-again", "a thread that was signalled and takes the mutex again", cond_again},
	{"rwlocks", "readers and writers behind readers and writers", rwlocks},
	{"sems", "semaphores, shared, timed and plain", sems},
	{"barriers", "barriers at which threads are missing", barriers},
	{"once", "pthread_once, whose routine runs in another thread", once},
	{"joins", "a chain of pthread_join, and a timed one", join_chain},
	{"main-joins", "main in pthread_join", main_joins},
	{"file-locks", "the lock of a FILE", file_locks},
};

int main(int argc, char **argv)
{
	return play_waits(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
