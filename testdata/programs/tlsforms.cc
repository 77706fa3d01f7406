/* Thread-local variables in all the forms that C++ has, one value each in main,
   in a thread that has touched them all, in one that has touched none, and in one
   that has exited after it had.

   It writes truth.json, by the variables' names in source, and aborts. All are the
   program's own and thus at one distance from every thread's pointer, which is
   how the thread that touches none knows where its own are. */
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MUST(condition)                                                                        \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			std::fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #condition); \
			std::exit(2);                                                          \
		}                                                                              \
	} while (0)

/* Not the type of that name below. */
namespace other {
struct Elsewhere {
	int x;
} decoy;
}

namespace app {

/* Made by its constructor when a thread first uses it, and unmade when that
   exits; before, it is zero. */
struct Made {
	volatile int value;
	Made();
	~Made();
};

static int made = 400;
Made::Made() : value(++made) {}
Made::~Made() { value = -1; }

thread_local int plain = 100;
thread_local Made dynamic;
inline thread_local int shared = 101;
thread_local short narrow = -5;
thread_local char letter = 'x';
__attribute__((abi_tag("second"))) thread_local int tagged = 113;

struct Widget {
	static thread_local int instances;
	struct Part {
		static thread_local int parts;
	};
};
thread_local int Widget::instances = 102;
thread_local int Widget::Part::parts = 103;

template <typename T> struct Box {
	static thread_local T last;
};
template <typename T> thread_local T Box<T>::last = 104;

namespace {
thread_local int hidden = 105;
}

struct Base {
	int id = 110;
};
struct Engine : Base {
	union {
		int either;
		char or_that;
	};
	struct {
		short first, second;
	} pair{1, 111};
	Widget::Part *parts[3]{};
	Engine *self = nullptr;
};
thread_local Engine engine{{}, {112}};
thread_local Engine *current;
using Alias = Engine;
thread_local const volatile Alias *seen;
struct Elsewhere;
thread_local Elsewhere *elsewhere;

int *next()
{
	static thread_local int calls = 106;
	return &calls;
}

int *previous(int, const char *)
{
	static thread_local int calls = 107;
	return &calls;
}

} // namespace app

thread_local long global = 108;
extern "C" thread_local int in_c;
thread_local int in_c = 109;

