/* A process with a random history of modules and threads: it loads and unloads
   modules made of tlsplug.c, and makes threads that touch the variables of some
   of them, exit, and are joined or not.

   usage: tlsmodules SEED STEPS PLUG...

   After STEPS steps it writes truth.json and aborts. With 0 steps it goes on
   until a child process shoots it, after a time that depends on SEED; what it
   claims is then in its memory: claims, handles and tids.

   A PLUG is the path of a module, perhaps after one of
     ?   its storage may be static: main and the first thread touch it at once
     @   it is loaded by dlmopen, into a namespace of its own
     =   it is loaded at the start and stays, as one of LD_PRELOAD does

   The claims are about value_NAME of the PLUG NAME.so: main and each thread know
   where it is by having taken its address. Nothing else is known of a module
   with dynamic storage: a thread that did not touch it has no block. One with
   static storage has the same distance from every thread's pointer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

enum { MAX_THREADS = 16, MAX_PLUGS = 96, STACK_BYTES = 256 * 1024 };

/* What is claimed of a thread and a module. */
enum { NOTHING = 0, UNTOUCHED = 1 }; /* anything else is an address */

uintptr_t claims[MAX_THREADS][MAX_PLUGS];
/* pthread_self() and gettid(); the id is 0 for a thread that has exited, and
   both are for one that there is not. */
uintptr_t handles[MAX_THREADS], tids[MAX_THREADS];

__thread uint64_t own_value;

struct plug {
	const char *path;
	char name[32];
	bool may_be_static, namespace, stays;
	void *handle;
	uint64_t *(*value)(void);
	uint64_t initial;
	bool is_static;
	ptrdiff_t distance; /* from the thread pointer, of static storage */
};

static struct plug plugs[MAX_PLUGS];
static int plug_count;

enum order { TOUCH, OPEN, CLOSE, LEAVE };

struct worker {
	enum { ABSENT, RUNNING, ZOMBIE } state;
	bool user_stack;
	pthread_t self;
	pid_t tid;
	char *pointer;
	uint64_t *own, own_value;
	uint64_t values[MAX_PLUGS];
	sem_t go, done;
	enum order order;
	struct plug *plug;
};

static struct worker workers[MAX_THREADS];

static uint64_t seed;

static unsigned below(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(seed >> 33) % n;
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem) != 0)
		MUST(errno == EINTR);
}

static uintptr_t *claim(const struct worker *w, const struct plug *p)
{
	return &claims[w - workers][p - plugs];
}

static void withdraw(const struct plug *p)
{
	for (struct worker *w = workers; w < workers + MAX_THREADS; w++)
		__atomic_store_n(claim(w, p), NOTHING, __ATOMIC_SEQ_CST);
}

static void touch(struct worker *w, struct plug *p)
{
	static uint64_t times;
	if (*claim(w, p) == UNTOUCHED)
		__atomic_store_n(claim(w, p), NOTHING, __ATOMIC_SEQ_CST);
	uint64_t *value = p->value();
	*value = w->values[p - plugs] = (uint64_t)w->tid << 32 | ++times;
	__atomic_store_n(claim(w, p), (uintptr_t)value, __ATOMIC_SEQ_CST);
}

static void load(struct plug *p)
{
	p->handle = p->namespace ? dlmopen(LM_ID_NEWLM, p->path, RTLD_NOW) : dlopen(p->path, RTLD_NOW);
	if (p->handle == NULL) /* no room for static storage, or no namespace is left */
		return;
	p->value = (uint64_t * (*)(void)) dlsym(p->handle, "plug_value");
	uint64_t *initial = dlsym(p->handle, "plug_initial");
	MUST(p->value && initial);
	p->initial = *initial;
}

static void unload(struct plug *p)
{
	withdraw(p);
	MUST(dlclose(p->handle) == 0);
	p->handle = NULL;
	MUST(p->namespace || dlopen(p->path, RTLD_NOW | RTLD_NOLOAD) == NULL);
}

/* What a thread does when it is told to. */
static void obey(struct worker *w)
{
	switch (w->order) {
	case TOUCH:
		touch(w, w->plug);
		break;
	case OPEN:
		load(w->plug);
		break;
	case CLOSE:
		unload(w->plug);
		break;
	case LEAVE:
		break;
	}
}

static void introduce(struct worker *w)
{
	w->tid = gettid();
	w->self = pthread_self();
	w->pointer = __builtin_thread_pointer();
	w->own = &own_value;
	own_value = w->own_value = (uint64_t)w->tid << 32 | 0xffff;
	w->state = RUNNING;
	handles[w - workers] = (uintptr_t)w->self;
	tids[w - workers] = (uintptr_t)w->tid;
}

