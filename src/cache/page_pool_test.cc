#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

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

TEST(PagePoolTest, AGroupSharesTheWholePagesOfItsBeginning) {
  PagePool pool(12, 4);
  const PageGroup group{.tokens = 15, .shared_tokens = 11, .leases = 3};
  EXPECT_EQ(pool.SharedPages(group), 2) << "positions 8 to 10 share a page with what differs";
  EXPECT_EQ(pool.PagesFor(group), 2 + 3 * 2);
  auto leases = pool.ReserveGroup(group);
  ASSERT_TRUE(leases);
  EXPECT_EQ(Pages(leases->at(0)), (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(Pages(leases->at(1)), (std::vector<int32_t>{0, 1, 4, 5}));
  EXPECT_EQ(Pages(leases->at(2)), (std::vector<int32_t>{0, 1, 6, 7}));
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
  EXPECT_FALSE(pool.ReserveGroup({.tokens = 9, .shared_tokens = 4, .leases = 2})) << "5 pages";
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_TRUE(pool.ReserveGroup({.tokens = 8, .shared_tokens = 3, .leases = 2})) << "4 pages";
  EXPECT_EQ(pool.PagesFor(PageGroup{.tokens = 8, .shared_tokens = 8, .leases = 9}), 2)
      << "nothing is their own";
}

TEST(PagePoolTest, ASharedPageGoesBackWithItsLastHolder) {
  PagePool pool(6, 4);
  std::vector<int32_t> freed;
  pool.set_free_observer([&](std::span<const int32_t> pages) {
    EXPECT_FALSE(pages.empty());
    freed.insert(freed.end(), pages.begin(), pages.end());
  });
  auto leases = *pool.ReserveGroup({.tokens = 12, .shared_tokens = 8, .leases = 3});
  leases[0].Release();
  EXPECT_EQ(freed, (std::vector<int32_t>{2}));
  EXPECT_EQ(Pages(leases[1]), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_TRUE(pool.CheckIntegrity().ok());
  EXPECT_EQ(Pages(*pool.Reserve(4)), (std::vector<int32_t>{2})) << "its own page is reused";
  leases[2].Release();
  EXPECT_EQ(freed, (std::vector<int32_t>{2, 2, 4}));
  leases[1].Release();
  EXPECT_EQ(freed, (std::vector<int32_t>{2, 2, 4, 0, 1, 3}));
  EXPECT_EQ(pool.free_pages(), 6);
  EXPECT_TRUE(pool.CheckIntegrity().ok());

  freed.clear();
  leases = *pool.ReserveGroup({.tokens = 8, .shared_tokens = 8, .leases = 2});
  leases[0].Release();
  EXPECT_TRUE(freed.empty()) << "all of it is held by the other";
  EXPECT_EQ(pool.free_pages(), 4);
}

TEST(PagePoolTest, EveryPageIsFreeOrHeldByItsGroupThroughoutRandomHistories) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const CounterRng rng(seed);
    uint64_t draw = 0;
    const auto below = [&](uint64_t bound) {
      return static_cast<int32_t>(rng.Below(draw++, bound));
    };
    PagePool pool(1 + below(24), 1 + below(20));
    struct Holder {
      PageLease lease;
      int group;
      int32_t number;  ///< In the group.
      int32_t shared;  ///< Pages.
    };
    std::vector<Holder> holders;
    for (int i = 0; i < 60; ++i) {
      if (below(3) > 0) {
        PageGroup group{.tokens = 1 + below(2 * pool.page_size() * pool.num_pages())};
        group.shared_tokens = below(group.tokens + 1);
        group.leases = 1 + below(4);
        const int32_t shared = group.shared_tokens / pool.page_size();
        const int32_t all = (group.tokens + pool.page_size() - 1) / pool.page_size();
        const bool fits = shared + (all - shared) * group.leases <= pool.free_pages();
        auto leases = pool.ReserveGroup(group);
        ASSERT_EQ(leases.has_value(), fits);
        if (leases) {
          for (int32_t k = 0; k < group.leases; ++k) {
            ASSERT_EQ(static_cast<int32_t>(leases->at(k).pages().size()), all);
            holders.push_back({std::move(leases->at(k)), i, k, shared});
          }
        }
      } else if (!holders.empty()) {
        std::swap(holders[below(holders.size())], holders.back());
        holders.pop_back();
      }
      const Status integrity = pool.CheckIntegrity();
      ASSERT_TRUE(integrity.ok()) << integrity.ToString();
      std::map<int32_t, std::tuple<int, size_t, int32_t>> held;  // by page
      for (const Holder& holder : holders) {
        for (size_t place = 0; place < holder.lease.pages().size(); ++place) {
          const bool shared = std::cmp_less(place, holder.shared);
          const std::tuple mine(holder.group, place, shared ? 0 : holder.number);
          const auto [entry, inserted] = held.emplace(holder.lease.pages()[place], mine);
          ASSERT_TRUE(inserted || (shared && entry->second == mine))
              << "page " << entry->first << " went to two that may not share it";
        }
      }
      ASSERT_EQ(static_cast<int32_t>(held.size()) + pool.free_pages(), pool.num_pages());
    }
    holders.clear();
    ASSERT_EQ(pool.free_pages(), pool.num_pages());
  }
}

}  // namespace
}  // namespace decant
