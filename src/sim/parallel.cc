#include "sim/parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/check.h"

namespace decant {

int32_t ProcessorCount() {
  return std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

void ForEachInParallel(int32_t items, int32_t threads, const std::function<void(int32_t)>& body) {
  DECANT_CHECK(threads >= 1, "{} threads", threads);
  std::atomic<int32_t> next = 0;
  const auto take = [&] {
    for (int32_t item = next++; item < items; item = next++) body(item);
  };
  std::vector<std::jthread> others;
  for (int32_t i = 1; i < std::min(threads, items); ++i) others.emplace_back(take);
  take();
}

}  // namespace decant
