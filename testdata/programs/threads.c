/* Threads that live, have exited, were detached or joined. */
#include "witness.h"

static void some_workers(void)
{
	worker("worker-0", LIBC_STACK);
	worker("worker-1", LIBC_STACK);
	worker("worker-2", USER_STACK);
}

static void single(void)
{
	testify(0);
}

static void healthy(void)
{
	some_workers();
	testify(0);
}

static void zombie_user(void)
{
	some_workers();
	zombie("zombie-0", USER_STACK);
	testify(getpid());
}

static void zombie_default(void)
{
	some_workers();
	zombie("zombie-0", LIBC_STACK);
	testify(0);
}

static void zombies_many(void)
{
	for (int i = 0; i < 40; i++) {
		char role[24];
		snprintf(role, sizeof role, "zombie-%d", i);
		zombie(role, i % 2 ? USER_STACK : LIBC_STACK);
		snprintf(role, sizeof role, "worker-%d", i / 4);
		if (i % 4 == 0)
			worker(role, i % 8 ? USER_STACK : LIBC_STACK);
	}
	testify(getpid());
}

/* Held until all have started, so that none gets the stack of another. */
static sem_t gate;

static void *leave_by_gate(void *w)
{
	publish(w);
	wait_for(&gate);
	return NULL;
}

static void *leave_by_gate_detached(void *w)
{
	MUST(pthread_detach(pthread_self()) == 0);
	return leave_by_gate(w);
}

static void detached_joined(void)
{
	MUST(sem_init(&gate, 0, 0) == 0);
	some_workers();
	struct witness *joined[] = {
		launch("joined-0", "joined", LIBC_STACK, leave_by_gate),
		launch("joined-1", "joined", USER_STACK, leave_by_gate),
	};
	struct witness *detached[] = {
		launch("detached-0", "detached-exited", LIBC_STACK, leave_by_gate_detached),
		launch("detached-1", "detached-exited", USER_STACK, leave_by_gate_detached),
	};
	for (int i = 0; i < 4; i++)
		MUST(sem_post(&gate) == 0);
	for (int i = 0; i < 2; i++) {
		MUST(pthread_join(joined[i]->self, NULL) == 0);
		await_exit(detached[i]);
	}
	testify(0);
}

static void *crash_in_worker(void *w)
{
	publish(w);
	zombie("zombie-0", USER_STACK);
	testify(getpid());
}

static void worker_crash(void)
{
	some_workers();
	launch("crasher", "running", LIBC_STACK, crash_in_worker);
	rest();
}

static void unmapped_stack(void)
{
	some_workers();
	struct witness *w = zombie("zombie-0", USER_STACK);
	MUST(munmap(w->user_stack, STACK_BYTES) == 0);
	testify(0);
}

static void undumped_stack(void)
{
	some_workers();
	struct witness *w = zombie("zombie-0", USER_STACK);
	MUST(madvise(w->user_stack, STACK_BYTES, MADV_DONTDUMP) == 0);
	testify(0);
}

static const struct scenario scenarios[] = {
	{"single", "no thread but main", single},
	{"healthy", "living threads only", healthy},
	{"zombie-user", "one zombie on a user stack: libc lists it before main", zombie_user},
	{"zombie-default", "one zombie on a libc stack: after main in the iteration, harmless", zombie_default},
	{"zombies-many", "20 zombies on user stacks, 20 on libc stacks, 10 living threads among them", zombies_many},
	{"detached-joined", "exited threads that were detached or joined: none is left in libc's lists", detached_joined},
	{"worker-crash", "one zombie on a user stack; a worker crashes", worker_crash},
	{"unmapped-stack", "a zombie's user stack was unmapped: libc's list leads out of the memory", unmapped_stack},
	{"undumped-stack", "a zombie's user stack is not dumped: libc's list leads out of the core", undumped_stack},
};

int main(int argc, char **argv)
{
	return play(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
