#include "engine/step_balance.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/testing/temporary_folder.h"
#include "model/forward.h"
#include "model/model_files.h"
#include "model/testing/tiny_model.h"
#include "ops/cpu/cpu_ops.h"
#include "runtime/packed_batch.h"

namespace decant {
namespace {

TEST(StepBalanceTest, IsWhatTheOperationsCount) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "tiny.gguf";
  testing::BuildTinyModel({}).WriteTo(path);
  const ModelFiles files = OpenModelFiles(path).value();
  CpuOps ops({.shape = files.config.shape, .threads = 1, .max_tokens = 64, .max_samples = 4});
  const DecoderWeights weights =
      LoadDecoderWeights(files.tensors, files.config, ops, nullptr).value();
  ASSERT_TRUE(ops.AllocateCache(8, 16).ok());

  // Two rows that decode, and a chunk that does not end its prompt, behind 5 positions.
  const std::vector<int32_t> pages = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<Token> chunk(20, 1);
  StepPlan plan{.prompt_tokens = 20, .decode_tokens = 2};
  const auto table = [&](size_t first, size_t count) {
    return std::span<const int32_t>(pages).subspan(first, count);
  };
  plan.rows = {
      {.row = 0, .query_len = 1, .context_len = 17, .samples = true, .pages = table(0, 2)},
      {.row = 1, .query_len = 1, .context_len = 30, .samples = true, .pages = table(2, 2)},
      {.row = 2, .query_len = 20, .context_len = 25, .prompt_tokens = chunk, .pages = table(4, 4)}};
  PackedBatch packed;
  const StepBatch& batch = packed.Pack(plan, [](int32_t) { return Token{2}; });
  const TensorView residual = Forward(ops, weights, batch);
  Logits(ops, weights, residual, packed.logits_tokens());

  constexpr double kBytesPerSecond = 100;
  constexpr double kOperationsPerSecond = 1000;
  const StepBalance balance =
      MakeStepBalance(files.config, weights, kBytesPerSecond, kOperationsPerSecond);
  const StepLoad load = LoadOf(plan);
  const StepCost cost = ops.Cost();
  EXPECT_DOUBLE_EQ(balance.Reading(load) * kBytesPerSecond, cost.bytes);
  EXPECT_DOUBLE_EQ(balance.Computing(load) * kOperationsPerSecond, cost.operations);
}

}  // namespace
}  // namespace decant
