// A lambda and a method of a local class, both with inlined functions in them.
#include <cstdlib>

#define KEPT __attribute__((noinline, noclone))
#define INLINED static inline __attribute__((always_inline))

static volatile int sink;

INLINED void die(int n)
{
	if (n >= sink)
		abort();
}

KEPT static int lambda(int n)
{
	auto f = [](int m) KEPT {
		die(m);
		return m + sink;
	};
	return f(n) + sink;
}

INLINED int once_more(int n) { return lambda(n) + 1; }
INLINED int once(int n) { return once_more(n) + 1; }

KEPT static int local(int n)
{
	struct Local {
		KEPT static int run(int m) { return once(m) + sink; }
	};
	return Local::run(n) + sink;
}

int main() { return local(10) + sink; }
