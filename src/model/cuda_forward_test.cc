#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/narrow.h"
#include "model/forward.h"
#include "model/testing/tiny_model.h"
#include "ops/cpu/oracle_ops.h"
#include "ops/cuda/cuda_ops.h"

namespace decant {
namespace {

constexpr int32_t kTokens = 330;

/// Two requests of one model in one pool, each in chunks of its own, both in every step; returns
/// the logits of every position, first request first.
std::vector<float> AllLogits(Ops& ops, const ModelConfig& config, const DecoderWeights& weights,
                             const std::vector<int32_t>& tokens, int32_t page_size,
                             const std::vector<std::pair<int32_t, int32_t>>& chunks) {
  const int32_t pages_each = CeilDiv(kTokens, page_size) + 1;
  EXPECT_TRUE(ops.AllocateCache(2 * pages_each, page_size).ok());
  for (int32_t page = 0; page < 2 * pages_each; ++page) ops.PoisonPage(page);
  std::vector<int32_t> tables[2];
  for (int32_t i = 0; i < pages_each; ++i) {
    tables[0].push_back(2 * (pages_each - 1 - i));
    tables[1].push_back(2 * i + 1);
  }
  std::vector<float> logits[2];
  int32_t done[2] = {0, 0};
  for (const auto& [first, second] : chunks) {
    const int32_t lens[2] = {first, second};
    std::vector<int32_t> ids;
    std::vector<int32_t> positions;
    std::vector<int32_t> token_rows;
    std::vector<BatchRow> rows;
    std::vector<int32_t> order = {0, 1};
    if (first > 1 && second == 1) order = {1, 0};  // decode tokens come first
    for (const int32_t r : order) {
      if (lens[r] == 0) continue;
      rows.push_back({.slot = r,
                      .query_start = static_cast<int32_t>(ids.size()),
                      .query_len = lens[r],
                      .context_len = done[r] + lens[r],
                      .pages = tables[r]});
      for (int32_t i = 0; i < lens[r]; ++i) {
        ids.push_back(tokens[(done[r] + i + 13 * r) % tokens.size()]);
        positions.push_back(done[r] + i);
        token_rows.push_back(static_cast<int32_t>(rows.size()) - 1);
      }
    }
    const StepBatch batch{
        .token_ids = ids, .positions = positions, .token_rows = token_rows, .rows = rows};
    std::vector<int32_t> wanted(ids.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    if (first % 2 == 1) std::ranges::reverse(wanted);  // some steps ask in another order
    const TensorView view = Logits(ops, weights, Forward(ops, weights, batch), wanted);
    std::vector<float> downloaded(view.rows * view.cols);
    ops.Download(view, downloaded);
    std::vector<float> values(downloaded.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      std::copy_n(downloaded.begin() + static_cast<int64_t>(i) * view.cols, view.cols,
                  values.begin() + wanted[i] * view.cols);
    }
    for (const BatchRow& row : rows) {
      const auto begin = values.begin() + int64_t{row.query_start} * config.shape.vocab;
      logits[row.slot].insert(logits[row.slot].end(), begin,
                              begin + int64_t{row.query_len} * config.shape.vocab);
      done[row.slot] += row.query_len;
    }
  }
  logits[0].insert(logits[0].end(), logits[1].begin(), logits[1].end());
  return logits[0];
}

double RootMeanSquareError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

/// How a forward is computed.
struct Setting {
  LinearLayers linear;
  DecodeKernel kernel;
  int32_t page_size;
};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  for (const LinearLayers linear : {LinearLayers::kLibrary, LinearLayers::kInvariant}) {
    settings.push_back({linear, DecodeKernel::kRows, 16});
    settings.push_back({linear, DecodeKernel::kRows, 256});
    settings.push_back({linear, DecodeKernel::kSplit, 64});
    if (FlashAttentionAvailable().ok()) settings.push_back({linear, DecodeKernel::kFlash, 256});
  }
  return settings;
}

std::vector<testing::TinyModel> Models() {
  return {{.head_dim = 64, .max_positions = 512},
          {.family = "qwen2",
           .heads = 7,
           .kv_heads = 1,
           .head_dim = 128,
           .max_positions = 512,
           .tied_head = false,
           .seed = 2},
          {.family = "qwen3", .head_dim = 128, .max_positions = 512, .seed = 3}};
}

TEST(CudaForwardTest, ErrsAtMostTwiceAsMuchAsTheSamePrecision) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  const std::vector<std::pair<int32_t, int32_t>> whole = {{kTokens, 0}, {0, kTokens}};
  const std::vector<std::pair<int32_t, int32_t>> cut = {{100, 1}, {1, 250}, {1, 1},
                                                        {198, 2}, {1, 75},  {29, 1}};
  for (const testing::TinyModel& model : Models()) {
    const auto file = std::make_shared<const GgufFile>(
        GgufFile::FromBytes("tiny", testing::BuildTinyModel(model).Build()).value());
    const ModelConfig config = ReadModelConfig(*file).value();
    std::vector<int32_t> tokens;
    tokens.reserve(kTokens);
    for (int32_t i = 0; i < kTokens; ++i) tokens.push_back(i * 71 % model.vocab);
    const auto compute = [&](Ops& ops, int32_t page_size,
                             const std::vector<std::pair<int32_t, int32_t>>& chunks) {
      const Expected<DecoderWeights> weights = LoadDecoderWeights(file, config, ops, nullptr);
      EXPECT_TRUE(weights.ok()) << weights.status().ToString();
      return AllLogits(ops, config, *weights, tokens, page_size, chunks);
    };
    OracleOps oracle(config.shape, kTokens);
    const std::vector<float> exact = compute(oracle, 16, whole);
    for (const CudaType type : {CudaType::kF16, CudaType::kBf16}) {
      OracleOps rounded(
          config.shape, kTokens,
          type == CudaType::kF16 ? OracleOps::Rounding::kF16 : OracleOps::Rounding::kBf16);
      const double rounding = RootMeanSquareError(compute(rounded, 16, whole), exact);
      ASSERT_GT(rounding, 0);
      for (const auto& [linear, kernel, page_size] : Settings()) {
        auto ops = CudaOps::Create({.shape = config.shape,
                                    .type = type,
                                    .decode_kernel = kernel,
                                    .linear = linear,
                                    .threads = 4,
                                    .max_tokens = kTokens,
                                    .max_rows = 2,
                                    .max_samples = kTokens,
                                    .max_model_len = model.max_positions});
        ASSERT_TRUE(ops.ok()) << ops.status().ToString();
        const std::vector<float> logits = compute(**ops, page_size, cut);
        ASSERT_TRUE((*ops)->status().ok()) << (*ops)->status().ToString();
        const double error = RootMeanSquareError(logits, exact);
        std::printf("%s head_dim %d, %s, %s, %s, pages of %d: error %.3g, rounding alone %.3g\n",
                    model.family.c_str(), model.head_dim, type == CudaType::kF16 ? "fp16" : "bf16",
                    linear == LinearLayers::kLibrary ? "cublas" : "invariant",
                    std::string(DecodeKernelName(kernel)).c_str(), page_size, error, rounding);
        EXPECT_TRUE(error <= 2 * rounding) << error << " against " << rounding;
      }
    }
  }
}

constexpr int32_t kPaddedPages = 12;
constexpr int32_t kPaddedPageSize = 16;

/// Three prompts in a step of 21 tokens, then a step of a token each: `split` computes 24 and 4.
/// Row r has page 10 - r. Returns the contexts then.
std::array<int32_t, 3> ComputePaddedSteps(Ops& ops, const DecoderWeights& weights) {
  const std::array<int32_t, 3> prompts = {5, 7, 9};
  const std::array<int32_t, 3> pages = {10, 9, 8};
  std::array<int32_t, 3> contexts = {0, 0, 0};
  for (const bool decodes : {false, true}) {
    std::vector<int32_t> ids;
    std::vector<int32_t> positions;
    std::vector<int32_t> token_rows;
    std::vector<BatchRow> rows;
    for (int32_t r = 0; r < 3; ++r) {
      const int32_t count = decodes ? 1 : prompts[r];
      rows.push_back({.slot = r,
                      .query_start = static_cast<int32_t>(ids.size()),
                      .query_len = count,
                      .context_len = contexts[r] + count,
                      .pages = std::span(pages).subspan(r, 1)});
      for (int32_t i = 0; i < count; ++i) {
        ids.push_back(7 * r + i + 1);
        positions.push_back(contexts[r]++);
        token_rows.push_back(r);
      }
    }
    Forward(ops, weights,
            {.token_ids = ids, .positions = positions, .token_rows = token_rows, .rows = rows});
  }
  return contexts;
}

class CudaPaddingTest : public ::testing::TestWithParam<LinearLayers> {};

TEST_P(CudaPaddingTest, LeavesNothingInTheCache) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  for (const testing::TinyModel& model : Models()) {
    SCOPED_TRACE(model.family);
    const auto file = std::make_shared<const GgufFile>(
        GgufFile::FromBytes("tiny", testing::BuildTinyModel(model).Build()).value());
    const ModelConfig config = ReadModelConfig(*file).value();
    auto made = CudaOps::Create({.shape = config.shape,
                                 .decode_kernel = DecodeKernel::kSplit,
                                 .linear = GetParam(),
                                 .max_tokens = 64,
                                 .max_rows = 3,
                                 .max_samples = 3,
                                 .max_model_len = 64});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    CudaOps& ops = **made;
    const DecoderWeights weights = LoadDecoderWeights(file, config, ops, nullptr).value();
    ASSERT_TRUE(ops.AllocateCache(kPaddedPages, kPaddedPageSize).ok());
    for (int32_t page = 0; page < kPaddedPages; ++page) ops.PoisonPage(page);
    const std::array<int32_t, 3> contexts = ComputePaddedSteps(ops, weights);

    const int64_t width = int64_t{config.shape.kv_heads} * config.shape.head_dim;
    std::vector<float> keys(kPaddedPageSize * width);
    std::vector<float> values(keys.size());
    for (int32_t layer = 0; layer < config.shape.layers; ++layer) {
      for (int32_t page = 0; page < kPaddedPages; ++page) {
        ops.ReadPage(layer, page, keys, values);
        ASSERT_TRUE(ops.status().ok()) << ops.status().ToString();
        const int32_t row = 10 - page;
        const int64_t written = row >= 0 && row < 3 ? contexts[row] * width : 0;
        for (int64_t i = 0; i < std::ssize(keys); ++i) {
          ASSERT_EQ(std::isnan(keys[i]), i >= written)
              << "K, layer " << layer << " page " << page << " slot " << i / width;
          ASSERT_EQ(std::isnan(values[i]), i >= written)
              << "V, layer " << layer << " page " << page << " slot " << i / width;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Linear, CudaPaddingTest,
                         ::testing::Values(LinearLayers::kLibrary, LinearLayers::kInvariant),
                         [](const ::testing::TestParamInfo<LinearLayers>& linear) {
                           return linear.param == LinearLayers::kLibrary ? "cublas" : "invariant";
                         });

}  // namespace
}  // namespace decant
