// C++ with what makes its stacks different: methods, templates, lambdas,
// exceptions in flight, virtual and inlined calls, and static initialisation.
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace outer {
namespace {

struct Base {
	virtual ~Base() = default;
	virtual int work(int n) = 0;
};

template <typename T> class Worker : public Base {
  public:
	explicit Worker(T value) : value_(value) {}
	int work(int n) override;

  private:
	int inlined(int n) { return n + static_cast<int>(value_.size()) + block(); }
	int block();
	T value_;
};

std::mutex mutex;
std::condition_variable changed;

template <typename T> __attribute__((noinline)) int Worker<T>::block()
{
	std::unique_lock<std::mutex> lock(mutex);
	changed.wait(lock, [] { return false; });
	return 1;
}

template <typename T> __attribute__((noinline)) int Worker<T>::work(int n) { return inlined(n) + 1; }

__attribute__((noinline)) void thrower(const std::string &why) { throw std::runtime_error(why); }

} // namespace

class Destroyer {
  public:
	~Destroyer() noexcept { thrower("in a destructor"); }
};

} // namespace outer

int main(int argc, char **)
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 2; i++)
		threads.emplace_back([i] {
			outer::Worker<std::string> w("abc");
			outer::Base *b = &w;
			return b->work(i);
		});
	std::function<void()> sleeper = [&] { pause(); };
	threads.emplace_back(sleeper);
	usleep(300 * 1000);
	if (argc > 1)
		outer::thrower("not caught");
	outer::Destroyer d;
	return 0;
}
