// A library with C++ symbols of all kinds. VARIANT makes another build.
#ifndef VARIANT
#define VARIANT 1
#endif
namespace shop {
thread_local int till = VARIANT;
struct Basket {
	static thread_local long weight;
	int add(int item, const char *label);
};
thread_local long Basket::weight = 3;
__attribute__((noinline)) int Basket::add(int item, const char *label)
{
	static thread_local int calls;
	weight += item;
	return ++calls + till + label[0];
}
template <class T> __attribute__((noinline)) T twice(T v) { return v + v; }
template long twice<long>(long);
}
static __attribute__((noinline)) int hidden(int n) { return n + VARIANT; }
extern "C" int library_function(int n)
{
	shop::Basket b;
	return hidden(b.add(n, "label"));
}
