// Every family and kind of file against Hugging Face transformers, on the tiny models of
// tests/data/family, which tests/tools/make_family_golden.py makes and describes.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/narrow.h"
#include "base/testing/temporary_folder.h"
#include "model/decoder_tensors.h"
#include "model/decoder_weights.h"
#include "model/forward.h"
#include "model/model_files.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/oracle_ops.h"
#include "weights/dequantize.h"
#include "weights/testing/gguf_builder.h"

namespace decant {
namespace {

using nlohmann::json;

constexpr const char* kFamilyData = DECANT_TEST_DATA "/family";

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

struct Golden {
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<float> logits;  ///< [positions, vocab]
};

Golden ReadGolden(const std::string& folder) {
  const json expected = ReadJson(folder + "/expected.json");
  Golden golden{
      .tokens = expected.at("tokens"), .positions = expected.at("positions"), .logits = {}};
  for (const json& row : expected.at("logits")) {
    for (const json& value : row) golden.logits.push_back(value);
  }
  return golden;
}

/// The logits at the golden's positions, its tokens computed in chunks of these lengths.
std::vector<float> GoldenLogits(Ops& ops, const DecoderWeights& weights, const Golden& golden,
                                const std::vector<int32_t>& chunks) {
  constexpr int32_t kPageSize = 16;
  std::vector<int32_t> pages(CeilDiv(static_cast<int32_t>(golden.tokens.size()), kPageSize) + 1);
  std::iota(pages.rbegin(), pages.rend(), 0);
  EXPECT_TRUE(ops.AllocateCache(static_cast<int32_t>(pages.size()), kPageSize).ok());
  for (int32_t page : pages) ops.PoisonPage(page);
  std::vector<float> all;
  int32_t done = 0;
  for (const int32_t chunk : chunks) {
    std::vector<int32_t> positions(chunk);
    std::iota(positions.begin(), positions.end(), done);
    const std::vector<int32_t> rows(chunk, 0);
    std::vector<int32_t> wanted;
    for (const int32_t position : golden.positions) {
      if (position >= done && position < done + chunk) wanted.push_back(position - done);
    }
    const BatchRow row{
        .query_start = 0, .query_len = chunk, .context_len = done + chunk, .pages = pages};
    const StepBatch batch{.token_ids = std::span(golden.tokens).subspan(done, chunk),
                          .positions = positions,
                          .token_rows = rows,
                          .rows = {&row, 1}};
    const TensorView residual = Forward(ops, weights, batch);
    const TensorView logits = Logits(ops, weights, residual, wanted);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float* values = logits.Row<float>(static_cast<int64_t>(i));
      all.insert(all.end(), values, values + logits.cols);
    }
    done += chunk;
  }
  return all;
}

struct Error {
  double max = 0;
  double rms = 0;
};

Error Compare(const std::vector<float>& got, const std::vector<float>& expected) {
  EXPECT_EQ(got.size(), expected.size());
  Error error;
  for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    const double difference = std::abs(double{got[i]} - expected[i]);
    if (!(difference <= error.max)) error.max = difference;  // NaN stays
    error.rms += difference * difference;
  }
  error.rms = std::sqrt(error.rms / static_cast<double>(expected.size()));
  return error;
}

constexpr int32_t kTokens = 96;
const std::vector<int32_t> kChunks = {5, 1, 30, 28, 31, 1};

Error OracleError(const std::shared_ptr<const TensorSource>& tensors, const ModelConfig& config,
                  const Golden& golden) {
  OracleOps ops(config.shape, kTokens);
  const Expected<DecoderWeights> weights = LoadDecoderWeights(tensors, config, ops, nullptr);
  EXPECT_TRUE(weights.ok()) << weights.status().ToString();
  return Compare(GoldenLogits(ops, *weights, golden, {kTokens}), golden.logits);
}

/// fp32 against fp32: what summing in another order moves logits of a few units by.
constexpr double kRounding = 2e-4;

class FamilyTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string folder_ = std::string(kFamilyData) + "/" + GetParam();
  Golden golden_ = ReadGolden(folder_);
};

TEST_P(FamilyTest, OracleAgreesWithTransformersToRounding) {
  const Expected<ModelFiles> files = OpenModelFiles(folder_);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_EQ(files->config.name, GetParam());
  EXPECT_EQ(files->generation.eos, (std::vector<int32_t>{2}));
  EXPECT_EQ(files->config.shape.max_positions, 128);
  ASSERT_EQ(golden_.tokens.size(), kTokens);
  EXPECT_TRUE(OracleError(files->tensors, files->config, golden_).max <= kRounding);

  // The comparison sees what it is there for: without the scaling, the norms, or with the pairs of
  // the other kind of file, it fails far from rounding.
  const auto spoiled_error = [&](auto&& spoil) {
    ModelConfig config = files->config;
    spoil(config);
    return OracleError(files->tensors, config, golden_).max;
  };
  if (files->config.rope_scaling.kind != RopeKind::kNone) {
    EXPECT_GT(spoiled_error([](ModelConfig& config) {
                const RopeTable plain =
                    ComputeRope(config.rope_base, config.shape.head_dim, {}).value();
                config.shape.rope_frequencies = plain.frequencies;
              }),
              100 * kRounding);
  }
  if (files->config.qk_norm) {
    EXPECT_GT(spoiled_error([](ModelConfig& config) { config.qk_norm = false; }), 100 * kRounding);
  }
  if (files->config.qkv_bias) {
    EXPECT_GT(spoiled_error([](ModelConfig& config) { config.qkv_bias = false; }), 100 * kRounding);
  }
  EXPECT_GT(
      spoiled_error([](ModelConfig& config) { config.file_rope_pairs = RopePairs::kInterleaved; }),
      100 * kRounding);
}

