// Threads that wait for a few objects, in crowds of different sizes, those of the
// smallest first: one for a semaphore, one for a mutex, two for a condition
// variable, three (one of them for a time only) for another mutex. main holds both
// mutexes, and dies when all wait.
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

sem_t lone;
pthread_mutex_t quiet = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t calm = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t rest = PTHREAD_COND_INITIALIZER;
pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;

static pid_t tids[7];

static void *live(void *arg) {
  int i = *(int *)arg;
  __atomic_store_n(&tids[i], (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
  struct timespec later;
  clock_gettime(CLOCK_REALTIME, &later);
  later.tv_sec += 3600;
  switch (i) {
  case 0:
    sem_wait(&lone);
    break;
  case 1:
    pthread_mutex_lock(&quiet);
    break;
  case 2:
  case 3:
    pthread_mutex_lock(&calm);
    pthread_cond_wait(&rest, &calm);
    break;
  case 4:
    pthread_mutex_timedlock(&busy, &later);
    break;
  default:
    pthread_mutex_lock(&busy);
  }
  return NULL;
}

// waits tells whether a thread is in a futex call, as the kernel has it.
static int waits(pid_t tid) {
  char path[64], text[64] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)tid);
  int fd = open(path, O_RDONLY);
  if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
    exit(3);
  close(fd);
  return atoi(text) == SYS_futex && text[0] != 'r';
}

int main(void) {
  static int numbers[7];
  pthread_t t;
  sem_init(&lone, 0, 0);
  pthread_mutex_lock(&quiet);
  pthread_mutex_lock(&busy);
  for (int i = 0; i < 7; i++) {
    numbers[i] = i;
    if (pthread_create(&t, NULL, live, &numbers[i]))
      return 3;
    while (!__atomic_load_n(&tids[i], __ATOMIC_SEQ_CST) || !waits(tids[i]))
      usleep(1000);
  }
  abort();
}
