// What a request's sampling parameters do from Submit to its completion, on a real forward.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "base/narrow.h"
#include "base/random.h"
#include "engine/completion.h"
#include "engine/engine.h"
#include "model/forward.h"
#include "model/testing/tiny_model.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/oracle_ops.h"
#include "runtime/forward_runner.h"

namespace decant {
namespace {

constexpr int32_t kPoolTokens = 8192;

struct Setting {
  int32_t chunk_tokens = 512;
  int32_t page_size = 16;
  int32_t max_batch = 16;
  int32_t threads = 1;
};

/// A tiny model and the engine that serves it.
class Server {
 public:
  explicit Server(const Setting& setting)
      : file_(std::make_shared<const GgufFile>(
            GgufFile::FromBytes("tiny", testing::BuildTinyModel({}).Build()).value())),
        config_(ReadModelConfig(*file_).value()),
        ops_({.shape = config_.shape,
              .threads = setting.threads,
              .max_tokens = setting.chunk_tokens + setting.max_batch,
              .max_samples = std::max(setting.max_batch, HostSampling::kPromptBlock)}),
        weights_(LoadDecoderWeights(file_, config_, ops_, nullptr).value()) {
    const int32_t pages = kPoolTokens / setting.page_size;
    EXPECT_TRUE(ops_.AllocateCache(pages, setting.page_size).ok());
    EngineConfig config;
    config.scheduler = {.max_batch = setting.max_batch,
                        .chunk_tokens = setting.chunk_tokens,
                        .limits = {.max_model_len = config_.shape.max_positions,
                                   .vocab_size = config_.shape.vocab}};
    config.num_pages = pages;
    config.page_size = setting.page_size;
    config.end_of_text = {end_of_text()};
    auto runner = std::make_unique<ForwardRunner>(
        ops_, weights_, setting.max_batch,
        [this](const StepPlan& plan, TensorView logits) { Observe(plan, logits); });
    engine_ = Engine::Create(std::move(config), std::move(runner), nullptr).value();
  }

  Engine& engine() { return *engine_; }
  Token end_of_text() const { return config_.shape.vocab - 1; }

  /// The logits that tokens of a request's sample 0 were drawn from; once the engine has stopped.
  const std::vector<std::vector<float>>& logits(RequestId request) { return logits_[request]; }

  Completion Serve(GenerateRequest request) {
    return SubmitAndCollect(*engine_, std::move(request)).value().get();
  }

  /// The log-softmax of the exact logits after each of `tokens` [tokens.size(), vocab].
  std::vector<std::vector<double>> OracleLogprobs(std::span<const Token> tokens,
                                                  OracleOps::Rounding rounding) const {
    const auto count = Narrow<int32_t>(tokens.size());
    OracleOps ops(config_.shape, count, rounding);
    const DecoderWeights weights = LoadDecoderWeights(file_, config_, ops, nullptr).value();
    EXPECT_TRUE(ops.AllocateCache(1, count).ok());
    std::vector<int32_t> positions(count);
    std::iota(positions.begin(), positions.end(), 0);
    const std::vector<int32_t> rows(count, 0);
    const int32_t page = 0;
    const BatchRow row{.query_len = count, .context_len = count, .pages = {&page, 1}};
    const StepBatch batch{
        .token_ids = tokens, .positions = positions, .token_rows = rows, .rows = {&row, 1}};
    const TensorView logits = Logits(ops, weights, Forward(ops, weights, batch), positions);
    std::vector<std::vector<double>> logprobs;
    for (int32_t i = 0; i < count; ++i) {
      std::vector<double>& values =
          logprobs.emplace_back(logits.Row<float>(i), logits.Row<float>(i) + config_.shape.vocab);
      double total = 0;
      for (const double value : values) total += std::exp(value);
      for (double& value : values) value -= std::log(total);
    }
    return logprobs;
  }

 private:
  void Observe(const StepPlan& plan, TensorView logits) {
    int64_t sample = 0;
    for (const PlannedRow& row : plan.rows) {
      if (!row.samples) continue;
      const float* values = logits.Row<float>(sample++);
      if (row.sample == 0) logits_[row.request].emplace_back(values, values + logits.cols);
    }
  }