TEST_P(FamilyTest, CpuErrsAtMostTwiceAsMuchAsItsPrecision) {
  const ModelFiles files = OpenModelFiles(folder_).value();
  OracleOps rounded(files.config.shape, kTokens, OracleOps::Rounding::kBf16);
  const DecoderWeights rounded_weights =
      LoadDecoderWeights(files.tensors, files.config, rounded, nullptr).value();
  const double rounding =
      Compare(GoldenLogits(rounded, rounded_weights, golden_, {kTokens}), golden_.logits).rms;
  ASSERT_GT(rounding, 0);
  for (const DecodeKernel kernel : {DecodeKernel::kRows, DecodeKernel::kSplit}) {
    CpuOps ops({.shape = files.config.shape,
                .decode_kernel = kernel,
                .threads = 2,
                .max_tokens = kTokens,
                .max_samples = kTokens});
    const DecoderWeights weights =
        LoadDecoderWeights(files.tensors, files.config, ops, nullptr).value();
    const double error = Compare(GoldenLogits(ops, weights, golden_, kChunks), golden_.logits).rms;
    EXPECT_TRUE(error <= 2 * rounding) << error << " against " << rounding;
  }
}

/// The row of the file's matrix that stands at `row` once each head's halves are interleaved.
int64_t Interleaved(int64_t row, int64_t head_dim) {
  const int64_t i = row % head_dim;
  return row - i + i / 2 + i % 2 * (head_dim / 2);
}

/// The same model as a GGUF file, as llama.cpp's conversion writes it: llama's q and k rows
/// interleaved, llama 3's scaling as divisors of frequencies, other scalings as keys.
testing::GgufBuilder ToGguf(const ModelFiles& files) {
  const ModelConfig& config = files.config;
  const DecoderShape& shape = config.shape;
  const std::string family = config.family == "mistral" ? "llama" : config.family;
  const std::string prefix = family + ".";
  testing::GgufBuilder builder;
  builder.Set("general.architecture", family)
      .Set(prefix + "block_count", shape.layers)
      .Set(prefix + "context_length", shape.max_positions)
      .Set(prefix + "embedding_length", shape.hidden)
      .Set(prefix + "feed_forward_length", shape.intermediate)
      .Set(prefix + "attention.head_count", shape.heads)
      .Set(prefix + "attention.head_count_kv", shape.kv_heads)
      .Set(prefix + "attention.key_length", shape.head_dim)
      .Set(prefix + "attention.value_length", shape.head_dim)
      .Set(prefix + "attention.layer_norm_rms_epsilon", shape.norm_epsilon)
      .Set(prefix + "rope.freq_base", config.rope_base)
      .Set("tokenizer.ggml.eos_token_id", 2u)
      .Set("tokenizer.ggml.eot_token_id", 3u);
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == RopeKind::kLinear || scaling.kind == RopeKind::kYarn) {
    builder.Set(prefix + "rope.scaling.type", RopeKindName(scaling.kind))
        .Set(prefix + "rope.scaling.factor", static_cast<float>(scaling.factor));
  }
  if (scaling.kind == RopeKind::kYarn) {
    builder.Set(prefix + "rope.scaling.original_context_length", scaling.original_positions);
  }
  if (scaling.kind == RopeKind::kLlama3) {
    std::vector<float> divisors =
        ComputeRope(config.rope_base, shape.head_dim, {}).value().frequencies;
    for (size_t i = 0; i < divisors.size(); ++i) divisors[i] /= shape.rope_frequencies[i];
    builder.AddTensor("rope_freqs.weight", {shape.head_dim / 2}, GgmlType::kF32, divisors);
  }
  const auto add = [&](TensorRole role, int32_t layer) {
    const TensorInfo* tensor = FindDecoderTensor(*files.tensors, config, role, layer).value();
    std::vector<float> values(tensor->elements());
    EXPECT_TRUE(Dequantize(tensor->type, tensor->data, values).ok());
    if (family == "llama" && (role == TensorRole::kQuery || role == TensorRole::kKey)) {
      const std::vector<float> halves = values;
      const int64_t cols = tensor->row_length();
      for (int64_t row = 0; row < tensor->rows(); ++row) {
        std::copy_n(halves.begin() + Interleaved(row, shape.head_dim) * cols, cols,
                    values.begin() + row * cols);
      }
    }
    builder.AddTensor(TensorName(TensorNaming::kGguf, role, layer), tensor->dims, GgmlType::kF32,
                      values);
  };
  add(TensorRole::kEmbedding, 0);
  add(TensorRole::kFinalNorm, 0);
  if (!config.tied_head) add(TensorRole::kHead, 0);
  for (int32_t layer = 0; layer < shape.layers; ++layer) {
    for (const TensorRole role : DecoderLayerRoles(config)) add(role, layer);
  }
  return builder;
}

