#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "base/random.h"

namespace decant {
namespace {

using Ids = std::vector<int32_t>;
using Merges = std::map<std::pair<int32_t, int32_t>, std::pair<uint32_t, int32_t>>;

/// The definition: look at all pairs, merge the best, begin again.
Ids MergeByDefinition(const Merges& merges, Ids symbols) {
  for (;;) {
    size_t best = symbols.size();
    uint32_t best_rank = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = merges.find({symbols[i], symbols[i + 1]});
      if (it == merges.end()) continue;
      if (best == symbols.size() || it->second.first < best_rank) {
        best = i;
        best_rank = it->second.first;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = merges.at({symbols[best], symbols[best + 1]}).second;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(BpeTest, MergesByRankThenLeftmost) {
  BpeMerger merger(3);
  ASSERT_TRUE(merger.Add(1, 1, 1, 10));
  ASSERT_TRUE(merger.Add(1, 2, 0, 11));
  ASSERT_TRUE(merger.Add(10, 11, 2, 12));
  EXPECT_FALSE(merger.Add(1, 2, 3, 13)) << "a pair has one merge";
  const auto merge = [&](Ids symbols) {
    merger.Merge(symbols);
    return symbols;
  };
  EXPECT_EQ(merge({}), Ids{});
  EXPECT_EQ(merge({1}), Ids{1});
  EXPECT_EQ(merge({1, 1, 1}), (Ids{10, 1}));
  EXPECT_EQ(merge({1, 1, 1, 2}), Ids{12});
  EXPECT_EQ(merge({1, 1, 2}), (Ids{1, 11}));
}

TEST(BpeTest, MergesAsDefinedForRandomVocabulariesAndLengths) {
  const CounterRng rng(7);
  uint64_t counter = 0;
  const auto below = [&](size_t bound) { return static_cast<size_t>(rng.Below(counter++, bound)); };
  size_t merged = 0;
  for (int round = 0; round < 1000; ++round) {
    // Symbols 0 to 3, and merges of whatever exists already, in an order that is not the ids'.
    const size_t count = 1 + below(40);
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < count; ++rank) {
      ranks.insert(ranks.begin() + static_cast<ptrdiff_t>(below(ranks.size() + 1)), rank);
    }
    BpeMerger merger(count);
    Merges merges;
    for (size_t i = 0; i < count; ++i) {
      const auto left = static_cast<int32_t>(below(4 + i));
      const auto right = static_cast<int32_t>(below(4 + i));
      const auto id = static_cast<int32_t>(4 + i);
      const bool added = merges.try_emplace({left, right}, ranks[i], id).second;
      ASSERT_EQ(merger.Add(left, right, ranks[i], id), added);
    }
    for (const size_t length : {1 + below(6), 1 + below(24), 24 + below(3), 25 + below(200)}) {
      Ids symbols(length);
      for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(below(4));
      const Ids expected = MergeByDefinition(merges, symbols);
      merged += length - expected.size();
      merger.Merge(symbols);
      ASSERT_EQ(symbols, expected) << "round " << round << ", length " << length;
    }
  }
  EXPECT_GT(merged, 20000U) << "too few merges to show anything";
}

}  // namespace
}  // namespace decant
