/* Threads caught in the middle of starting or exiting. */
#include "witness.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/prctl.h>

/* The thread under observation is where the scenario wants it. */
static sem_t arrived;

static void some_workers(void)
{
	MUST(sem_init(&arrived, 0, 0) == 0);
	worker("worker-0", LIBC_STACK);
	worker("worker-1", USER_STACK);
}

static void stop_here(void *unused)
{
	(void)unused;
	MUST(sem_post(&arrived) == 0);
	rest();
}

static void *exit_through_key(void *w)
{
	pthread_key_t key;
	MUST(pthread_key_create(&key, stop_here) == 0);
	MUST(pthread_setspecific(key, w) == 0);
	publish(w);
	return NULL;
}

static void exit_keydtor(void)
{
	some_workers();
	launch("exiting", "exiting", USER_STACK, exit_through_key);
	wait_for(&arrived);
	testify(0);
}

/* What a C++ compiler calls for a thread_local object with a destructor. */
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *dso);
extern void *__dso_handle;

static void *exit_through_tls(void *w)
{
	MUST(__cxa_thread_atexit_impl(stop_here, w, &__dso_handle) == 0);
	publish(w);
	return NULL;
}

static void exit_tlsdtor(void)
{
	some_workers();
	launch("exiting", "exiting", USER_STACK, exit_through_tls);
	wait_for(&arrived);
	testify(0);
}

/* Has the kernel stop the calling thread for good at the entry of either
   system call, and gives a file that can be read from when it has: seccomp
   waits for a verdict from that file's reader, and none will come. */
static int stop_at(unsigned int call, unsigned int other)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	MUST(fd >= 0);
	return fd;
}

static int stopped_fd;

static void wait_until_stopped(void)
{
	struct pollfd stopped = {stopped_fd, POLLIN, 0};
	MUST(poll(&stopped, 1, -1) == 1 && stopped.revents == POLLIN);
}

static void *exit_at_syscall(void *w)
{
	stopped_fd = stop_at(SYS_exit, SYS_exit);
	publish(w);
	return NULL;
}

static void exit_syscall(void)
{
	some_workers();
	launch("exiting", "exiting", USER_STACK, exit_at_syscall);
	wait_until_stopped();
	/* From 2.43 on the thread itself clears its id before it exits. */
	int major, minor;
	MUST(sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2);
	testify(major > 2 || minor >= 43 ? getpid() : 0);
}

static struct witness *unborn;

static void *start_another(void *w)
{
	unborn = enrol("starting", "starting", USER_STACK);
	pthread_attr_t attr = attributes(unborn);
#ifdef SYS_clone3
	stopped_fd = stop_at(SYS_clone3, SYS_clone);
#else
	stopped_fd = stop_at(SYS_clone, SYS_clone);
#endif
	publish(w);
	/* libc stores the handle before it asks the kernel for the thread. */
	pthread_create(&unborn->self, &attr, live, unborn);
	abort();
}

static void starting(void)
{
	some_workers();
	launch("creator", "running", LIBC_STACK, start_another);
	wait_until_stopped();
	MUST(unborn->self != 0);
	testify(getpid());
}

/* Waits until the initial thread, the only one whose id outlives it, is dead. */
static void await_main_exit(void)
{
	for (char state = 0; state != 'Z'; sched_yield()) {
		char path[64];
		snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
		FILE *f = fopen(path, "r");
		MUST(f != NULL);
		MUST(fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
		MUST(fclose(f) == 0);
	}
}

static void *crash_alone(void *w)
{
	publish(w);
	await_main_exit();
	testify(0);
}

static void main_exited(void)
{
	some_workers();
	zombie("zombie-0", USER_STACK);
	witnesses[0].state = "zombie";
	launch("crasher", "running", LIBC_STACK, crash_alone);
	pthread_exit(NULL);
}

static const struct scenario scenarios[] = {
	{"exit-keydtor", "a thread on a user stack is in a pthread_key destructor: it lives and has its id", exit_keydtor},
	{"exit-tlsdtor", "a thread on a user stack is in a thread_local destructor: it lives and has its id", exit_tlsdtor},
	{"exit-syscall", "a thread on a user stack is at the entry of its exit system call: it lives; since glibc 2.43 its id is 0 already", exit_syscall},
	{"starting", "pthread_create is at the entry of clone: a handle on a user stack with id 0 and no thread", starting},
	{"main-exited", "main left by pthread_exit, and a zombie on a user stack: no thread has the pid, so none is shadowed", main_exited},
};

int main(int argc, char **argv)
{
	return play(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
