#include "ops/cpu/read_bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace decant {
namespace {

constexpr size_t kLanes = 32;  // independent sums, so that no addition waits for another

uint64_t SumWords(const uint64_t* words, size_t count) {
  std::array<uint64_t, kLanes> lanes{};
  for (size_t i = 0; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += words[i + lane];
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum += lane;
  return sum;
}

}  // namespace

double MeasureReadBandwidth(int32_t threads, int64_t bytes, int32_t passes) {
  DECANT_CHECK(threads >= 1 && bytes >= 1 << 16 && passes >= 1);
  const size_t words_per_thread =
      static_cast<size_t>(bytes) / sizeof(uint64_t) / static_cast<size_t>(threads);
  std::vector<double> starts(static_cast<size_t>(passes));
  std::vector<double> ends(static_cast<size_t>(passes));
  std::atomic<uint64_t> sink = 0;  // keeps the sums from being optimised away
  std::barrier meet(threads);
  const auto work = [&](int32_t thread) {
    // Each thread fills its own part first, so that the memory lies near it and is really there.
    std::vector<uint64_t> words(words_per_thread, static_cast<uint64_t>(thread) + 1);
    for (size_t pass = 0; pass < starts.size(); ++pass) {
      meet.arrive_and_wait();
      if (thread == 0) starts[pass] = SteadySeconds();
      sink += SumWords(words.data(), words.size());
      meet.arrive_and_wait();
      if (thread == 0) ends[pass] = SteadySeconds();
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(static_cast<size_t>(threads));
    for (int32_t thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
  }
  double best = 0;
  for (size_t pass = 0; pass < starts.size(); ++pass)
    best = std::max(best, 1 / (ends[pass] - starts[pass]));
  return best * static_cast<double>(words_per_thread * sizeof(uint64_t)) * threads;
}

}  // namespace decant
