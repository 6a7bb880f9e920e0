#include "ops/cuda/linear_finish.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "ops/cuda/linear_shapes.h"

namespace decant {
namespace {

/// Every row once, and every four rows two neighbours and their partners.
void CheckOrder(int32_t pair_distance, int32_t rows) {
  std::vector<int> seen(rows, 0);
  for (int32_t row = 0; row < rows; row += 4) {
    const int32_t first = PackedRowSource(pair_distance, row);
    ASSERT_EQ(first % 2, 0) << row;
    ASSERT_LT(first % (2 * pair_distance), pair_distance) << row;
    ASSERT_EQ(PackedRowSource(pair_distance, row + 1), first + 1) << row;
    ASSERT_EQ(PackedRowSource(pair_distance, row + 2), first + pair_distance) << row;
    ASSERT_EQ(PackedRowSource(pair_distance, row + 3), first + pair_distance + 1) << row;
    for (int32_t i = 0; i < 4; ++i) ++seen.at(PackedRowSource(pair_distance, row + i));
  }
  for (int32_t row = 0; row < rows; ++row) ASSERT_EQ(seen[row], 1) << row;
  // What fills the last row block is no row of the weight.
  for (int32_t row = rows; row < rows + 63; ++row) {
    ASSERT_GE(PackedRowSource(pair_distance, row), rows) << row;
  }
}

TEST(LinearFinishTest, PackedRowsAreAllRowsInPairs) {
  for (const LinearModel& model : kLinearModels) {
    ASSERT_NO_FATAL_FAILURE(
        CheckOrder(model.head_dim / 2, (model.heads + 2 * model.kv_heads) * model.head_dim))
        << model.name;
    ASSERT_NO_FATAL_FAILURE(CheckOrder(model.intermediate, 2 * model.intermediate)) << model.name;
  }
  ASSERT_NO_FATAL_FAILURE(CheckOrder(8, 16));
  ASSERT_NO_FATAL_FAILURE(CheckOrder(40, 80));  // no whole row block
  EXPECT_EQ(PackedRowSource(0, 77), 77);
}

// A warp's 16 packed rows are whole pieces of 16 bytes of a cache slot: 8 dims and their partners.
TEST(LinearFinishTest, SixteenPackedRowsAreEightNeighboursAndTheirPartners) {
  for (const int32_t half : {32, 64, 160}) {
    for (int32_t first = 0; first < 4 * half; first += 16) {
      std::set<int32_t> sources;
      for (int32_t i = 0; i < 16; ++i) sources.insert(PackedRowSource(half, first + i));
      const int32_t low = *sources.begin();
      EXPECT_EQ(low % 8, 0);
      std::set<int32_t> expected;
      for (int32_t i = 0; i < 8; ++i) expected.insert({low + i, low + half + i});
      EXPECT_EQ(sources, expected) << half << ", " << first;
    }
  }
}

TEST(LinearFinishTest, TurningMeetsNoBankTwice) {
  std::set<int32_t> places;
  for (int32_t token = 0; token < 8; ++token) {
    for (int32_t row = 0; row < 16; ++row) places.insert(TurnedPlace(token, row));
    for (int32_t row = 0; row < 16; row += 4) {
      EXPECT_EQ(TurnedPlace(token, row) % 4, 0);
      EXPECT_EQ(TurnedPlace(token, row + 3), TurnedPlace(token, row) + 3);
    }
  }
  EXPECT_EQ(places.size(), 128U);
  EXPECT_EQ(*places.rbegin(), kTurnedFloats - 1);
  constexpr int32_t kBanks = 32;
  for (int32_t second = 0; second < 2; ++second) {  // a warp's store
    for (int32_t below = 0; below < 16; below += 8) {
      std::set<int32_t> banks;
      for (int32_t lane = 0; lane < 32; ++lane) {
        banks.insert(TurnedPlace(lane % 4 * 2 + second, lane / 4 + below) % kBanks);
      }
      EXPECT_EQ(banks.size(), 32U);
    }
  }
  for (int32_t row = 0; row < 16; row += 4) {  // eight lanes' loads of 16 bytes
    std::set<int32_t> groups;
    for (int32_t token = 0; token < 8; ++token) groups.insert(TurnedPlace(token, row) % kBanks / 4);
    EXPECT_EQ(groups.size(), 8U);
  }
}

TEST(LinearFinishTest, TurningTokensThatAreRowsMeetsNoBankTwice) {
  constexpr int32_t kTokens = 16;
  constexpr int32_t kBanks = 32;
  std::set<int32_t> places;
  for (int32_t token = 0; token < kTokens; ++token) {
    for (int32_t row = 0; row < kTurnedRows; ++row) places.insert(TokenRowsPlace(token, row));
    for (int32_t row = 0; row < kTurnedRows; row += 4) {
      EXPECT_EQ(TokenRowsPlace(token, row) % 4, 0);
      EXPECT_EQ(TokenRowsPlace(token, row + 3), TokenRowsPlace(token, row) + 3);
    }
  }
  EXPECT_EQ(places.size(), size_t{kTokens * kTurnedRows});
  EXPECT_EQ(*places.rbegin(), kTokens * kTurnedRows - 1);
  for (int32_t first = 0; first < 32; first += 16) {  // half a warp's stores of 8 bytes
    for (int32_t row = 0; row < kTurnedRows; row += 8) {
      std::set<int32_t> pairs;
      for (int32_t lane = first; lane < first + 16; ++lane) {
        pairs.insert(TokenRowsPlace(lane / 4, row + lane % 4 * 2) % kBanks / 2);
      }
      EXPECT_EQ(pairs.size(), 16U);
    }
  }
  for (int32_t first = 0; first < 32; first += 8) {  // eight lanes' loads of 16 bytes
    for (int32_t row = 0; row < 16; row += 4) {
      std::set<int32_t> fours;
      for (int32_t lane = first; lane < first + 8; ++lane) {
        fours.insert(TokenRowsPlace(lane / 2, lane % 2 * 16 + row) % kBanks / 4);
      }
      EXPECT_EQ(fours.size(), 8U);
    }
  }
}

TEST(LinearFinishTest, TokensAreRowsOfSomeFinishes) {
  EXPECT_EQ(TokenRowsUnit(LinearFinish::kFloat, 151936, 0), 8);
  EXPECT_EQ(TokenRowsUnit(LinearFinish::kSiluMul, 17920, 8960), 8);
  EXPECT_EQ(TokenRowsUnit(LinearFinish::kFloat, 1001, 0), 0);   // no whole sectors
  EXPECT_EQ(TokenRowsUnit(LinearFinish::kFloat, 2048, 64), 0);  // rows in another order
  EXPECT_EQ(TokenRowsUnit(LinearFinish::kQkv, 2048, 64), 0);
  EXPECT_EQ(TokenRowsUnit(LinearFinish::kResidual, 1536, 0), 0);
  EXPECT_EQ(TokenRowsUnit(LinearFinish::kArgmax, 1008, 0), 0);  // a part that no row is of
  for (const LinearModel& model : kLinearModels) {
    EXPECT_EQ(TokenRowsUnit(LinearFinish::kArgmax, model.vocab, 0), kArgmaxRows) << model.name;
  }
}

TEST(LinearFinishTest, SquarePartsCoverTheHiddenSize) {
  EXPECT_EQ(SquareParts(8), 1);
  EXPECT_EQ(SquareParts(64), 1);
  EXPECT_EQ(SquareParts(96), 2);
  EXPECT_EQ(SquareParts(1536), 24);
}

}  // namespace
}  // namespace decant
