// Against Hugging Face transformers; tests/data/golden/README.md says what the files hold and how
// to judge with them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/narrow.h"
#include "model/forward.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/oracle_ops.h"

namespace decant {
namespace {

using nlohmann::json;

constexpr int32_t kPageSize = 64;
constexpr int32_t kChunk = 512;

std::string ModelPath(const std::string& file) {
  const char* folder = std::getenv("DECANT_MODELS");
  return std::string(folder != nullptr ? folder : DECANT_SOURCE_DIR "/models") + "/" + file;
}

std::vector<json> ReadLines(const std::string& name) {
  std::ifstream file(std::string(DECANT_TEST_DATA) + "/golden/" + name);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

/// A model that is fed one row's tokens, some at a time.
class Feeder {
 public:
  Feeder(Ops& ops, const DecoderWeights& weights, int32_t max_len)
      : ops_(ops), weights_(weights), pages_(CeilDiv(max_len, kPageSize)) {
    std::iota(pages_.rbegin(), pages_.rend(), 0);
    EXPECT_TRUE(ops.AllocateCache(static_cast<int32_t>(pages_.size()), kPageSize).ok());
    for (int32_t page : pages_) ops.PoisonPage(page);
  }

  /// The logits after the last of `tokens`, which follow those fed before.
  std::vector<float> Feed(std::span<const int32_t> tokens) {
    std::vector<float> last;
    while (!tokens.empty()) {
      const auto count = static_cast<int32_t>(std::min<size_t>(tokens.size(), kChunk));
      std::vector<int32_t> positions(count);
      std::iota(positions.begin(), positions.end(), fed_);
      const std::vector<int32_t> rows(count, 0);
      const int32_t wanted = count - 1;
      fed_ += count;
      const BatchRow row{
          .query_start = 0, .query_len = count, .context_len = fed_, .pages = pages_};
      const StepBatch batch{.token_ids = tokens.first(count),
                            .positions = positions,
                            .token_rows = rows,
                            .rows = {&row, 1}};
      const TensorView logits =
          Logits(ops_, weights_, Forward(ops_, weights_, batch), {&wanted, 1});
      last.assign(logits.Row<float>(0), logits.Row<float>(0) + logits.cols);
      tokens = tokens.subspan(count);
    }
    return last;
  }

 private:
  Ops& ops_;
  const DecoderWeights& weights_;
  std::vector<int32_t> pages_;
  int32_t fed_ = 0;
};

/// Errors of some logits.
struct Errors {
  double max = 0;
  double squares = 0;
  int64_t count = 0;

  void Add(double got, double expected) {
    const double error = std::abs(got - expected);
    if (!(error <= max)) max = error;  // NaN stays
    squares += error * error;
    ++count;
  }
  double rms() const { return std::sqrt(squares / static_cast<double>(count)); }
};

struct Judgement {
  Errors last;
  Errors steps;
  int flips = 0;
  double worst_gap =
      0;  ///< the largest by which a flipped token stays behind the best in the reference
};

/// Feeds a golden prompt and the reference's own continuation for `step_limit` steps at most.
Judgement Judge(Feeder feeder, const json& golden, size_t step_limit) {
  Judgement judgement;
  const auto prompt = golden.at("prompt").get<std::vector<int32_t>>();
  const auto greedy = golden.at("greedy").get<std::vector<int32_t>>();
  const json& last = golden.at("last");
  const json& steps = golden.at("steps");
  std::vector<float> logits = feeder.Feed(prompt);
  const size_t last_stride = last.at("stride");
  for (size_t i = 0; i < last.at("logits").size(); ++i) {
    judgement.last.Add(logits[i * last_stride], last["logits"][i]);
  }
  for (size_t i = 0; i < last.at("top8_id").size(); ++i) {
    judgement.last.Add(logits[last["top8_id"][i].get<size_t>()], last["top8_logit"][i]);
  }
  const size_t stride = steps.at("stride");
  for (size_t step = 0; step < std::min(step_limit, greedy.size()); ++step) {
    if (step > 0) logits = feeder.Feed(std::span(greedy).subspan(step - 1, 1));
    const json& sampled = steps.at("logits")[step];
    for (size_t i = 0; i < sampled.size(); ++i) judgement.steps.Add(logits[i * stride], sampled[i]);
    const auto top_id = steps.at("top2_id")[step].get<std::vector<int32_t>>();
    const auto top_logit = steps.at("top2_logit")[step].get<std::vector<double>>();
    for (int i = 0; i < 2; ++i) judgement.steps.Add(logits[top_id[i]], top_logit[i]);
    const auto best =
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (best != greedy[step]) {
      ++judgement.flips;
      // The reference's logit of a token that is neither of its two best is not stored; how far the
      // engine puts that token above the reference's choice says how far it must have moved.
      const double gap = top_logit[0] - top_logit[1];
      const double moved = logits[best] - logits[greedy[step]];
      judgement.worst_gap = std::max(judgement.worst_gap, best == top_id[1] ? gap : gap + moved);
    }
  }
  return judgement;
}

struct LoadedFile {
  std::shared_ptr<const GgufFile> file;
  ModelConfig config;
};

LoadedFile Open(const std::string& path) {
  LoadedFile loaded;
  loaded.file = std::make_shared<const GgufFile>(GgufFile::Open(path).value());
  loaded.config = ReadModelConfig(*loaded.file).value();
  return loaded;
}

void JudgeBackend(const std::string& golden_file, DecodeKernel kernel, size_t stride) {
  const std::vector<json> lines = ReadLines(golden_file);
  ASSERT_GT(lines.size(), 4U);
  const std::string path = ModelPath(lines[0].at("model"));
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing; scripts/fetch-model gets it";
  }
  const LoadedFile loaded = Open(path);
  CpuOps ops({.shape = loaded.config.shape,
              .decode_kernel = kernel,
              .threads = 2,
              .max_tokens = kChunk,
              .max_samples = 1});
  const Expected<DecoderWeights> weights =
      LoadDecoderWeights(loaded.file, loaded.config, ops, nullptr);
  ASSERT_TRUE(weights.ok()) << weights.status().ToString();
  const double pooled_max = lines[0]["bf16"]["steps"]["max"];
  int flips = 0;
  for (size_t i = 1; i < lines.size(); i += stride) {
    const json& golden = lines[i];
    const json& bf16 = golden.at("bf16");
    const Judgement judgement = Judge(Feeder(ops, *weights, 4096), golden, SIZE_MAX);
    const std::string name = golden.at("name");
    EXPECT_TRUE(judgement.last.rms() <= 2 * bf16["last"]["rms"].get<double>())
        << name << ": rms " << judgement.last.rms() << ", bf16's " << bf16["last"]["rms"];
    EXPECT_TRUE(judgement.steps.rms() <= 2 * bf16["steps"]["rms"].get<double>())
        << name << ": rms " << judgement.steps.rms() << ", bf16's " << bf16["steps"]["rms"];
    const double allowed = 2 * std::max(bf16["steps"]["max"].get<double>(), pooled_max);
    EXPECT_TRUE(judgement.steps.max <= allowed) << name << ": " << judgement.steps.max;
    EXPECT_TRUE(judgement.worst_gap <= 2 * bf16["steps"]["max"].get<double>())
        << name << ": a token flipped over a gap of " << judgement.worst_gap;
    flips += judgement.flips;
  }
  const int allowed_flips = 2 * lines[0].at("bf16_flips").get<int>() / static_cast<int>(stride) + 1;
  EXPECT_LE(flips, allowed_flips);
  ::testing::Test::RecordProperty("flips", flips);
}

TEST(GoldenTest, SmolLm2SplitAgreesWithTransformers) {
  JudgeBackend("smollm2-135m.jsonl", DecodeKernel::kSplit, 1);
}

TEST(GoldenTest, SmolLm2RowsAgreesWithTransformers) {
  JudgeBackend("smollm2-135m.jsonl", DecodeKernel::kRows, 4);
}

TEST(GoldenTest, Qwen25CoderAgreesWithTransformers) {
  JudgeBackend("qwen2.5-coder-1.5b.jsonl", DecodeKernel::kSplit, 1);
}

/// The oracle is fp32 as the reference is: errors are rounding only, and only near ties may flip.
TEST(GoldenTest, OracleAgreesWithTransformersToRounding) {
  const std::vector<json> lines = ReadLines("smollm2-135m.jsonl");
  ASSERT_GT(lines.size(), 4U);
  const std::string path = ModelPath(lines[0].at("model"));
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing; scripts/fetch-model gets it";
  }
  const LoadedFile loaded = Open(path);
  OracleOps ops(loaded.config.shape, kChunk);
  const DecoderWeights weights =
      LoadDecoderWeights(loaded.file, loaded.config, ops, nullptr).value();
  int judged = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const json& golden = lines[i];
    const size_t length = golden.at("prompt").size();
    if (length < 3 || length > 17) continue;
    const Judgement judgement = Judge(Feeder(ops, weights, 64), golden, 6);
    EXPECT_TRUE(judgement.last.max <= 2e-3) << golden["name"] << ": " << judgement.last.max;
    EXPECT_TRUE(judgement.steps.max <= 2e-3) << golden["name"] << ": " << judgement.steps.max;
    EXPECT_TRUE(judgement.worst_gap <= 0.02) << golden["name"] << ": " << judgement.worst_gap;
    ++judged;
  }
  EXPECT_GE(judged, 3);
}

}  // namespace
}  // namespace decant