static void *live(void *argument)
{
	struct worker *w = argument;
	introduce(w);
	MUST(sem_post(&w->done) == 0);
	for (bool last = false; !last;) {
		wait_for(&w->go);
		obey(w);
		last = w->order == LEAVE;
		MUST(sem_post(&w->done) == 0);
	}
	return NULL;
}

static void tell(struct worker *w, enum order order, struct plug *p)
{
	w->order = order;
	w->plug = p;
	if (w == workers) {
		obey(w);
		return;
	}
	MUST(sem_post(&w->go) == 0);
	wait_for(&w->done);
}

/* A module that was just loaded: nobody has touched it. */
static void learn(struct plug *p)
{
	p->is_static = false;
	if (p->may_be_static) {
		tell(&workers[0], TOUCH, p);
		tell(&workers[1], TOUCH, p);
		p->distance = (char *)*claim(&workers[0], p) - workers[0].pointer;
		p->is_static = (char *)*claim(&workers[1], p) - workers[1].pointer == p->distance;
	}
	for (struct worker *w = workers; w < workers + MAX_THREADS; w++) {
		if (w->state == ABSENT || *claim(w, p) != NOTHING)
			continue;
		w->values[p - plugs] = p->initial;
		*claim(w, p) = p->is_static ? (uintptr_t)(w->pointer + p->distance) : UNTOUCHED;
	}
}

static void open_plug(struct worker *by, struct plug *p)
{
	tell(by, OPEN, p);
	if (p->handle != NULL)
		learn(p);
}

static void start(struct worker *w)
{
	pthread_attr_t attr;
	MUST(pthread_attr_init(&attr) == 0);
	w->user_stack = w > workers + 1 && below(4) == 0;
	if (w->user_stack) {
		void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST(stack != MAP_FAILED);
		MUST(pthread_attr_setstack(&attr, stack, STACK_BYTES) == 0);
	} else {
		MUST(pthread_attr_setstacksize(&attr, STACK_BYTES) == 0);
	}
	MUST(sem_init(&w->go, 0, 0) == 0 && sem_init(&w->done, 0, 0) == 0);
	pthread_t thread;
	MUST((errno = pthread_create(&thread, &attr, live, w)) == 0);
	wait_for(&w->done);
	MUST(pthread_attr_destroy(&attr) == 0);
	for (struct plug *p = plugs; p < plugs + plug_count; p++) {
		w->values[p - plugs] = p->initial;
		if (p->handle != NULL)
			*claim(w, p) = p->is_static ? (uintptr_t)(w->pointer + p->distance) : UNTOUCHED;
	}
}

static void leave(struct worker *w)
{
	tell(w, LEAVE, NULL);
	while (syscall(SYS_tgkill, getpid(), w->tid, 0) == 0)
		sched_yield();
	MUST(errno == ESRCH);
	tids[w - workers] = 0;
	w->state = ZOMBIE;
}

static void join(struct worker *w)
{
	for (struct plug *p = plugs; p < plugs + plug_count; p++)
		__atomic_store_n(claim(w, p), NOTHING, __ATOMIC_SEQ_CST);
	handles[w - workers] = 0;
	w->state = ABSENT;
	MUST((errno = pthread_join(w->self, NULL)) == 0);
}

/* A random one that runs. */
static struct worker *running(void)
{
	struct worker *w;
	do
		w = &workers[below(MAX_THREADS)];
	while (w->state != RUNNING);
	return w;
}

static void step(void)
{
	struct worker *w = &workers[2 + below(MAX_THREADS - 2)];
	struct plug *p = &plugs[below((unsigned)plug_count)];
	switch (below(10)) {
	case 0:
	case 1:
		if (w->state == ABSENT)
			start(w);
		break;
	case 2:
		if (w->state == RUNNING)
			leave(w);
		else if (w->state == ZOMBIE)
			join(w);
		break;
	case 3:
	case 4:
		if (p->handle == NULL)
			open_plug(running(), p);
		else if (!p->stays && below(2) == 0)
			tell(running(), CLOSE, p);
		break;
	default:
		if (p->handle != NULL)
			tell(running(), TOUCH, p);
	}
}

static const char *architecture(void)
{
#if defined __x86_64__ && !defined __ILP32__
	return "x86_64";
#elif defined __i386__
	return "i386";
#else
#error "say here what this architecture is called"
#endif
}

