/* Threads in the waits of the C++ library, cxxwaits.cc: those that are its own use
   of futexes, and those for objects of the C library. Nothing here is wrong. */
#include "waits.h"

act wait_atomic, wait_wide, wait_latch, wait_semaphore, wait_future, wait_mutex, wait_initialised, wait_pool;
void *cxx_mutex(void), *cxx_pool(void), *cxx_pool_mutex(void);

/* A futex of no kind that the C library has. Where it is, only libstdc++ knows;
   the kernel tells. */
static void own(const char *role, act *how)
{
	struct witness *w = waiter(role, "futex", how, NULL);
	part_of(w)->object = (void *)(uintptr_t)part_of(w)->futex;
	held_by_somebody(w);
}

static void all(void)
{
	own("atomic", wait_atomic);
	own("atomic-wide", wait_wide);
	own("latch", wait_latch);
	own("semaphore", wait_semaphore);
	own("future", wait_future);
	tell(bystander("initialises"), wait_initialised, NULL);
	usleep(100000);
	own("initialised", wait_initialised);
	lock(cxx_mutex());
	struct witness *w = waiter("mutex", "mutex", wait_mutex, NULL);
	part_of(w)->object = cxx_mutex();
	held_by(w, &witnesses[0], "live");
	w = waiter("condition", "cond", wait_pool, NULL);
	part_of(w)->object = cxx_pool();
	part_of(w)->mutex = cxx_pool_mutex();
	testify(0);
}

static const struct scenario scenarios[] = {
	{"cxx", "waits of the C++ library", all},
};

int main(int argc, char **argv)
{
	return play_waits(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
