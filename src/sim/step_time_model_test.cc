#include "sim/step_time_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "sim/test_device.h"

namespace decant {
namespace {

TEST(WorkOf, CountsWhatThePlanSays) {
  const std::vector<Token> chunk(4);
  const std::vector<int32_t> two_pages = {0, 1};
  StepPlan plan{.prompt_tokens = 4, .decode_tokens = 2};
  plan.rows = {{.query_len = 4, .context_len = 10, .prompt_tokens = chunk},
               {.query_len = 1, .context_len = 70, .pages = two_pages},
               {.query_len = 1, .context_len = 5, .pages = two_pages}};
  const StepWork work = WorkOf(plan, 64);
  EXPECT_EQ(work.rows, 3);
  EXPECT_EQ(work.prompt_rows, 1);
  EXPECT_EQ(work.tokens(), 6);
  EXPECT_EQ(work.longest_prompt_context, 10);
  EXPECT_DOUBLE_EQ(work.prompt_pairs, 7 + 8 + 9 + 10);
  EXPECT_EQ(work.longest_decode_context, 70);
  EXPECT_EQ(work.decode_positions, 75);
  EXPECT_EQ(work.decode_table_slots, 128);
}

TEST(StepTimeModel, LinearLayersFollowTheCurve) {
  const StepTimeModel model = TestModel(false);
  const auto linear = [&](int32_t tokens) { return model.Of({.decode_tokens = tokens}).linear; };
  EXPECT_DOUBLE_EQ(linear(1), 2e-3);
  EXPECT_DOUBLE_EQ(linear(8), 2e-3);
  EXPECT_DOUBLE_EQ(linear(12), 3e-3);
  EXPECT_DOUBLE_EQ(linear(16), 4e-3);
  EXPECT_DOUBLE_EQ(linear(24), 6e-3);
}

TEST(StepTimeModel, EachKernelHasItsTerms) {
  StepTimeParameters device = TestDevice(false);
  device.decode[0].longest_seconds = 1e-6;
  device.decode[1].slice_seconds = 1e-6;
  device.decode[1].wave_seconds = 1e-7;
  device.decode[2].position_seconds = 1e-9;
  const StepWork work{.rows = 32,
                      .decode_tokens = 32,
                      .longest_decode_context = 4000,
                      .decode_positions = 32000,
                      .decode_table_slots = 4096};
  const auto attention = [&](SimulatedKernel kernel) {
    return StepTimeModel::Create(device, kernel, 256)->Of(work).decode_attention;
  };
  EXPECT_DOUBLE_EQ(attention(SimulatedKernel::kRows), 4e-3);
  // 64 blocks for 264 slots: 4 slices of 1,024 in one wave.
  EXPECT_DOUBLE_EQ(attention(SimulatedKernel::kFlash), 1024e-6);
  EXPECT_DOUBLE_EQ(attention(SimulatedKernel::kSplit), 32e-6);
}

TEST(StepTimeModel, CutsAsTheFlashLibraryDoes) {
  // What the library's own num_splits_heuristic(blocks, slots, key_blocks, 128) returned.
  struct Choice {
    int32_t blocks, slots, key_blocks, splits;
  };
  for (const Choice& choice :
       {Choice{1, 264, 64, 64}, Choice{2, 264, 32, 32}, Choice{16, 264, 63, 16},
        Choice{64, 264, 64, 4}, Choice{211, 264, 63, 5}, Choice{212, 264, 63, 1},
        Choice{1, 216, 1000, 112}, Choice{12, 216, 40, 14}}) {
    EXPECT_EQ(SimulatedSplits(choice.blocks, choice.slots, choice.key_blocks), choice.splits)
        << choice.blocks << " blocks, " << choice.slots << " slots, " << choice.key_blocks;
  }
  const FlashSlices one_row = SlicesOf(
      {.decode_tokens = 1, .longest_decode_context = 100, .decode_table_slots = 256}, 132, 2);
  EXPECT_EQ(one_row.positions, 100);
  EXPECT_EQ(one_row.waves, 1);
}

TEST(StepTimeModel, RefusesWhatItCannotUse) {
  const auto refusal = [](const StepTimeParameters& device) {
    return StepTimeModel::Create(device, SimulatedKernel::kRows, 64).status();
  };
  StepTimeParameters lacks = TestDevice(false);
  lacks.decode.erase(lacks.decode.begin());
  EXPECT_NE(refusal(lacks).message().find("it has: flash, split"), std::string::npos);
  StepTimeParameters nan = TestDevice(false);
  nan.step_seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal(nan).code(), StatusCode::kInvalidArgument);
  StepTimeParameters falling = TestDevice(false);
  falling.linear[1].tokens = 8;
  EXPECT_EQ(refusal(falling).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace decant