#define ADDRESS(p) (unsigned long)(uintptr_t)(p)

static void write_value(int fd, const char *name, uintptr_t at, uint64_t value)
{
	if (at == UNTOUCHED)
		dprintf(fd, ",\n   \"%s\":{\"addr\":null,\"kind\":\"u64\",\"size\":8,\"value\":null}", name);
	else
		dprintf(fd, ",\n   \"%s\":{\"addr\":\"%#lx\",\"kind\":\"u64\",\"size\":8,\"value\":\"%#llx\"}", name,
			ADDRESS(at), (unsigned long long)value);
}

static void write_truth(void)
{
	int fd = open("truth.json", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	MUST(fd >= 0);
	dprintf(fd, "{\"scenario\":\"modules\",\"arch\":\"%s\",\"libc\":\"glibc %s\",\"pid\":%d,\"crash_tid\":%d,\n \"threads\":[",
		architecture(), gnu_get_libc_version(), getpid(), gettid());
	bool shadowed = false;
	const char *comma = "";
	for (struct worker *w = workers; w < workers + MAX_THREADS; w++) {
		if (w->state == ABSENT)
			continue;
		shadowed |= w->state == ZOMBIE && w->user_stack;
		dprintf(fd, "%s\n  {\"role\":\"%d\",\"tid\":%d,\"pthread\":\"%#lx\",\"state\":\"%s\",\"user_stack\":%s,\"tls\":{",
			comma, (int)(w - workers), w->tid, ADDRESS(w->self), w->state == RUNNING ? "running" : "zombie",
			w->user_stack || w == workers ? "true" : "false");
		comma = ",";
		dprintf(fd, "\"own_value\":{\"addr\":\"%#lx\",\"kind\":\"u64\",\"size\":8,\"value\":\"%#llx\"}", ADDRESS(w->own),
			(unsigned long long)w->own_value);
		for (struct plug *p = plugs; p < plugs + plug_count; p++)
			if (*claim(w, p) != NOTHING)
				write_value(fd, p->name, *claim(w, p), w->values[p - plugs]);
		dprintf(fd, "}}");
	}
	dprintf(fd, "],\n \"zombies\":[");
	comma = "";
	for (struct worker *w = workers; w < workers + MAX_THREADS; w++) {
		if (w->state == ZOMBIE)
			dprintf(fd, "%s\"%#lx\"", comma, ADDRESS(w->self)), comma = ",";
	}
	/* Exited threads on user stacks come before main. */
	char shadow[16] = "null";
	if (shadowed)
		snprintf(shadow, sizeof shadow, "%d", getpid());
	MUST(dprintf(fd, "],\n \"shadowed_lwp\":%s,\n \"notes\":\"\"}\n", shadow) > 0);
	MUST(close(fd) == 0);
}

static void be_shot_after(unsigned microseconds)
{
	pid_t parent = getpid(), child = fork();
	MUST(child >= 0);
	if (child > 0)
		return;
	usleep(microseconds);
	kill(parent, SIGABRT);
	_exit(0);
}

static void parse(struct plug *p, const char *argument)
{
	p->may_be_static = *argument == '?';
	p->namespace = *argument == '@';
	p->stays = *argument == '=';
	p->path = argument + (p->may_be_static || p->namespace || p->stays);
	const char *slash = strrchr(p->path, '/');
	const char *file = slash ? slash + 1 : p->path;
	MUST(snprintf(p->name, sizeof p->name, "value_%.*s", (int)strcspn(file, "."), file) < (int)sizeof p->name);
}

int main(int argc, char **argv)
{
	if (argc < 4 || argc - 3 > MAX_PLUGS) {
		fprintf(stderr, "usage: tlsmodules SEED STEPS PLUG...\n");
		return 2;
	}
	seed = strtoull(argv[1], NULL, 10);
	long steps = strtol(argv[2], NULL, 10);
	for (plug_count = 0; plug_count < argc - 3; plug_count++)
		parse(&plugs[plug_count], argv[3 + plug_count]);

	mallopt(M_ARENA_MAX, 1); /* small cores */
	introduce(&workers[0]);
	start(&workers[1]);
	for (struct plug *p = plugs; p < plugs + plug_count; p++)
		if (p->stays)
			open_plug(&workers[0], p);
	if (steps == 0) {
		write_truth();
		be_shot_after(500 + below(20000));
		for (;;)
			step();
	}
	while (steps-- > 0)
		step();
	write_truth();
	abort();
}
