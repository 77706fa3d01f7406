/* A process whose threads are in all kinds of places when it dies: the argument
 * says in which. The test compares their stacks with gdb's. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static pthread_barrier_t barrier;
static volatile int sink;

/* Give the others time to block in the kernel. */
static void settle(void)
{
	pthread_barrier_wait(&barrier);
	usleep(200 * 1000);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *waiter(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	pthread_barrier_wait(&barrier);
	for (;;)
		pthread_cond_wait(&cond, &mutex);
	return NULL;
}

static inline __attribute__((always_inline)) void inner(int fd)
{
	char c;
	sink = read(fd, &c, 1);
}

static inline __attribute__((always_inline)) void middle(int fd)
{
	sink++;
	inner(fd);
	sink++;
}

static __attribute__((noinline)) int deep(int n, int fd)
{
	if (n == 0)
		middle(fd);
	else
		sink += deep(n - 1, fd);
	return sink + 1;
}

static void *reader(void *arg)
{
	int fd[2];
	if (pipe(fd))
		abort();
	pthread_barrier_wait(&barrier);
	sink += deep((int)(intptr_t)arg, fd[0]);
	return NULL;
}

static void *spinner(void *arg)
{
	pthread_barrier_wait(&barrier);
	for (;;)
		sink += *(volatile char *)arg;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	pthread_barrier_wait(&barrier);
	pause();
	return *(const int *)a - *(const int *)b;
}

/* Called back from a library. */
static void *sorter(void *arg)
{
	int v[] = {3, 1, 2};
	(void)arg;
	qsort(v, 3, sizeof v[0], compare);
	return NULL;
}

static __attribute__((noinline)) void big_frame(int fd)
{
	volatile char buffer[100000];
	buffer[0] = 1;
	inner(fd);
	sink = buffer[0];
}

static __attribute__((noinline)) void dynamic_frame(int n)
{
	volatile char *buffer = __builtin_alloca(n);
	int fd[2];
	buffer[0] = 1;
	if (pipe(fd))
		abort();
	big_frame(fd[0]);
	sink = buffer[0];
}

static void *allocator(void *arg)
{
	pthread_barrier_wait(&barrier);
	dynamic_frame((int)(intptr_t)arg);
	return NULL;
}

static void start(void *(*body)(void *), void *arg)
{
	pthread_t t;
	if (pthread_create(&t, NULL, body, arg))
		abort();
}

static void begin(int threads) { pthread_barrier_init(&barrier, NULL, threads + 1); }

static void waits(void)
{
	begin(6);
	start(waiter, NULL);
	start(reader, (void *)0);
	start(reader, (void *)20);
	start(spinner, "x");
	start(sorter, NULL);
	start(allocator, (void *)3000);
	settle();
	abort();
}

static void handler(int sig)
{
	sink = sig;
	if (sig == SIGSEGV)
		abort();
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
}

static void on_signal(int sig, void (*f)(int))
{
	struct sigaction act = {.sa_handler = f, .sa_flags = SA_ONSTACK};
	if (sigaction(sig, &act, NULL))
		abort();
}

static __attribute__((noinline)) void interrupted(volatile int *p)
{
	for (;;)
		*p += 1;
}

/* In a handler, on an alternate stack, that interrupted a loop. */
static void *alternate(void *arg)
{
	stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
	if (sigaltstack(&s, NULL))
		abort();
	*(pthread_t *)arg = pthread_self();
	pthread_barrier_wait(&barrier);
	interrupted(&sink);
	return NULL;
}

static __attribute__((noinline)) int crash(int *p) { return *p + 1; }

/* A handler runs in one thread, and another dies in its own. */
static void signals(void)
{
	static pthread_t other;
	begin(1);
	on_signal(SIGUSR1, handler);
	on_signal(SIGSEGV, handler);
	start(alternate, &other);
	pthread_barrier_wait(&barrier);
	pthread_kill(other, SIGUSR1);
	settle();
	stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
	if (sigaltstack(&s, NULL))
		abort();
	sink = crash(NULL);
}

static void (*volatile nothing)(int);

static __attribute__((noinline)) void jump_to_null(int n)
{
	nothing(n);
	sink++;
}

/* A handler whose interrupted frame is at no code. */
static void null_in_handler(void)
{
	on_signal(SIGSEGV, handler);
	begin(0);
	jump_to_null(1);
}

static int vfork_child(void)
{
	/* Not every kernel ends it with its parent. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
	return 0;
}

static void *vforker(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&barrier);
	if (vfork() == 0)
		_exit(vfork_child());
	return NULL;
}

static void vforks(void)
{
	begin(1);
	start(vforker, NULL);
	settle();
	sink = crash(NULL);
}

/* A raw thread that dies at its first instruction: a call of nothing. */
static void newborn(void)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* clone() refuses a null function. */
	int (*nowhere)(void *) = (int (*)(void *))(uintptr_t)8;
	clone(nowhere, stack + 65536, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM, NULL);
	for (;;)
		pause();
}

/* Holds a new thread of a process at its first instruction, and ends the
 * process. */
static void stop_newborn(pid_t process)
{
	int status;
	pid_t of;
	if (ptrace(PTRACE_SEIZE, process, NULL, PTRACE_O_TRACECLONE) || kill(process, SIGUSR1))
		_exit(1);
	while ((of = waitpid(-1, &status, __WALL)) > 0) {
		if (of != process || !WIFSTOPPED(status))
			continue;
		int created = status >> 16 == PTRACE_EVENT_CLONE;
		if (created)
			kill(process, SIGABRT);
		ptrace(PTRACE_CONT, process, NULL, created ? 0 : WSTOPSIG(status));
	}
	_exit(0);
}

static volatile sig_atomic_t seized;

static void on_seized(int sig) { seized = sig; }

/* A thread that has not run yet: its parent waits for the tracer. */
static void unborn(void)
{
	pid_t process = getpid();
	on_signal(SIGUSR1, on_seized);
	pid_t tracer = fork();
	if (tracer == 0)
		stop_newborn(process);
	prctl(PR_SET_PTRACER, tracer);
	while (!seized)
		usleep(1000);
	begin(1);
	start(reader, NULL);
	for (;;)
		pause();
}

static ucontext_t outer, coroutine;

static void in_coroutine(void) { sink = crash(NULL); }

static void contexts(void)
{
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = malloc(65536);
	coroutine.uc_stack.ss_size = 65536;
	coroutine.uc_link = &outer;
	makecontext(&coroutine, in_coroutine, 0);
	swapcontext(&outer, &coroutine);
}

static __attribute__((noinline)) int overflow(volatile char *p)
{
	volatile char a[200];
	a[0] = p[0];
	return p[0] ? overflow(a) + a[0] : 0;
}

/* Writes over its own return address, and dies before it returns, or by it. */
static __attribute__((noinline)) void smash(int returns)
{
	volatile uintptr_t *link = (volatile uintptr_t *)__builtin_frame_address(0) + 1;
	*link = 0x41414140;
	if (!returns)
		sink = crash(NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "waits"))
		waits();
	else if (!strcmp(what, "signals"))
		signals();
	else if (!strcmp(what, "null"))
		jump_to_null(1);
	else if (!strcmp(what, "null-in-handler"))
		null_in_handler();
	else if (!strcmp(what, "vfork"))
		vforks();
	else if (!strcmp(what, "newborn"))
		newborn();
	else if (!strcmp(what, "unborn"))
		unborn();
	else if (!strcmp(what, "coroutine"))
		contexts();
	else if (!strcmp(what, "overflow"))
		sink = overflow("x");
	else if (!strcmp(what, "smash"))
		smash(0);
	else if (!strcmp(what, "smash-return"))
		smash(1);
	fprintf(stderr, "%s is no scenario\n", what);
	return 2;
}
