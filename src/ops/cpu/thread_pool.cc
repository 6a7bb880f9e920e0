#include "ops/cpu/thread_pool.h"

#include "base/check.h"

namespace decant {
namespace {

constexpr int kSpins = 4000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  DECANT_CHECK(threads >= 1, "a team needs a thread, got {}", threads);
  for (int worker = 1; worker < threads; ++worker) {
    workers_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(int64_t items, void* context, Invoke invoke) {
  if (workers_.empty() || items <= 1) {
    for (int64_t item = 0; item < items; ++item) invoke(context, item, 0);
    return;
  }
  context_ = context;
  invoke_ = invoke;
  items_ = items;
  next_.store(0, std::memory_order_relaxed);
  working_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  TakeItems(0);
  // Every worker reports, so that none can still hold this region's state when the next one is
  // written.
  int spins = 0;
  while (working_.load(std::memory_order_acquire) != 0) {
    if (++spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::TakeItems(int worker) {
  for (;;) {
    const int64_t item = next_.fetch_add(1, std::memory_order_relaxed);
    if (item >= items_) return;
    invoke_(context_, item, worker);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  uint32_t seen = 0;
  for (;;) {
    int spins = 0;
    while (generation_.load(std::memory_order_acquire) == seen) {
      if (++spins < kSpins) {
        Pause();
      } else {
        generation_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    TakeItems(worker);
    working_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace decant