namespace {

struct Form {
	const char *name;
	void *(*address)();
	size_t size;
	long initial; /* before a thread touches it */
};

template <typename T> void *generic(T *p) { return const_cast<void *>(static_cast<const volatile void *>(p)); }

const Form forms[] = {
	{"app::plain", [] { return generic(&app::plain); }, sizeof(int), 100},
	{"app::dynamic", [] { return generic(&app::dynamic.value); }, sizeof(int), 0},
	{"app::shared", [] { return generic(&app::shared); }, sizeof(int), 101},
	{"app::narrow", [] { return generic(&app::narrow); }, sizeof(short), -5},
	{"app::letter", [] { return generic(&app::letter); }, sizeof(char), 'x'},
	{"app::tagged", [] { return generic(&app::tagged); }, sizeof(int), 113},
	{"app::Widget::instances", [] { return generic(&app::Widget::instances); }, sizeof(int), 102},
	{"app::Widget::Part::parts", [] { return generic(&app::Widget::Part::parts); }, sizeof(int), 103},
	{"app::Box<int>::last", [] { return generic(&app::Box<int>::last); }, sizeof(int), 104},
	{"app::Box<long>::last", [] { return generic(&app::Box<long>::last); }, sizeof(long), 104},
	{"app::(anonymous namespace)::hidden", [] { return generic(&app::hidden); }, sizeof(int), 105},
	{"app::next()::calls", [] { return generic(app::next()); }, sizeof(int), 106},
	{"app::previous(int, char const*)::calls", [] { return generic(app::previous(0, "")); }, sizeof(int), 107},
	{"app::engine.id", [] { return generic(&app::engine.id); }, sizeof(int), 110},
	{"app::engine.either", [] { return generic(&app::engine.either); }, sizeof(int), 112},
	{"app::engine.pair.second", [] { return generic(&app::engine.pair.second); }, sizeof(short), 111},
	{"global", [] { return generic(&global); }, sizeof(long), 108},
	{"in_c", [] { return generic(&in_c); }, sizeof(int), 109},
};
constexpr int form_count = sizeof forms / sizeof *forms;

enum Use { TOUCHES, TOUCHES_NONE, EXITS };

struct Witness {
	const char *role, *state;
	Use use;
	pthread_t self;
	pid_t tid;
	char *pointer;
	char *addresses[form_count];
	long values[form_count];
	sem_t published;
};

long read(const Form &f, const char *at)
{
	switch (f.size) {
	case sizeof(char): return *at;
	case sizeof(short): return *reinterpret_cast<const short *>(at);
	case sizeof(int): return *reinterpret_cast<const int *>(at);
	default: return *reinterpret_cast<const long *>(at);
	}
}

void increment(const Form &f, char *at, int by)
{
	switch (f.size) {
	case sizeof(char): *at = static_cast<char>(*at + by); break;
	case sizeof(short): *reinterpret_cast<short *>(at) = static_cast<short>(*reinterpret_cast<short *>(at) + by); break;
	case sizeof(int): *reinterpret_cast<int *>(at) += by; break;
	default: *reinterpret_cast<long *>(at) += by;
	}
}

Witness witnesses[] = {
	{"main", "running", TOUCHES, {}, {}, {}, {}, {}, {}},
	{"busy", "running", TOUCHES, {}, {}, {}, {}, {}, {}},
	{"idle", "running", TOUCHES_NONE, {}, {}, {}, {}, {}, {}},
	{"gone", "zombie", EXITS, {}, {}, {}, {}, {}, {}},
};

void publish(Witness &w)
{
	w.self = pthread_self();
	w.tid = gettid();
	w.pointer = static_cast<char *>(__builtin_thread_pointer());
	if (w.use != TOUCHES_NONE)
		app::seen = app::current = app::engine.self = &app::engine;
	int number = 1 + static_cast<int>(&w - witnesses);
	for (int i = 0; i < form_count; i++) {
		const Form &f = forms[i];
		if (w.use == TOUCHES_NONE) {
			w.addresses[i] = w.pointer + (witnesses[0].addresses[i] - witnesses[0].pointer);
			w.values[i] = f.initial;
			continue;
		}
		w.addresses[i] = static_cast<char *>(f.address());
		increment(f, w.addresses[i], number);
		w.values[i] = read(f, w.addresses[i]);
		if (w.use == EXITS && f.initial == 0)
			w.values[i] = -1; /* by the destructor */
	}
	MUST(sem_post(&w.published) == 0);
}

void *live(void *argument)
{
	Witness &w = *static_cast<Witness *>(argument);
	publish(w);
	if (w.use == EXITS)
		return nullptr;
	for (;;)
		pause();
}

void write_truth()
{
#if defined __x86_64__
	const char *arch = "x86_64";
#elif defined __i386__
	const char *arch = "i386";
#else
#error "say here what this architecture is called"
#endif
	int fd = open("truth.json", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	MUST(fd >= 0);
	dprintf(fd, "{\"scenario\":\"forms\",\"arch\":\"%s\",\"libc\":\"glibc %s\",\"pid\":%d,\"crash_tid\":%d,\n \"threads\":[",
		arch, gnu_get_libc_version(), getpid(), gettid());
	for (const Witness &w : witnesses) {
		dprintf(fd, "%s\n  {\"role\":\"%s\",\"tid\":%d,\"pthread\":\"%#lx\",\"state\":\"%s\",\"user_stack\":%s,\"tls\":{",
			&w == witnesses ? "" : ",", w.role, w.tid, static_cast<unsigned long>(w.self), w.state,
			&w == witnesses ? "true" : "false");
		for (int i = 0; i < form_count; i++)
			dprintf(fd, "%s\n   \"%s\":{\"addr\":\"%#lx\",\"kind\":\"int\",\"size\":%zu,\"value\":%ld}", i ? "," : "", forms[i].name,
				reinterpret_cast<unsigned long>(w.addresses[i]), forms[i].size, w.values[i]);
		dprintf(fd, "}}");
	}
	MUST(dprintf(fd, "],\n \"zombies\":[\"%#lx\"],\n \"shadowed_lwp\":null,\n \"notes\":\"\"}\n", static_cast<unsigned long>(witnesses[3].self)) > 0);
	MUST(close(fd) == 0);
}

} // namespace

int main()
{
	app::elsewhere = reinterpret_cast<app::Elsewhere *>(witnesses);
	for (Witness &w : witnesses) {
		MUST(sem_init(&w.published, 0, 0) == 0);
		if (&w == witnesses) {
			publish(w);
			continue;
		}
		pthread_t thread;
		MUST(pthread_create(&thread, nullptr, live, &w) == 0);
		while (sem_wait(&w.published) != 0)
			;
		while (w.use == EXITS && syscall(SYS_tgkill, getpid(), w.tid, 0) == 0)
			sched_yield();
	}
	write_truth();
	std::abort();
}
