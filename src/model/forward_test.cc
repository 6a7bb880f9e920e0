#include "model/forward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/narrow.h"
#include "model/testing/tiny_model.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/oracle_ops.h"

namespace decant {
namespace {

std::shared_ptr<const GgufFile> Open(const testing::GgufBuilder& builder) {
  Expected<GgufFile> file = GgufFile::FromBytes("tiny", builder.Build());
  return std::make_shared<const GgufFile>(std::move(file).value());
}

/// Logits of every position of `tokens`, computed in chunks of the given lengths.
std::vector<float> AllLogits(Ops& ops, const ModelConfig& config, const DecoderWeights& weights,
                             const std::vector<int32_t>& tokens, std::vector<int32_t> chunks) {
  constexpr int32_t kPageSize = 16;
  std::vector<int32_t> pages(CeilDiv(static_cast<int32_t>(tokens.size()), kPageSize) + 1);
  std::iota(pages.rbegin(), pages.rend(), 0);
  EXPECT_TRUE(ops.AllocateCache(static_cast<int32_t>(pages.size()), kPageSize).ok());
  for (int32_t page : pages) ops.PoisonPage(page);
  std::vector<float> all;
  int32_t done = 0;
  for (int32_t chunk : chunks) {
    std::vector<int32_t> positions(chunk);
    std::iota(positions.begin(), positions.end(), done);
    const std::vector<int32_t> rows(chunk, 0);
    std::vector<int32_t> wanted(chunk);
    std::iota(wanted.begin(), wanted.end(), 0);
    const BatchRow row{
        .query_start = 0, .query_len = chunk, .context_len = done + chunk, .pages = pages};
    const StepBatch batch{.token_ids = std::span(tokens).subspan(done, chunk),
                          .positions = positions,
                          .token_rows = rows,
                          .rows = {&row, 1}};
    const TensorView logits = Logits(ops, weights, Forward(ops, weights, batch), wanted);
    for (int32_t i = 0; i < chunk; ++i) {
      all.insert(all.end(), logits.Row<float>(i), logits.Row<float>(i) + config.shape.vocab);
    }
    done += chunk;
  }
  return all;
}

double RootMeanSquareError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

TEST(ForwardTest, ErrsAtMostTwiceAsMuchAsTheSamePrecision) {
  for (const testing::TinyModel& model :
       {testing::TinyModel{}, testing::TinyModel{.family = "qwen2", .tied_head = false, .seed = 2},
        testing::TinyModel{.heads = 4, .kv_heads = 4, .head_dim = 64, .type = GgmlType::kF16},
        testing::TinyModel{
            .family = "qwen2", .heads = 7, .kv_heads = 1, .type = GgmlType::kQ4_1}}) {
    const auto file = Open(testing::BuildTinyModel(model));
    const Expected<ModelConfig> config = ReadModelConfig(*file);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 90; ++i) tokens.push_back(i * 71 % model.vocab);
    const auto compute = [&](Ops& ops, std::vector<int32_t> chunks) {
      const Expected<DecoderWeights> weights = LoadDecoderWeights(file, *config, ops, nullptr);
      EXPECT_TRUE(weights.ok()) << weights.status().ToString();
      return AllLogits(ops, *config, *weights, tokens, std::move(chunks));
    };
    OracleOps oracle(config->shape, 90);
    OracleOps rounded(config->shape, 90, OracleOps::Rounding::kBf16);
    const std::vector<float> exact = compute(oracle, {90});
    const double rounding = RootMeanSquareError(compute(rounded, {90}), exact);
    ASSERT_GT(rounding, 0);
    for (DecodeKernel kernel : {DecodeKernel::kRows, DecodeKernel::kSplit}) {
      CpuOps ops({.shape = config->shape,
                  .decode_kernel = kernel,
                  .threads = 2,
                  .max_tokens = 90,
                  .max_samples = 90});
      const double error = RootMeanSquareError(compute(ops, {7, 1, 60, 20, 1, 1}), exact);
      EXPECT_TRUE(error <= 2 * rounding)
          << error << " against " << rounding << " for " << model.family;
    }
  }
}

TEST(ForwardTest, InterleavedPairsAreReordered) {
  // The same random file read as llama (interleaved) and as qwen2 without biases (halves) differs
  // in its rotations.
  const auto logits = [](const std::string& family) {
    testing::GgufBuilder builder = testing::BuildTinyModel({.family = family, .seed = 5});
    const auto file = Open(builder);
    const ModelConfig config = ReadModelConfig(*file).value();
    OracleOps ops(config.shape, 20);
    const DecoderWeights weights = LoadDecoderWeights(file, config, ops, nullptr).value();
    std::vector<int32_t> tokens(20, 65);
    return AllLogits(ops, config, weights, tokens, {20});
  };
  EXPECT_GT(RootMeanSquareError(logits("llama"), logits("qwen2")), 1e-3);
}

TEST(ModelConfigTest, RefusesWhatItCannotCompute) {
  const auto error = [](auto&& change) {
    testing::GgufBuilder builder = testing::BuildTinyModel({});
    change(builder);
    const auto file = Open(builder);
    const Expected<ModelConfig> config = ReadModelConfig(*file);
    if (!config.ok()) return config.status().ToString();
    OracleOps ops(config->shape, 1);
    const Expected<DecoderWeights> weights = LoadDecoderWeights(file, *config, ops, nullptr);
    return weights.ok() ? std::string("accepted") : weights.status().ToString();
  };
  using Builder = testing::GgufBuilder;
  EXPECT_EQ(error([](Builder&) {}), "accepted");
  const std::pair<std::function<void(Builder&)>, const char*> kCases[] = {
      {[](Builder& b) { b.Set("general.architecture", std::string("mamba")); }, "'mamba'"},
      {[](Builder& b) { b.Set("llama.block_count", 0U); }, "block_count is 0"},
      {[](Builder& b) { b.Set("llama.block_count", 3U); }, "blk.2.attn_norm.weight"},
      {[](Builder& b) { b.Set("llama.attention.head_count_kv", 4U); }, "6 heads on 4 KV heads"},
      {[](Builder& b) { b.Set("llama.attention.key_length", 48U); }, "key_length is 48"},
      {[](Builder& b) { b.Set("llama.feed_forward_length", 192U); }, "blk.0.ffn_gate.weight"},
      {[](Builder& b) { b.Set("llama.rope.scaling.type", std::string("longrope")); }, "'longrope'"},
      {[](Builder& b) { b.Set("llama.rope.scaling.factor", 0.5F); }, "factor is 0.5"},
      {[](Builder& b) { b.Set("llama.attention.sliding_window", 128U); }, "sliding_window"},
      {[](Builder& b) { b.Set("llama.rope.freq_base", std::nanf("")); }, "freq_base is nan"},
      {[](Builder& b) { b.Unset("llama.embedding_length"); }, "embedding_length"},
      {[](Builder& b) { b.Set("tokenizer.ggml.eos_token_id", 280U); }, "eos_token_id is 280"}};
  for (const auto& [change, fragment] : kCases) {
    EXPECT_NE(error(change).find(fragment), std::string::npos)
        << error(change) << " lacks " << fragment;
  }
}

}  // namespace
}  // namespace decant
