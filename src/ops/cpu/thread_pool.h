#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace decant {

/// A fixed team of threads for short parallel regions. The thread that calls Run is worker 0 and
/// works too; one thread at a time may call it. Workers spin for some tens of microseconds between
/// regions, since a step has hundreds of them, and sleep after that.
class ThreadPool {
 public:
  /// A team of `threads` in all, the caller included; at least 1.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// body(item, worker) once for each item in [0, items), items handed out in order; returns when
  /// all are done.
  template <typename Body>
  void Run(int64_t items, Body&& body) {
    using Function = std::remove_reference_t<Body>;
    RunErased(items, const_cast<void*>(static_cast<const void*>(&body)),
              [](void* context, int64_t item, int worker) {
                (*static_cast<Function*>(context))(item, worker);
              });
  }

 private:
  using Invoke = void (*)(void* context, int64_t item, int worker);

  void RunErased(int64_t items, void* context, Invoke invoke);
  void WorkerLoop(int worker);
  void TakeItems(int worker);

  // The region being run; written by the caller before generation_ moves, read by workers after.
  void* context_ = nullptr;
  Invoke invoke_ = nullptr;
  int64_t items_ = 0;

  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int> working_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace decant
