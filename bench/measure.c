/* Runs one command and appends what it cost to a file.

   usage: measure FILE TIMEOUT COMMAND [ARGUMENT...]

   A line "SECONDS CPU KIB" is appended to FILE: wall time; processor time, of
   user and system; and the largest resident set. The last two are those that
   wait4(2) gives, of the command and the processes that it waited for. After TIMEOUT seconds the command and its children are killed, nothing
   is appended, and the status is 124, as with timeout(1); else it is the
   command's own, or 128 and the number of the signal that ended it. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                        \
	do {                                                                   \
		if (!(condition)) {                                            \
			fprintf(stderr, "measure: %s: %s\n", #condition,       \
				strerror(errno));                              \
			exit(125);                                             \
		}                                                              \
	} while (0)

static double now(void)
{
	struct timespec t;
	MUST(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: measure FILE TIMEOUT COMMAND [ARGUMENT...]\n");
		return 125;
	}
	/* A measurement that is broken off leaves nothing running. */
	MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	FILE *out = fopen(argv[1], "ae");
	MUST(out);
	struct timespec limit = {.tv_sec = atoi(argv[2])};

	/* Blocked, the end of the child waits until sigtimedwait asks for it. */
	sigset_t ends, before;
	MUST(sigemptyset(&ends) == 0 && sigaddset(&ends, SIGCHLD) == 0);
	MUST(sigprocmask(SIG_BLOCK, &ends, &before) == 0);

	double start = now();
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0) {
		MUST(setpgid(0, 0) == 0);
		MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
		MUST(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
		execvp(argv[3], argv + 3);
		fprintf(stderr, "measure: %s: %s\n", argv[3], strerror(errno));
		_exit(127);
	}
	int late;
	while ((late = sigtimedwait(&ends, NULL, &limit) < 0) && errno == EINTR)
		;
	if (late)
		kill(-child, SIGKILL);
	int status;
	struct rusage usage;
	MUST(wait4(child, &status, 0, &usage) == child);
	double end = now();
	if (late)
		return 124;
	MUST(fprintf(out, "%.6f %.6f %ld\n", end - start,
		     seconds(usage.ru_utime) + seconds(usage.ru_stime),
		     usage.ru_maxrss) > 0);
	MUST(fclose(out) == 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
