#include "ops/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>

namespace decant {
namespace {

TEST(ThreadPoolTest, RunsEveryItemOnceInEveryRegion) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    std::vector<int> hits(37);
    for (int region = 0; region < 2000; ++region) {
      // Unsynchronised writes: the pool must order a region before the next one.
      pool.Run(region % 38, [&](int64_t item, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, threads);
        ++hits[item];
      });
    }
    int expected_first = 0;
    for (int region = 0; region < 2000; ++region) expected_first += region % 38 > 0 ? 1 : 0;
    EXPECT_EQ(hits[0], expected_first);
    int64_t expected = 0;
    for (int region = 0; region < 2000; ++region) expected += region % 38;
    EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), int64_t{0}), expected);
  }
}

TEST(ThreadPoolTest, WorkersWakeAfterSleeping) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> done{0};
    pool.Run(16, [&](int64_t, int) { done.fetch_add(1); });
    EXPECT_EQ(done.load(), 16);
  }
}

}  // namespace
}  // namespace decant
