#include "sim/fault_hunt.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "base/testing/sanitized.h"
#include "sim/mutations.h"
#include "sim/shrink_history.h"

namespace decant {
namespace {

constexpr int64_t kHistories = kSanitized ? 500 : 10'000;

TEST(FaultHuntTest, FindsNothingInTheEnginesScheduler) {
  int64_t done = 0;
  const HuntResult result = HuntFaults({.first_seed = 1, .histories = kHistories, .threads = 2},
                                       MakeRealSubject, [&](int64_t more) { done += more; });
  EXPECT_EQ(result.histories, kHistories);
  EXPECT_EQ(done, kHistories);
  EXPECT_EQ(result.failed, 0);
  for (const FoundFault& fault : result.faults) {
    ADD_FAILURE() << "seed " << fault.seed << ": " << fault.breach.what;
  }
  // The histories are worth something only if all these happened.
  const HistoryCounts& counts = result.counts;
  EXPECT_GT(counts.requests, 5 * kHistories);
  EXPECT_GT(counts.refused, kHistories / 10);
  EXPECT_GT(counts.finished, 2 * kHistories);
  EXPECT_GT(counts.cancelled, kHistories / 2);
  EXPECT_GT(counts.failed, kHistories / 10);
  EXPECT_GT(counts.cut_off, kHistories / 50);
}

TEST(FaultHuntTest, FindsTheSameOnAnyNumberOfThreads) {
  const SubjectFactory faulty = MutatedSubjects(Mutation::kDropCancel);
  const auto hunt = [&](int32_t threads) {
    return HuntFaults({.first_seed = 1, .histories = 200, .threads = threads, .most_shrunk = 2},
                      faulty, [](int64_t /*more*/) {});
  };
  const HuntResult one = hunt(1);
  const HuntResult three = hunt(3);
  ASSERT_EQ(one.faults.size(), 2);
  ASSERT_EQ(three.faults.size(), 2);
  EXPECT_EQ(one.failed, three.failed);
  EXPECT_EQ(one.counts.steps, three.counts.steps);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(one.faults[i].seed, three.faults[i].seed);
    EXPECT_EQ(DescribeHistory(one.faults[i].shrunk), DescribeHistory(three.faults[i].shrunk));
  }
}

TEST(FaultHuntDeathTest, SaysWhichSeedAborted) {
  const SubjectFactory aborting =
      [](const HistorySetup& /*setup*/,
         const PagePool::FreeObserver& /*freed*/) -> std::unique_ptr<SchedulerSubject> {
    std::abort();
  };
  EXPECT_DEATH(
      {
        NameSeedOnAbort();
        HuntFaults({.first_seed = 4711, .histories = 1}, aborting, [](int64_t /*more*/) {});
      },
      "--seed 4711\n");
}

TEST(ShrinkHistoryTest, LeavesWhatTheFaultNeeds) {
  const SubjectFactory faulty = MutatedSubjects(Mutation::kDropCancel);
  const HuntResult hunt = HuntFaults({.first_seed = 1, .histories = 200, .most_shrunk = 1}, faulty,
                                     [](int64_t /*more*/) {});
  ASSERT_EQ(hunt.faults.size(), 1);
  const Promise promise = hunt.faults.front().breach.promise;
  const FaultHistory& shrunk = hunt.faults.front().shrunk;
  const HistoryOutcome outcome = RunHistory(shrunk, faulty);
  ASSERT_TRUE(outcome.breach.has_value());
  EXPECT_EQ(outcome.breach->promise, promise);
  // A request, a turn in which it starts to read its prompt, a cancel and a turn that receives it.
  EXPECT_LE(shrunk.events.size(), 4);
  for (size_t i = 0; i < shrunk.events.size(); ++i) {
    FaultHistory smaller = shrunk;
    smaller.events.erase(smaller.events.begin() + static_cast<std::ptrdiff_t>(i));
    const Verdict breach = RunHistory(smaller, faulty).breach;
    EXPECT_FALSE(breach && breach->promise == promise) << "event " << i;
  }
}

}  // namespace
}  // namespace decant
