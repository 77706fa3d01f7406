/* Waits of the C++ library, for cxxwaits.c: functions that never return. It is
   built as a library of its own, -shared -fPIC -std=c++20. */
#include <atomic>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <unistd.h>

namespace {

std::atomic<int> number{7};
std::atomic<long long> wide{7}; // waits on a word of libstdc++'s pool
std::latch gate{1};
std::counting_semaphore<9> tokens{0};
std::promise<int> promised;
std::shared_future<int> result = promised.get_future().share();
std::mutex taken, pool_mutex;
std::condition_variable pool;

int slow()
{
	for (;;)
		pause();
}

} // namespace

extern "C" {

void wait_atomic(void *) { number.wait(7); }
void wait_wide(void *) { wide.wait(7); }
void wait_latch(void *) { gate.wait(); }
void wait_semaphore(void *) { tokens.acquire(); }
void wait_future(void *) { result.wait(); }
void wait_mutex(void *) { taken.lock(); }

void wait_initialised(void *)
{
	static int value = slow();
	(void)value;
}

void wait_pool(void *)
{
	std::unique_lock<std::mutex> l(pool_mutex);
	for (;;)
		pool.wait(l);
}

void *cxx_mutex(void) { return taken.native_handle(); }
void *cxx_pool(void) { return pool.native_handle(); }
void *cxx_pool_mutex(void) { return pool_mutex.native_handle(); }
}
