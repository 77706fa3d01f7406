// Loads libraries as its arguments say, writes down what the loader and the
// kernel have mapped, and aborts.
//
//   dlopen PATH, dlmopen PATH    load a library
//   unlink PATH                  remove a file
//   filter BITS                  set /proc/self/coredump_filter
//
// In the working directory it leaves truth, with a line for each
//   map NAMESPACE LINKMAP L_ADDR L_LD L_NAME    link map, in the order of the chain
//   symbol NAME ADDRESS                         symbol of its own
//   code HEX                                    the bytes of own_function
//   glibc VERSION
// and maps, a copy of /proc/self/maps.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int own_variable = 42;
const int own_constant = 43;
_Thread_local int own_tls = 44;
static _Thread_local long own_hidden_tls;

__attribute__((noinline)) int own_function(int n)
{
	return n * own_constant + own_variable;
}

static __attribute__((noinline)) int own_hidden_function(int n)
{
	own_hidden_tls += n;
	return own_function(n) + own_tls;
}

static void die(const char *what)
{
	perror(what);
	exit(2);
}

#ifndef STATIC
static void write_maps(FILE *f, int namespace, struct link_map *m)
{
	while (m->l_prev)
		m = m->l_prev;
	for (; m; m = m->l_next)
		fprintf(f, "map %d %p %#lx %p %s\n", namespace, (void *)m, (unsigned long)m->l_addr, (void *)m->l_ld, m->l_name);
}
#endif

static void copy(const char *from, const char *to)
{
	char buf[4096];
	ssize_t n;
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (in < 0 || out < 0)
		die(to);
	while ((n = read(in, buf, sizeof buf)) > 0)
		if (write(out, buf, n) != n)
			die(to);
	close(in);
	close(out);
}

int main(int argc, char **argv)
{
	struct link_map *other[16];
	int others = 0;
	FILE *f = fopen("truth", "w");
	if (!f)
		die("truth");
	for (int i = 1; i + 1 < argc; i += 2) {
		const char *arg = argv[i + 1];
		if (!strcmp(argv[i], "unlink")) {
			if (unlink(arg))
				die(arg);
		} else if (!strcmp(argv[i], "filter")) {
			int fd = open("/proc/self/coredump_filter", O_WRONLY);
			if (fd < 0 || write(fd, arg, strlen(arg)) < 0)
				die("coredump_filter");
			close(fd);
		} else {
			int apart = !strcmp(argv[i], "dlmopen");
			void *h = apart ? dlmopen(LM_ID_NEWLM, arg, RTLD_NOW) : dlopen(arg, RTLD_NOW);
			if (!h) {
				fprintf(stderr, "%s\n", dlerror());
				return 2;
			}
			if (apart && others < 16)
				other[others++] = h;
		}
	}
#ifndef STATIC
	write_maps(f, 0, dlopen(0, RTLD_NOW));
	for (int i = 0; i < others; i++) {
		Lmid_t id;
		if (dlinfo(other[i], RTLD_DI_LMID, &id))
			die("dlinfo");
		write_maps(f, id, other[i]);
	}
#endif
	fprintf(f, "symbol main %p\n", (void *)main);
	fprintf(f, "symbol own_function %p\n", (void *)own_function);
	fprintf(f, "symbol own_hidden_function %p\n", (void *)own_hidden_function);
	fprintf(f, "symbol own_variable %p\n", (void *)&own_variable);
	fprintf(f, "symbol own_constant %p\n", (void *)&own_constant);
	fprintf(f, "symbol fprintf %p\n", (void *)fprintf);
	fprintf(f, "code ");
	for (int i = 0; i < 16; i++)
		fprintf(f, "%02x", ((unsigned char *)own_function)[i]);
	fprintf(f, "\nglibc %s\n", gnu_get_libc_version());
	if (fclose(f))
		die("truth");
	copy("/proc/self/maps", "maps");
	own_variable = own_hidden_function(argc);
	abort();
}