class GgufFamilyTest : public FamilyTest {};

TEST_P(GgufFamilyTest, AgreesToo) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "model.gguf";
  ToGguf(OpenModelFiles(folder_).value()).WriteTo(path);
  const Expected<ModelFiles> files = OpenModelFiles(path);
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  ASSERT_NE(files->gguf, nullptr);
  EXPECT_EQ(files->generation.eos, (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(OracleError(files->tensors, files->config, golden_).max <= kRounding);
}

std::string TestName(const ::testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyTest,
                         ::testing::Values("llama-llama3-fp32", "llama-yarn-bf16",
                                           "llama-linear-fp16", "qwen2-bf16", "qwen3-fp16",
                                           "mistral-yarn-bf16"),
                         TestName);

// Not mistral's: GGUF has no keys for all parameters of its scaling.
INSTANTIATE_TEST_SUITE_P(Models, GgufFamilyTest,
                         ::testing::Values("llama-llama3-fp32", "llama-yarn-bf16",
                                           "llama-linear-fp16", "qwen2-bf16", "qwen3-fp16"),
                         TestName);

TEST(RopeTest, TablesAreThoseOfTransformers) {
  const json tables = ReadJson(std::string(kFamilyData) + "/rope.json");
  ASSERT_GE(tables.size(), 8U);
  for (const json& table : tables) {
    const std::string type = table.at("rope_type");
    RopeScaling scaling;
    for (const RopeKind kind : {RopeKind::kLinear, RopeKind::kLlama3, RopeKind::kYarn}) {
      if (type == RopeKindName(kind)) scaling.kind = kind;
    }
    scaling.factor = table.value("factor", 1.0);
    scaling.original_positions = table.value("original_max_position_embeddings", 0);
    scaling.mscale = table.value("mscale", 0.0);
    scaling.mscale_all_dim = table.value("mscale_all_dim", 0.0);
    scaling.truncate = table.value("truncate", true);
    if (table.contains("attention_factor")) scaling.attention_factor = table["attention_factor"];
    const RopeTable rope =
        ComputeRope(table.at("rope_theta"), table.at("head_dim"), scaling).value();
    const auto expected = table.at("frequencies").get<std::vector<double>>();
    ASSERT_EQ(rope.frequencies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(std::abs(rope.frequencies[i] - expected[i]) <= 1e-6 * expected[i])
          << type << " pair " << i << ": " << rope.frequencies[i] << ", not " << expected[i];
    }
    EXPECT_FLOAT_EQ(rope.scale, table.at("scale").get<float>()) << type;
  }
}

TEST(RopeTest, AbsurdParametersAreNamed) {
  const auto refusal = [](RopeKind kind, auto&& change) {
    RopeScaling scaling{.kind = kind, .factor = 4, .original_positions = 4096};
    change(scaling);
    return ComputeRope(10000, 64, scaling).status().message();
  };
  const std::tuple<RopeKind, std::function<void(RopeScaling&)>, const char*> kCases[] = {
      {RopeKind::kLinear, [](RopeScaling& s) { s.factor = 0; }, "factor is 0"},
      {RopeKind::kLinear, [](RopeScaling& s) { s.factor = std::nan(""); }, "factor is nan"},
      {RopeKind::kLlama3, [](RopeScaling& s) { s.original_positions = 0; },
       "original_max_position_embeddings is 0"},
      {RopeKind::kLlama3, [](RopeScaling& s) { s.low_freq_factor = 4; },
       "low_freq_factor 4 is not below high_freq_factor 4"},
      {RopeKind::kYarn, [](RopeScaling& s) { s.beta_fast = 0.5; }, "beta_fast is 0.5"},
      {RopeKind::kYarn, [](RopeScaling& s) { s.attention_factor = -1; }, "attention_factor is -1"},
      {RopeKind::kYarn, [](RopeScaling& s) { s.mscale = 1e9; }, "mscale is"},
      {RopeKind::kDivisors, [](RopeScaling& s) { s.divisors.assign(31, 1.0F); },
       "31 divisors of frequencies; there are 32 pairs"},
      {RopeKind::kDivisors, [](RopeScaling& s) { s.divisors.assign(32, 0.0F); },
       "a divisor of a frequency is 0"}};
  for (const auto& [kind, change, message] : kCases) {
    EXPECT_NE(refusal(kind, change).find(message), std::string::npos)
        << refusal(kind, change) << " lacks " << message;
  }
}

}  // namespace
}  // namespace decant
