/* Synchronisation objects in states that no sound program gets them into, and,
   for comparison, sound ones that look alike. That the first word of a PI or
   robust mutex is its owner's id with flags is the kernel's ABI (futex(2)). */
#include "waits.h"
#include <dlfcn.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>

static struct witness *const initial = &witnesses[0]; /* main */
static pthread_mutex_t mutex;

static void make_mutex(int protocol, int robust)
{
	pthread_mutexattr_t a;
	MUST(pthread_mutexattr_init(&a) == 0);
	MUST(pthread_mutexattr_setprotocol(&a, protocol) == 0);
	MUST(pthread_mutexattr_setrobust(&a, robust) == 0);
	MUST((errno = pthread_mutex_init(&mutex, &a)) == 0);
}

static _Atomic uint32_t *word_of(pthread_mutex_t *m) { return (_Atomic uint32_t *)m; }

/* -- priority inheritance: the word -- */

static void contended_pi(void)
{
	make_mutex(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	lock(&mutex);
	for (int i = 0; i < 2; i++) {
		struct witness *w = waiter("waiter", "pi-mutex", lock, &mutex);
		held_by(w, initial, "live");
		concerns(w);
	}
}

static void waiters_bit(void)
{
	contended_pi();
	atomic_fetch_and(word_of(&mutex), ~FUTEX_WAITERS);
	verdict_id = "pi-waiters-bit";
	testify(0);
}

static void zeroed(void)
{
	contended_pi();
	atomic_store(word_of(&mutex), 0);
	verdict_id = "pi-word-overwritten";
	testify(0);
}

static void overwritten(void)
{
	contended_pi();
	struct witness *other = worker("other", LIBC_STACK);
	atomic_store(word_of(&mutex), FUTEX_WAITERS | other->tid);
	for (struct witness *w = witnesses; w < witnesses + witness_count; w++)
		if (part_of(w)->kind != NULL)
			held_by(w, other, "live");
	verdict_id = "pi-word-overwritten";
	testify(0);
}

/* -- owners that died -- */

static void *leave_locked(void *w)
{
	lock(&mutex);
	publish(w);
	return NULL;
}

static sem_t may_leave;

static void *leave_locked_when_told(void *w)
{
	lock(&mutex);
	publish(w);
	wait_for(&may_leave);
	return NULL;
}

/* A thread that comes later sleeps for good, on a word that only libc knows. */
static void pi_died_before(void)
{
	make_mutex(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	struct witness *gone = launch("gone", "zombie", LIBC_STACK, leave_locked);
	await_exit(gone);
	struct witness *w = waiter("waiter", "pi-mutex", lock, &mutex);
	held_by(w, gone, "zombie");
	verdict_id = "pi-owner-died";
	concerns(w);
	testify(0);
}

/* A thread that waits already is handed the mutex, and libc aborts. */
static void pi_died_while(void)
{
	make_mutex(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	MUST(sem_init(&may_leave, 0, 0) == 0);
	struct witness *owner = launch("gone", "zombie", LIBC_STACK, leave_locked_when_told);
	struct witness *w = waiter("waiter", "pi-mutex", lock, &mutex);
	verdict_id = "pi-owner-died";
	concerns(w);
	part_of(w)->kind = NULL; /* it will not wait when it dies */
	write_truth(w->tid, 0);
	MUST(sem_post(&may_leave) == 0);
	await_exit(owner);
	rest();
}

/* The owner wants it again: no deadlock for the kernel, but one for libc. */
static void pi_self(void)
{
	make_mutex(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	struct witness *w = taker("x", lock, &mutex);
	waits(w, "pi-mutex", lock, &mutex);
	held_by(w, w, "live");
	verdict_id = "self-deadlock";
	concerns(w);
	testify(0);
}

static void lock_of_dead(void *m) { MUST(pthread_mutex_lock(m) == EOWNERDEAD); }

static void robust_died(void)
{
	make_mutex(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
	await_exit(launch("gone", "zombie", LIBC_STACK, leave_locked));
	struct witness *w = taker("heir", lock_of_dead, &mutex);
	verdict_id = "robust-owner-died";
	concerns(w);
	testify(0);
}

static void robust_mended(void)
{
	make_mutex(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
	await_exit(launch("gone", "zombie", LIBC_STACK, leave_locked));
	lock_of_dead(&mutex);
	MUST(pthread_mutex_consistent(&mutex) == 0);
	held_by(waiter("waiter", "robust-mutex", lock, &mutex), initial, "live");
	testify(0);
}

/* -- the two ABIs of condition variables, of which x86 has both -- */

typedef int wait_function(pthread_cond_t *, pthread_mutex_t *);
typedef int wake_function(pthread_cond_t *);

#ifdef __i386__
#define FIRST_ABI "GLIBC_2.0"
#else
#define FIRST_ABI "GLIBC_2.2.5"
#endif

static void *first_abi(const char *name)
{
	void *f = dlvsym(RTLD_DEFAULT, name, FIRST_ABI);
	MUST(f != NULL);
	return f;
}

static struct condition mixed = {PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void wait_first_abi(void *condition)
{
	struct condition *c = condition;
	wait_function *wait = (wait_function *)first_abi("pthread_cond_wait");
	lock(&c->mutex);
	for (;;)
		MUST(wait(&c->cond, &c->mutex) == 0);
}

static void time_out_second_abi(int times)
{
	for (int i = 0; i < times; i++) {
		struct timespec past = {0};
		lock(&mixed.mutex);
		MUST(pthread_cond_timedwait(&mixed.cond, &mixed.mutex, &past) == ETIMEDOUT);
		MUST(pthread_mutex_unlock(&mixed.mutex) == 0);
	}
}

/* A waiter of the first ABI, on the condition variable that libc allocated. */
static struct witness *first_abi_waiter(void)
{
	struct witness *w = bystander("first-abi");
	tell(w, wait_first_abi, &mixed);
	await_sleep(w);
	struct part *p = part_of(w);
	p->kind = "cond", p->object = *(void **)&mixed.cond, p->mutex = &mixed.mutex, p->owner_state = "none";
	return w;
}

/* What a profiler does that wraps some of the functions and gets the oldest
   versions: a waiter of the first ABI, waits of the second that time out and move
   the pointer, and another waiter of the first. That one spins, or sleeps on wrong
   memory, or goes round and round; which of them, and whether it is in a wait when
   the process dies, is left to chance. */
static void mix(void)
{
	int moves = 0;
	MUST(sscanf(scenario->name, "mix-%d", &moves) == 1);
	struct witness *first = first_abi_waiter();
	concerns(first);
	part_of(first)->kind = "any"; /* wrong writes may change its word */
	time_out_second_abi(moves);
	struct witness *w = bystander("spins");
	part_of(w)->kind = "any";
	tell(w, wait_first_abi, &mixed);
	usleep(100000);
	verdict_id = "condvar-abi-mix";
	concerns(w);
	testify(0);
}

/* The first ABI alone is legal. */
static void first_alone(void)
{
	first_abi_waiter();
	testify(0);
}

/* The second alone, with waits that timed out. */
static void second_alone(void)
{
	time_out_second_abi(3);
	cond_waiter("waiter", wait_cond, &mixed);
	testify(0);
}

/* -- a condition variable in a packed structure -- */

static struct __attribute__((packed)) {
	char odd;
	struct condition c;
} packed = {0, {PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER}};

static pthread_mutex_t beside_packed = PTHREAD_MUTEX_INITIALIZER;

static void wait_packed(void *cond)
{
	lock(&beside_packed);
	for (;;)
		pthread_cond_wait(cond, &beside_packed);
}

/* The threads go round and round in pthread_cond_wait. Most of them, but not always
   each, are in the wait itself when the process dies. */
static void misaligned(void)
{
	verdict_id = "misaligned-futex";
	for (int i = 0; i < 8; i++) {
		struct witness *w = bystander("spins");
		part_of(w)->kind = "any";
		concerns(w);
		tell(w, wait_packed, (char *)&packed + 1);
	}
	usleep(100000);
	testify(0);
}

static const struct scenario scenarios[] = {
	{"waiters-bit", "a PI mutex without its waiters bit", waiters_bit},
	{"zeroed", "a PI mutex whose word is zero while threads wait", zeroed},
	{"overwritten", "a PI mutex whose word names another thread", overwritten},
	{"pi-died-before", "a PI mutex, wanted after its owner had exited", pi_died_before},
	{"pi-died-while", "a PI mutex whose owner exited while a thread waited", pi_died_while},
	{"pi-self", "a PI mutex taken twice", pi_self},
	{"robust-died", "a robust mutex of an owner that died, not made consistent", robust_died},
	{"robust-mended", "a robust mutex of an owner that died, made consistent", robust_mended},
	{"mix-1", "a condition variable through both ABIs, 1 wait of the second", mix},
	{"mix-2", "a condition variable through both ABIs, 2 waits of the second", mix},
	{"mix-3", "a condition variable through both ABIs, 3 waits of the second", mix},
	{"mix-4", "a condition variable through both ABIs, 4 waits of the second", mix},
	{"mix-5", "a condition variable through both ABIs, 5 waits of the second", mix},
	{"mix-6", "a condition variable through both ABIs, 6 waits of the second", mix},
	{"mix-7", "a condition variable through both ABIs, 7 waits of the second", mix},
	{"mix-8", "a condition variable through both ABIs, 8 waits of the second", mix},
	{"mix-9", "a condition variable through both ABIs, 9 waits of the second", mix},
	{"first-abi", "the first ABI of condition variables alone", first_alone},
	{"second-abi", "the second ABI of condition variables alone, with time-outs", second_alone},
	{"misaligned", "a condition variable in a packed structure", misaligned},
};

int main(int argc, char **argv)
{
	return play_waits(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
