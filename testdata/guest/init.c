/* The first and only program of a guest: plays scenarios until they dump core,
   prints the files that they leave to the console, and turns the machine off.

   usage: init PROGRAM SCENARIO...

   A file is printed as "@file SCENARIO NAME SIZE", then "@at OFFSET HEX" for each
   32 bytes that are not all zero, then "@end". testdata/regen puts it together
   again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define PLACE "/var/tmp/corethreads"

static _Noreturn void turn_off(void)
{
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	reboot(RB_POWER_OFF);
	for (;;)
		pause();
}

#define MUST(condition)                                                          \
	do {                                                                     \
		if (!(condition)) {                                              \
			printf("@failed %s: %s\n", #condition, strerror(errno)); \
			turn_off();                                              \
		}                                                                \
	} while (0)

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	MUST(fd >= 0);
	MUST(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	MUST(close(fd) == 0);
}

static void play(char *program, char *scenario)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	char *arguments[] = {program, scenario, NULL};
	char *environment[] = {"PATH=/usr/bin:/bin", NULL};
	int status;
	pid_t pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		MUST(setrlimit(RLIMIT_CORE, &none) == 0);
		execve(program, arguments, environment);
		_exit(127);
	}
	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFSIGNALED(status) && WCOREDUMP(status));
}

static void print_file(const char *scenario, const char *name)
{
	unsigned char chunk[32];
	static const unsigned char zeroes[sizeof chunk];
	struct stat st;
	FILE *f = fopen(name, "rb");
	MUST(f != NULL);
	MUST(fstat(fileno(f), &st) == 0);
	printf("\n@file %s %s %lld\n", scenario, name, (long long)st.st_size);
	for (long long offset = 0;; offset += sizeof chunk) {
		size_t n = fread(chunk, 1, sizeof chunk, f);
		if (n == 0)
			break;
		if (memcmp(chunk, zeroes, n) == 0)
			continue;
		printf("@at %lld ", offset);
		for (size_t i = 0; i < n; i++)
			printf("%02x", chunk[i]);
		printf("\n");
	}
	MUST(fclose(f) == 0);
	printf("@end\n");
}

/* Prints and removes what a scenario left beside the program. */
static void print_files(const char *program, const char *scenario)
{
	struct dirent *e;
	DIR *d = opendir(".");
	MUST(d != NULL);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.' || strcmp(e->d_name, strrchr(program, '/') + 1) == 0)
			continue;
		print_file(scenario, e->d_name);
		MUST(unlink(e->d_name) == 0);
	}
	MUST(closedir(d) == 0);
}

int main(int argc, char **argv)
{
	MUST(mount("none", "/dev", "devtmpfs", 0, NULL) == 0);
	MUST(mount("none", "/proc", "proc", 0, NULL) == 0);
	int console = open("/dev/console", O_RDWR);
	MUST(console >= 0 && dup2(console, STDOUT_FILENO) == STDOUT_FILENO);
	write_text("/proc/sys/kernel/core_pattern", "core");
	write_text("/proc/sys/kernel/printk", "0");
	MUST(chdir(PLACE) == 0);
	for (int i = 2; i < argc; i++) {
		play(argv[1], argv[i]);
		print_files(argv[1], argv[i]);
	}
	printf("@done\n");
	turn_off();
}
