/* Deadlocks through the dynamic loader's lock. The environment's PLUGIN is the
   path of loaderplug.c, built with -shared -fPIC; this is built with -rdynamic. */
#include "waits.h"
#include <dlfcn.h>
#include <link.h>

const char *plug_way;

static struct witness *loads, *listens;
static sem_t started, waiting;
static void (*listen_now)(void);

/* Called by the library's thread, which nobody here has made. */
void plug_started(void)
{
	publish(listens);
	MUST(sem_post(&started) == 0);
}

/* Called by the library's constructor before it waits; listen lets its thread go
   on. */
void plug_waits(const char *kind, void *object, void *mutex, void (*listen)(void))
{
	wait_for(&started);
	struct part *p = part_of(loads);
	p->kind = kind, p->object = object, p->mutex = mutex, p->owner_state = "none";
	if (strcmp(kind, "join") == 0)
		held_by(loads, listens, "live");
	listen_now = listen;
	MUST(sem_post(&waiting) == 0);
}

static void load(void *path) { dlopen(path, RTLD_NOW); }
static void look_up(void *unused) { (void)unused; dlsym(RTLD_DEFAULT, "no_such_function"); }

/* A thread that wants one of the loader's locks, whose addresses only the loader
   and the kernel know. */
static void wants_loader(struct witness *w, const struct witness *owner)
{
	struct part *p = part_of(w);
	p->kind = "loader-lock";
	p->object = (void *)(uintptr_t)p->futex;
	held_by(w, owner, "live");
}

static void constructor(const char *way)
{
	plug_way = way;
	MUST(getenv("PLUGIN") != NULL);
	MUST(sem_init(&started, 0, 0) == 0 && sem_init(&waiting, 0, 0) == 0);
	loads = bystander("loads");
	listens = enrol("listens", "running", LIBC_STACK);
	tell(loads, load, getenv("PLUGIN"));
	wait_for(&waiting);
	await_sleep(loads);
	unsigned long before = futex_of(getpid(), listens->tid);
	listen_now();
	while (part_of(listens)->futex == before || part_of(listens)->futex == 0)
		part_of(listens)->futex = futex_of(getpid(), listens->tid);
	wants_loader(listens, loads);
	concerns(listens), concerns(loads);
}

static void in_constructor_sem(void)
{
	constructor("sem");
	struct witness *other = bystander("looks-up");
	tell(other, look_up, NULL);
	await_sleep(other);
	wants_loader(other, loads);
	concerns(other);
	verdict_id = "loader-lock-chain";
	testify(0);
}

static void in_constructor_cond(void)
{
	constructor("cond");
	verdict_id = "loader-lock-chain";
	testify(0);
}

static void in_constructor_join(void)
{
	constructor("join");
	verdict_id = "deadlock-cycle";
	testify(0);
}

/* -- a callback of dl_iterate_phdr, which holds another of the loader's locks -- */

static sem_t never;

static int stop_here(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)info, (void)size, (void)unused;
	wait_for(&never);
	return 0;
}

static void iterate(void *s)
{
	(void)s;
	dl_iterate_phdr(stop_here, NULL);
}

static void in_callback(void)
{
	MUST(sem_init(&never, 0, 0) == 0);
	struct witness *iterates = waiter("iterates", "sem", iterate, &never);
	struct witness *loader = bystander("loads"), *looks = bystander("looks-up");
	tell(loader, load, getenv("PLUGIN"));
	await_sleep(loader);
	wants_loader(loader, iterates);
	tell(looks, look_up, NULL);
	await_sleep(looks);
	wants_loader(looks, loader);
	verdict_id = "loader-lock-chain";
	concerns(looks), concerns(loader), concerns(iterates);
	testify(0);
}

/* -- dlopen that goes on, while a worker waits for its work: no verdict -- */

static void load_and_rest(void *path)
{
	MUST(dlopen(path, RTLD_NOW) != NULL);
	rest();
}

static void healthy(void)
{
	static struct condition idle = {PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
	cond_waiter("pool", wait_cond, &idle);
	waiter("idle", "sem", wait_sem, &never);
	struct witness *w = bystander("loads");
	tell(w, load_and_rest, "libm.so.6");
	usleep(100000);
	testify(0);
}

static const struct scenario scenarios[] = {
	{"constructor-sem", "a constructor waits for its thread by a semaphore", in_constructor_sem},
	{"constructor-cond", "a constructor waits for its thread by a condition variable", in_constructor_cond},
	{"constructor-join", "a constructor joins its thread", in_constructor_join},
	{"callback", "a callback of dl_iterate_phdr waits, dlopen waits for it, and dlsym for that", in_callback},
	{"loaded", "a library was loaded, and workers are idle", healthy},
};

int main(int argc, char **argv)
{
	return play_waits(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
