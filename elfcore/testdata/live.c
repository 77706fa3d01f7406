/* Writes down what the kernel said of the process, to the file that the
   environment variable FACTS names, and dies:

       ppid NUMBER
       auxv TYPE VALUE       each entry of /proc/self/auxv
       region NAME ADDRESS   memory of REGION_PAGES pages, of each kind
       map LINE              each line of /proc/self/maps */
#include "witness.h"
#include <sys/auxv.h>

enum { REGION_PAGES = 3 };

/* No more than a buffer of this program's own, as malloc would change what is
   written down. */
static char buffer[64 * 1024];

static size_t slurp(const char *path)
{
	size_t size = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY);
	MUST(fd >= 0);
	while ((n = read(fd, buffer + size, sizeof buffer - size)) > 0)
		size += n;
	MUST(n == 0 && size < sizeof buffer);
	MUST(close(fd) == 0);
	return size;
}

static char *region(int fd, const char *name, int protection)
{
	size_t size = REGION_PAGES * sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	MUST(memory != MAP_FAILED);
	for (size_t i = 0; i < size; i++)
		memory[i] = (char)(i * 7 + i / 256);
	MUST(mprotect(memory, size, protection) == 0);
	dprintf(fd, "region %s %lx\n", name, ADDRESS(memory));
	return memory;
}

static void facts(void)
{
	worker("worker-0", LIBC_STACK);
	worker("worker-1", USER_STACK);
	zombie("zombie-0", LIBC_STACK);
	int fd = open(getenv("FACTS"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	MUST(fd >= 0);
	dprintf(fd, "ppid %d\n", getppid());
	region(fd, "dumped", PROT_READ | PROT_WRITE);
	region(fd, "dumped-read-only", PROT_READ);
	char *left_out = region(fd, "left-out", PROT_READ | PROT_WRITE);
	MUST(madvise(left_out, REGION_PAGES * sysconf(_SC_PAGESIZE), MADV_DONTDUMP) == 0);
	char *gone = region(fd, "gone", PROT_READ | PROT_WRITE);
	MUST(munmap(gone, REGION_PAGES * sysconf(_SC_PAGESIZE)) == 0);
	size_t words = slurp("/proc/self/auxv") / sizeof(unsigned long);
	for (unsigned long *w = (unsigned long *)(void *)buffer; words >= 2 && w[0] != AT_NULL; w += 2, words -= 2)
		dprintf(fd, "auxv %lx %lx\n", w[0], w[1]);
	buffer[slurp("/proc/self/maps")] = 0;
	for (char *line = strtok(buffer, "\n"); line != NULL; line = strtok(NULL, "\n"))
		dprintf(fd, "map %s\n", line);
	MUST(close(fd) == 0);
	testify(0);
}

static const struct scenario scenarios[] = {
	{"facts", "what the kernel said of the process", facts},
};

int main(int argc, char **argv)
{
	return play(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
