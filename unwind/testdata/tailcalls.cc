// Tail calls as C++ has them: of methods, of templates, through virtual
// functions, from lambdas and out of namespaces. Each thread is in one of them.
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>
#include "tailcalls.h"

volatile int sink;
// zero stays 0, so that nothing returns; the compiler must not know.
static volatile int zero;
static pthread_barrier_t barrier;

extern "C" STEP int hold(int n)
{
	pthread_barrier_wait(&barrier);
	while (!zero)
		pause();
	return sink + n;
}

namespace outer {

namespace {

STEP int hidden(int n)
{
	sink = sink + 1;
	return hold(n + 1);
}

} // namespace

STEP int visible(int n)
{
	sink = sink + 2;
	return hidden(n + 1);
}

class Step {
public:
	explicit Step(int by) : by(by) {}
	STEP int take(int n) const
	{
		sink = sink + by;
		return visible(n + by);
	}
	STEP static int still(int n)
	{
		sink = sink + 3;
		return hold(n);
	}
	int outside(int n) const;

private:
	int by;
};

STEP int Step::outside(int n) const
{
	sink = sink - by;
	return take(n - 1);
}

template <typename T> STEP int generic(T n)
{
	sink = sink + sizeof n;
	return Step::still(int(n));
}

struct Base {
	virtual ~Base() = default;
	virtual int run(int n) = 0;
};

struct Derived : Base {
	STEP int run(int n) override
	{
		sink = sink + 5;
		return hold(n);
	}
};

STEP int by_vtable(Base *b, int n)
{
	sink = sink + 6;
	return b->run(n);
}

} // namespace outer

static outer::Base *volatile base = new outer::Derived;
static outer::Step *volatile step = new outer::Step(3);

static int method(int n) { return step->outside(n) + sink; }
static int function(int n) { return outer::visible(n) + sink; }
static int of_template(int n) { return outer::generic(long(n)) + sink; }
static int of_class(int n) { return outer::Step::still(n) + sink; }
static int by_vtable(int n) { return outer::by_vtable(base, n) + sink; }
static int of_virtual(int n) { return base->run(n) + sink; }
static int lambda(int n)
{
	auto f = [](int m) STEP {
		sink = sink + m;
		return outer::visible(m);
	};
	return f(n) + sink;
}
static inline __attribute__((always_inline)) int inlined(int n)
{
	sink = sink + 9;
	return outer::visible(n) + sink;
}
static int in_lambda(int n)
{
	auto f = [](int m) STEP { return inlined(m) + 1; };
	return f(n) + sink;
}
static int to_c(int n) { return other_file(n) + sink; }
static int to_library(int n) { return library_entry(n) + sink; }
static int thrown(int n)
{
	try {
		return outer::visible(n) + sink;
	} catch (int i) {
		return outer::visible(n + i) - sink;
	}
}

typedef int (*way)(int);
static const way ways[] = {method, function, of_template, of_class, by_vtable, of_virtual, lambda, in_lambda, to_c, to_library, thrown};

static void *start(void *arg)
{
	sink = sink + (*static_cast<const way *>(arg))(1000);
	return nullptr;
}

int main()
{
	const int n = sizeof ways / sizeof *ways;
	pthread_t id;
	pthread_barrier_init(&barrier, nullptr, n + 1);
	for (const way &w : ways)
		if (pthread_create(&id, nullptr, start, const_cast<way *>(&w)))
			abort();
	pthread_barrier_wait(&barrier);
	usleep(200 * 1000);
	abort();
}
