/* Children that were forked by a process with threads. The child crashes; the
   parent waits for it and ends well. */
#include "witness.h"
#include <signal.h>
#include <sys/wait.h>

static sem_t go;

/* In the child: of every other thread only the memory is left. */
static void become_child(struct witness *me)
{
	for (struct witness *w = witnesses; w < witnesses + witness_count; w++)
		if (w != me)
			w->state = "parent-only";
	me->tid = gettid();
}

/* In a child whose libc has not tidied up: the zombies are in its lists. */
static void become_child_with_lists(struct witness *me)
{
	for (struct witness *w = witnesses; w < witnesses + witness_count; w++)
		if (w != me && strcmp(w->state, "zombie") != 0)
			w->state = "parent-only";
	me->tid = gettid();
}

_Noreturn static void await_child(pid_t child)
{
	int status;
	MUST(child > 0);
	MUST(waitpid(child, &status, 0) == child);
	exit(WIFSIGNALED(status) ? 0 : 2);
}

static void *fork_clean(void *me)
{
	publish(me);
	wait_for(&go);
	pid_t child = fork();
	if (child != 0)
		await_child(child);
	become_child(me);
	testify(0);
}

static void *fork_and_leave_zombie(void *me)
{
	publish(me);
	wait_for(&go);
	pid_t child = fork();
	if (child != 0)
		await_child(child);
	become_child(me);
	zombie("child-zombie", LIBC_STACK);
	testify(getpid());
}

static void *fork_by_libc_alone(void *me)
{
	publish(me);
	wait_for(&go);
	pid_t child = _Fork();
	if (child != 0)
		await_child(child);
	become_child_with_lists(me);
	testify(getpid());
}

static void fork_from_worker(void *(*body)(void *))
{
	MUST(sem_init(&go, 0, 0) == 0);
	worker("worker-0", LIBC_STACK);
	worker("worker-1", USER_STACK);
	launch("forker", "running", LIBC_STACK, body);
	zombie("zombie-0", LIBC_STACK);
	zombie("zombie-1", USER_STACK);
	MUST(sem_post(&go) == 0);
	rest();
}

static void fork_child(void)
{
	fork_from_worker(fork_clean);
}

static void fork_child_zombie(void)
{
	fork_from_worker(fork_and_leave_zombie);
}

static void _Fork_child(void)
{
	fork_from_worker(fork_by_libc_alone);
}

/* fork() without libc: every argument but the flags is 0, so that the order,
   which differs between architectures, does not matter. */
static void become_raw_clone(void)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child != 0)
		await_child(child);
	become_child_with_lists(&witnesses[0]);
}

static void rawclone_child(void)
{
	worker("worker-0", LIBC_STACK);
	worker("worker-1", USER_STACK);
	zombie("zombie-0", LIBC_STACK);
	become_raw_clone();
	testify(getpid());
}

static void rawclone_child_healthy(void)
{
	worker("worker-0", LIBC_STACK);
	worker("worker-1", USER_STACK);
	become_raw_clone();
	testify(0);
}

static const struct scenario scenarios[] = {
	{"fork-child", "child of fork() from a worker: libc emptied its lists, only the worker is in them", fork_child},
	{"fork-child-zombie", "child of fork() from a worker on a libc stack; it made a zombie, also on a libc stack: newer, so before the worker", fork_child_zombie},
	{"_Fork-child", "child of _Fork() from a worker: its lists are the parent's, with two zombies before the worker", _Fork_child},
	{"rawclone-child", "child of a raw clone() from main: main's handle keeps the parent's id, and a zombie is taken for main", rawclone_child},
	{"rawclone-child-healthy", "child of a raw clone() from main: main's handle keeps the parent's id; no zombie", rawclone_child_healthy},
};

int main(int argc, char **argv)
{
	return play(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
