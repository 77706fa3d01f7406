/* A library whose constructor starts a thread and waits for it, inside dlopen;
   the thread needs the dynamic loader first. The program says how it waits, and
   is told of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

extern const char *plug_way;
extern void plug_started(void), plug_waits(const char *kind, void *object, void *mutex, void (*listen)(void));

static sem_t ready, may_listen;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void *listen(void *unused)
{
	(void)unused;
	plug_started();
	while (sem_wait(&may_listen) != 0)
		;
	dlsym(RTLD_DEFAULT, "no_such_function");
	sem_post(&ready);
	pthread_cond_signal(&cond);
	return NULL;
}

static void go_on(void) { sem_post(&may_listen); }

__attribute__((constructor)) static void start(void)
{
	static pthread_t listener;
	sem_init(&ready, 0, 0);
	sem_init(&may_listen, 0, 0);
	pthread_create(&listener, NULL, listen, NULL);
	if (strcmp(plug_way, "sem") == 0) {
		plug_waits("sem", &ready, NULL, go_on);
		while (sem_wait(&ready) != 0)
			;
	} else if (strcmp(plug_way, "cond") == 0) {
		pthread_mutex_lock(&mutex);
		plug_waits("cond", &cond, &mutex, go_on);
		pthread_cond_wait(&cond, &mutex);
	} else {
		plug_waits("join", (void *)listener, NULL, go_on);
		pthread_join(listener, NULL);
	}
}
