// Samples of one prompt share pages, and nobody can tell: each gets, to the bit, what a request of
// its own with its seed gets.

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/random.h"
#include "base/testing/temporary_folder.h"
#include "engine/completion.h"
#include "engine/load_engine.h"
#include "model/testing/tiny_model.h"

namespace decant {
namespace {

constexpr int32_t kBudget = 12;
constexpr uint64_t kSeed = 11;

/// What one sample got.
struct Sampled {
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;  ///< Of each token; perhaps one more, which was dropped.
};

/// What an engine computed.
struct Served {
  std::vector<Sampled> samples;
  uint64_t prompt_tokens = 0;
};

GenerateRequest MakeRequest(int32_t length, int32_t vocab) {
  GenerateRequest request{.max_new_tokens = kBudget, .ignore_end_of_text = true};
  for (int32_t i = 0; i < length; ++i) {
    request.prompt.push_back(static_cast<Token>(CounterRng(1).Below(i, vocab - 1)));
  }
  // Hot: the tiny model is sure of itself, and samples shall part.
  request.sampling = {.temperature = 4.0F, .top_k = 100, .top_p = 0.99F, .seed = kSeed};
  return request;
}

/// Serves one request by itself, changed by `change`, whose samples may be read by nobody else once
/// freed.
template <typename Change>
Served Serve(const std::string& path, int32_t page_size, int32_t length, Change change) {
  std::map<int32_t, std::vector<std::vector<float>>> logits;
  EngineOptions options;
  options.model = path;
  options.threads = 2;
  options.chunk_tokens = 40;
  options.page_size = page_size;
  options.pool_gib = 0.05;
  options.poison_freed_pages = true;
  options.logits_observer = [&](const StepPlan& plan, TensorView view) {
    int64_t index = 0;
    for (const PlannedRow& row : plan.rows) {
      if (!row.samples) continue;
      const float* values = view.Row<float>(index++);
      logits[row.sample].emplace_back(values, values + view.cols);
    }
  };
  const Expected<std::unique_ptr<ServedModel>> model = LoadEngine(options, nullptr);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  Engine& engine = (*model)->engine();
  GenerateRequest request = MakeRequest(length, (*model)->config().shape.vocab);
  change(request);
  auto completions = SubmitAndCollectSamples(engine, std::move(request));
  EXPECT_TRUE(completions.ok()) << completions.status().ToString();
  Served served;
  for (Completion& completion : completions->get()) {
    EXPECT_EQ(completion.finish, FinishReason::kBudget);
    served.samples.push_back({.tokens = std::move(completion.tokens), .logits = {}});
  }
  engine.Stop();
  EXPECT_EQ(engine.Stats().pages_in_use, 0);
  served.prompt_tokens = engine.Stats().prompt_tokens;
  for (auto& [sample, values] : logits) served.samples.at(sample).logits = std::move(values);
  return served;
}

void ExpectEqual(const Sampled& got, const Sampled& expected, const std::string& what) {
  ASSERT_EQ(expected.tokens.size(), static_cast<size_t>(kBudget)) << what;
  EXPECT_EQ(got.tokens, expected.tokens) << what;
  ASSERT_GE(got.logits.size(), expected.tokens.size()) << what;
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    ASSERT_EQ(std::memcmp(got.logits[i].data(), expected.logits[i].data(),
                          expected.logits[i].size() * sizeof(float)),
              0)
        << what << ": logits of token " << i;
  }
}

TEST(SamplesTest, EachGetsTheBitsOfARequestOfItsOwn) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "tiny.gguf";
  testing::BuildTinyModel({}).WriteTo(path);
  constexpr int32_t kSamples = 3;
  for (const int32_t length : {1, 65, 150}) {
    std::vector<Sampled> alone;
    alone.reserve(kSamples);
    for (int32_t i = 0; i < kSamples; ++i) {
      alone.push_back(Serve(path, 64, length, [i](GenerateRequest& request) {
                        request.sampling.seed = SampleSeed(kSeed, i);
                      }).samples.at(0));
    }
    EXPECT_NE(alone[0].tokens, alone[1].tokens);
    EXPECT_NE(alone[1].tokens, alone[2].tokens);
    const Sampled greedy = Serve(path, 64, length, [](GenerateRequest& request) {
                             request.sampling = {};
                           }).samples.at(0);
    for (const int32_t page_size : {16, 64}) {
      const std::string setting = fmt::format("{} tokens, pages of {}", length, page_size);
      const Served drawn = Serve(path, page_size, length,
                                 [](GenerateRequest& request) { request.samples = kSamples; });
      const Served equal = Serve(path, page_size, length, [](GenerateRequest& request) {
        request.samples = kSamples;
        request.sampling = {};
      });
      const int32_t shared = (length - 1) / page_size * page_size;
      EXPECT_EQ(drawn.prompt_tokens, shared + kSamples * (length - shared)) << setting;
      for (int32_t i = 0; i < kSamples; ++i) {
        const std::string sample = fmt::format("{}, sample {}", setting, i);
        ExpectEqual(drawn.samples.at(i), alone[i], sample);
        ExpectEqual(equal.samples.at(i), greedy, sample + ", greedy");
      }
    }
  }
}

}  // namespace
}  // namespace decant