  std::shared_ptr<const GgufFile> file_;
  ModelConfig config_;
  CpuOps ops_;
  DecoderWeights weights_;
  std::map<RequestId, std::vector<std::vector<float>>> logits_;
  std::unique_ptr<Engine> engine_;
};

GenerateRequest MakeRequest(uint64_t key, int32_t prompt_len, int32_t budget) {
  GenerateRequest request{.max_new_tokens = budget};
  for (int32_t i = 0; i < prompt_len; ++i) {
    request.prompt.push_back(static_cast<Token>(CounterRng(key).Below(i, 279)));
  }
  request.ignore_end_of_text = true;
  return request;
}

/// Everything at once.
SamplingParams AllParams(uint64_t seed) {
  return {.temperature = 1.3F,
          .top_k = 100,
          .top_p = 0.95F,
          .min_p = 0.01F,
          .seed = seed,
          .logit_bias = std::make_shared<const LogitBias>(LogitBias{{5, 2.0F}, {9, -100.0F}}),
          .repetition_penalty = 1.2F,
          .frequency_penalty = 0.3F,
          .presence_penalty = 0.4F,
          .min_tokens = 3};
}

void ExpectSameBits(const PositionLogprobs& a, const PositionLogprobs& b) {
  const auto same = [](const TokenLogprob& x, const TokenLogprob& y) {
    return x.token == y.token &&
           std::bit_cast<uint32_t>(x.logprob) == std::bit_cast<uint32_t>(y.logprob);
  };
  EXPECT_TRUE(same(a.chosen, b.chosen));
  EXPECT_TRUE(std::ranges::equal(a.top, b.top, same));
}

void ExpectSameBits(const std::vector<PositionLogprobs>& a,
                    const std::vector<PositionLogprobs>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ExpectSameBits(a[i], b[i]);
}

std::vector<double> Descending(std::vector<double> values) {
  std::ranges::sort(values, std::greater<>());
  return values;
}

TEST(SamplingTest, LogprobsAreThoseOfTheModelsOwnLogits) {
  Server server({.chunk_tokens = 24, .threads = 2});
  GenerateRequest request = MakeRequest(1, 70, 20);
  request.sampling = AllParams(4);  // None of which may show.
  request.sampling.logprobs = 5;
  request.sampling.prompt_logprobs = 7;
  const Completion completion = server.Serve(request);
  ASSERT_EQ(completion.tokens.size(), 20U);
  ASSERT_EQ(completion.logprobs.size(), 20U);
  ASSERT_EQ(completion.prompt_logprobs.size(), 69U);

  std::vector<Token> tokens = request.prompt;
  tokens.insert(tokens.end(), completion.tokens.begin(), completion.tokens.end());
  const auto exact = server.OracleLogprobs(tokens, OracleOps::Rounding::kNone);
  const auto rounded = server.OracleLogprobs(tokens, OracleOps::Rounding::kBf16);
  double error = 0;
  double rounding = 0;
  double order_error = 0;
  double order_rounding = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const bool in_prompt = i < 69;
    const PositionLogprobs& got =
        in_prompt ? completion.prompt_logprobs[i] : completion.logprobs[i - 69];
    EXPECT_EQ(got.chosen.token, tokens[i + 1]) << i;
    ASSERT_EQ(got.top.size(), in_prompt ? 7U : 5U);
    const auto add = [&](const TokenLogprob& entry) {
      error += std::pow(entry.logprob - exact[i][entry.token], 2);
      rounding += std::pow(rounded[i][entry.token] - exact[i][entry.token], 2);
    };
    add(got.chosen);
    for (size_t k = 0; k < got.top.size(); ++k) {
      add(got.top[k]);
      if (k > 0) {
        EXPECT_GE(got.top[k - 1].logprob, got.top[k].logprob);
      }
    }
    // Nothing more likely is left out: the k-th is as likely as the oracle's k-th.
    const std::vector<double> exact_order = Descending(exact[i]);
    const std::vector<double> rounded_order = Descending(rounded[i]);
    for (size_t k = 0; k < got.top.size(); ++k) {
      order_error += std::pow(got.top[k].logprob - exact_order[k], 2);
      order_rounding += std::pow(rounded_order[k] - exact_order[k], 2);
    }
  }
  ASSERT_GT(rounding, 0);
  EXPECT_LE(std::sqrt(error), 2 * std::sqrt(rounding));
  EXPECT_LE(std::sqrt(order_error), 2 * std::sqrt(order_rounding));
}

TEST(SamplingTest, PromptLogprobsDoNotDependOnChunksPagesOrOthers) {
  GenerateRequest request = MakeRequest(2, 131, 3);
  request.sampling.prompt_logprobs = 3;
  request.sampling.logprobs = 0;
  Server alone({});
  const Completion expected = alone.Serve(request);
  ASSERT_EQ(expected.prompt_logprobs.size(), 130U);
  for (const Setting& setting :
       {Setting{.chunk_tokens = 1}, Setting{.chunk_tokens = 33, .page_size = 1},
        Setting{.chunk_tokens = 130, .page_size = 64, .threads = 2}}) {
    Server server(setting);
    std::vector<std::future<Completion>> others;
    for (uint64_t key = 20; key < 26; ++key) {
      GenerateRequest other = MakeRequest(key, static_cast<int32_t>(key * 3), 8);
      if (key % 2 == 0) other.sampling.prompt_logprobs = 20;
      others.push_back(SubmitAndCollect(server.engine(), other).value());
    }
    const Completion completion = server.Serve(request);
    EXPECT_EQ(completion.tokens, expected.tokens);
    ExpectSameBits(completion.prompt_logprobs, expected.prompt_logprobs);
    ExpectSameBits(completion.logprobs, expected.logprobs);
    for (size_t i = 0; i < others.size(); ++i) {
      const Completion other = others[i].get();
      const size_t prompt_len = (20 + i) * 3;
      EXPECT_EQ(other.prompt_logprobs.size(), i % 2 == 0 ? prompt_len - 1 : 0);
      EXPECT_TRUE(other.logprobs.empty());
    }
  }
}

TEST(SamplingTest, AskingForLogprobsChangesNoBitOfTheLogits) {
  GenerateRequest request = MakeRequest(3, 50, 12);
  request.sampling = AllParams(8);
  Server server({.chunk_tokens = 20});
  const Completion plain = server.Serve(request);
  EXPECT_TRUE(plain.logprobs.empty());
  EXPECT_TRUE(plain.prompt_logprobs.empty());
  request.sampling.logprobs = 20;
  request.sampling.prompt_logprobs = 20;
  const Completion reported = server.Serve(request);
  server.engine().Stop();
  EXPECT_EQ(plain.tokens, reported.tokens);
  for (size_t i = 0; i < plain.tokens.size(); ++i) {
    const std::vector<float>& a = server.logits(plain.request)[i];
    const std::vector<float>& b = server.logits(reported.request)[i];
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << i;
  }
}

TEST(SamplingTest, ASeededRequestGetsTheSameTokensWhateverRunsBesideIt) {
  GenerateRequest request = MakeRequest(4, 60, 40);
  request.sampling = AllParams(12);
  Server server({.chunk_tokens = 16, .threads = 2});
  const std::vector<Token> expected = server.Serve(request).tokens;
  EXPECT_EQ(server.Serve(request).tokens, expected);
  std::vector<std::future<Completion>> completions;
  for (uint64_t key = 0; key < 30; ++key) {
    GenerateRequest other = MakeRequest(key, static_cast<int32_t>(1 + key * 7 % 90), 25);
    other.sampling = key % 3 == 0 ? SamplingParams{} : AllParams(key);
    completions.push_back(SubmitAndCollect(server.engine(), other).value());
    if (key % 5 == 0) completions.push_back(SubmitAndCollect(server.engine(), request).value());
  }
  int repeated = 0;
  for (std::future<Completion>& future : completions) {
    const Completion completion = future.get();
    if (completion.tokens.size() != 40) continue;
    EXPECT_EQ(completion.tokens, expected);
    ++repeated;
  }
  EXPECT_EQ(repeated, 6);
  request.sampling.seed = 13;
  EXPECT_NE(server.Serve(request).tokens, expected);
}

TEST(SamplingTest, EachSampleGetsWhatARequestWithItsSeedGets) {
  GenerateRequest request = MakeRequest(5, 75, 30);  // Four pages of 16 are shared.
  request.sampling = AllParams(21);
  request.sampling.logprobs = 2;
  request.sampling.prompt_logprobs = 1;
  Server server({.chunk_tokens = 32});
  GenerateRequest three = request;
  three.samples = 3;
  const std::vector<Completion> samples =
      SubmitAndCollectSamples(server.engine(), three).value().get();
  ASSERT_EQ(samples.size(), 3U);
  for (int32_t i = 0; i < 3; ++i) {
    request.sampling.seed = SampleSeed(21, i);
    const Completion single = server.Serve(request);
    EXPECT_EQ(samples[i].tokens, single.tokens);
    ExpectSameBits(samples[i].logprobs, single.logprobs);
    if (i == 0) {
      ExpectSameBits(samples[i].prompt_logprobs, single.prompt_logprobs);
    } else {
      EXPECT_TRUE(samples[i].prompt_logprobs.empty());
    }
  }
}

TEST(SamplingTest, BiasAndMinTokensDecideWhenTheEndComes) {
  Server server({});
  GenerateRequest request = MakeRequest(6, 10, 20);
  request.ignore_end_of_text = false;
  request.sampling.logit_bias =
      std::make_shared<const LogitBias>(LogitBias{{server.end_of_text(), 100.0F}});
  EXPECT_EQ(server.Serve(request).tokens, std::vector<Token>({server.end_of_text()}));
  request.sampling.min_tokens = 6;
  const Completion completion = server.Serve(request);
  EXPECT_EQ(completion.finish, FinishReason::kEndOfText);
  EXPECT_EQ(completion.tokens.size(), 7U);
  EXPECT_EQ(std::ranges::count(completion.tokens, server.end_of_text()), 1);

  request.sampling.min_tokens = 21;
  EXPECT_EQ(SubmitAndCollect(server.engine(), request).status().message(),
            "min_tokens is 21: allowed is at most the budget of 20");
  request.sampling = {.min_p = std::nanf("")};
  EXPECT_EQ(SubmitAndCollect(server.engine(), request).status().message(),
            "min_p is nan: allowed is 0 to 1 (0: all tokens)");
}

}  // namespace
}  // namespace decant
