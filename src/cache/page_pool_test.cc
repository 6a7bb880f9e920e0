#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/random.h"

namespace decant {
namespace {

std::vector<int32_t> Pages(const PageLease& lease) {
  return {lease.pages().begin(), lease.pages().end()};
}

TEST(PagePoolTest, RoundsUpToWholePagesAndHandsThemOutAllOrNothing) {
  PagePool pool(4, 16);
  EXPECT_EQ(pool.PagesFor(0), 0);
  EXPECT_EQ(pool.PagesFor(16), 1);
  EXPECT_EQ(pool.PagesFor(17), 2);
  auto one = pool.Reserve(1);
  auto two = pool.Reserve(17);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(Pages(*one), (std::vector<int32_t>{0}));
  EXPECT_EQ(Pages(*two), (std::vector<int32_t>{1, 2}));
  EXPECT_FALSE(pool.Reserve(17));
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_TRUE(pool.Reserve(16));  // dies at once
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(PagePoolTest, ReusesTheLastFreedPagesFirstAndInTheirOrder) {
  PagePool pool(6, 8);
  auto first = pool.Reserve(24);
  auto second = pool.Reserve(16);
  ASSERT_TRUE(first && second);
  first.reset();
  EXPECT_EQ(Pages(*pool.Reserve(24)), (std::vector<int32_t>{0, 1, 2}));
  second.reset();
  EXPECT_EQ(Pages(*pool.Reserve(24)), (std::vector<int32_t>{3, 4, 0}));
}

TEST(PagePoolTest, AMoveKeepsThePagesAndTheirSpan) {
  PagePool pool(3, 4);
  PageLease lease = *pool.Reserve(8);
  const std::span<const int32_t> pages = lease.pages();
  PageLease moved = std::move(lease);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_TRUE(lease.pages().empty()) << "a lease that was moved from holds nothing";
  EXPECT_EQ(moved.pages().data(), pages.data());
  EXPECT_EQ(pool.free_pages(), 1);
  PageLease other = *pool.Reserve(4);
  moved = std::move(other);  // gives back what it held
  EXPECT_EQ(Pages(moved), (std::vector<int32_t>{2}));
  EXPECT_EQ(pool.free_pages(), 2);
  moved.Release();
  moved.Release();
  EXPECT_EQ(pool.free_pages(), 3);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(PagePoolTest, TheObserverSeesPagesBeforeTheyAreFree) {
  PagePool pool(3, 4);
  std::vector<int32_t> freed;
  pool.set_free_observer([&](std::span<const int32_t> pages) {
    freed.insert(freed.end(), pages.begin(), pages.end());
    EXPECT_EQ(pool.free_pages(), 1);
  });
  pool.Reserve(5).reset();
  EXPECT_EQ(freed, (std::vector<int32_t>{0, 1}));
}

TEST(PagePoolTest, RefusesShapesWithTheNumbers) {
  for (const int32_t size : {1, 16, 48, 64, 256, kMaxPageSize}) {
    EXPECT_TRUE(ValidatePageSize(size).ok()) << size;
  }
  EXPECT_EQ(ValidatePageSize(0).message(), "a page of 0 slots: allowed are 1 to 65536");
  EXPECT_FALSE(ValidatePageSize(-16).ok());
  EXPECT_FALSE(ValidatePageSize(kMaxPageSize + 1).ok());
  EXPECT_FALSE(ValidatePoolShape(0, 16).ok());
  EXPECT_TRUE(ValidatePoolShape(std::numeric_limits<int32_t>::max() / 16, 16).ok());
  EXPECT_EQ(ValidatePoolShape(std::numeric_limits<int32_t>::max() / 16 + 1, 16).message(),
            "a pool of 134217728 pages: allowed are 1 to 134217727 of 16 slots");
}

TEST(PagePoolDeathTest, ALeaseMayNotOutliveItsPool) {
  EXPECT_DEATH(
      {
        std::optional<PageLease> lease;
        PagePool pool(1, 1);
        lease = pool.Reserve(1);
      },
      "1 leases outlive their pool");
}

TEST(PagePoolTest, EveryPageIsFreeOrLeasedOnceThroughoutRandomHistories) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const CounterRng rng(seed);
    uint64_t draw = 0;
    const auto below = [&](uint64_t bound) {
      return static_cast<int32_t>(rng.Below(draw++, bound));
    };
    PagePool pool(1 + below(24), 1 + below(20));
    std::vector<PageLease> leases;
    for (int i = 0; i < 60; ++i) {
      if (below(3) > 0) {
        const int32_t tokens = 1 + below(2 * pool.page_size() * pool.num_pages());
        const bool fits = (tokens + pool.page_size() - 1) / pool.page_size() <= pool.free_pages();
        auto lease = pool.Reserve(tokens);
        ASSERT_EQ(lease.has_value(), fits);
        if (lease) leases.push_back(std::move(*lease));
      } else if (!leases.empty()) {
        std::swap(leases[below(leases.size())], leases.back());
        leases.pop_back();
      }
      const Status integrity = pool.CheckIntegrity();
      ASSERT_TRUE(integrity.ok()) << integrity.ToString();
      std::set<int32_t> held;
      size_t count = 0;
      for (const PageLease& lease : leases) {
        held.insert(lease.pages().begin(), lease.pages().end());
        count += lease.pages().size();
      }
      ASSERT_EQ(held.size(), count) << "two leases share a page";
      ASSERT_EQ(static_cast<int32_t>(count) + pool.free_pages(), pool.num_pages());
    }
    leases.clear();
    ASSERT_EQ(pool.free_pages(), pool.num_pages());
  }
}

}  // namespace
}  // namespace decant
