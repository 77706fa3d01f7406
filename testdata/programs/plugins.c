/* Thread-locals of a library, plugin.c, that is loaded while threads exist. Its
   path is in the environment, as PLUGIN. */
#include "witness.h"
#include <dlfcn.h>

enum { PLUGIN_VALUE = 42 }; /* main's; it stays 5 in all others */

static int *(*plugin_variable)(void);

static void *load_plugin(void *w)
{
	const char *path = getenv("PLUGIN");
	MUST(path != NULL);
	void *plugin = dlopen(path, RTLD_NOW);
	if (plugin == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(2);
	}
	*(void **)&plugin_variable = dlsym(plugin, "plugin_variable");
	MUST(plugin_variable != NULL);
	return live(w);
}

static void plugin_late(void)
{
	worker("worker-0", LIBC_STACK);
	zombie("zombie-0", USER_STACK);
	launch("loader", "running", LIBC_STACK, load_plugin);
	*plugin_variable() = PLUGIN_VALUE;
	testify(getpid());
}

static const struct scenario scenarios[] = {
	{"plugin-late", "one zombie on a user stack, then a thread loads a library: main's dtv says nothing of it", plugin_late},
};

int main(int argc, char **argv)
{
	return play(argc, argv, scenarios, sizeof scenarios / sizeof *scenarios);
}
