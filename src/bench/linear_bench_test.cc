#include "bench/linear_bench.h"

#include <gtest/gtest.h>

#include "ops/cpu/cpu_ops.h"

namespace decant {
namespace {

Expected<std::unique_ptr<Ops>> MakeCpuOps(const OpsSpec& spec) {
  return std::unique_ptr<Ops>(
      std::make_unique<CpuOps>(CpuOpsOptions{.shape = spec.shape,
                                             .threads = 2,
                                             .max_tokens = spec.max_tokens,
                                             .max_samples = spec.max_samples}));
}

TEST(LinearBenchTest, AModelsProductsAreThoseOfItsLayersAndHead) {
  const DecoderShape shape{.layers = 28,
                           .hidden = 1536,
                           .heads = 12,
                           .kv_heads = 2,
                           .head_dim = 128,
                           .intermediate = 8960,
                           .vocab = 151936};
  const std::vector<LinearProduct> products = ProductsOf(shape, 3);
  ASSERT_EQ(products.size(), 5U);
  EXPECT_EQ(products[0].rows, 2048);
  EXPECT_EQ(products[2].rows, 17920);
  EXPECT_EQ(products[3].cols, 8960);
  EXPECT_EQ(products[1].weights, 3);
  EXPECT_EQ(products[4].weights, 1);
}

TEST(LinearBenchTest, TimesEveryProductThatTakesSoManyTokens) {
  LinearBenchOptions options{
      .products =
          {{.name = "down", .rows = 96, .cols = 160, .weights = 2},
           {.name = "qkv",
            .kind = LinearKind::kQkv,
            .rows = 256,
            .cols = 96,
            .most_tokens = 4,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 32},
           {.name = "gate_up",
            .kind = LinearKind::kGateUp,
            .rows = 384,
            .cols = 96,
            .most_tokens = 4},
           {.name = "head", .kind = LinearKind::kHead, .rows = 200, .cols = 96, .most_tokens = 4}},
      .linears = {LinearLayers::kLibrary},
      .tokens = {1, 7},
      .repeats = 3};
  int told = 0;
  const LinearBenchReport report = RunLinearBench(MakeCpuOps, options, [&](const LinearResult&) {
                                     ++told;
                                     return Status();
                                   }).value();
  ASSERT_EQ(report.results.size(), 5U);  // down alone takes 7 too
  EXPECT_EQ(told, 5);
  for (const LinearResult& result : report.results) {
    EXPECT_GT(result.median, 0);
    EXPECT_LE(result.least, result.median);
    EXPECT_LE(result.median, result.most);
    EXPECT_GT(result.floor, 0);
  }
  const LinearResult& down = report.results[1];
  EXPECT_EQ(down.tokens, 7);
  EXPECT_EQ(down.operations, 2.0 * 7 * 96 * 160);

  options.tokens.clear();
  EXPECT_EQ(RunLinearBench(MakeCpuOps, options, [](const LinearResult&) { return Status(); })
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace decant
