// Promise 3: with `split`, what a request gets is a function of its prompt and the weights only, to
// the bit.

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/random.h"
#include "base/testing/temporary_folder.h"
#include "engine/load_engine.h"
#include "model/testing/tiny_model.h"

namespace decant {
namespace {

struct Setting {
  const char* name;
  int32_t threads;
  int32_t chunk_tokens;
  int32_t page_size;
  int32_t others;  ///< requests beside the one that is watched
  DecodeKernel kernel = DecodeKernel::kSplit;
  std::optional<double> max_step_ms{};  ///< Chunks are chosen, chunk_tokens at most.
  LinearLayers linear = LinearLayers::kLibrary;
};

std::vector<Token> Prompt(uint64_t key, int32_t length, int32_t vocab) {
  std::vector<Token> prompt(length);
  for (int32_t i = 0; i < length; ++i) {
    prompt[i] = static_cast<Token>(CounterRng(key).Below(i, vocab - 1));
  }
  return prompt;
}

struct Watched {
  std::vector<std::vector<float>> logits;  ///< of each sampled token
  std::vector<Token> tokens;
};

/// Serves a request of `length` prompt tokens among others and returns what it got.
Watched Serve(const std::string& path, const Setting& setting, int32_t length, int32_t budget) {
  constexpr RequestId kWatched = 2;  // the second to be submitted, where there are others
  const RequestId id = setting.others > 0 ? kWatched : 1;
  Watched watched;
  EngineOptions options;
  options.model = path;
  options.threads = setting.threads;
  options.chunk_tokens = setting.chunk_tokens;
  options.auto_chunk = setting.max_step_ms.has_value();
  options.max_step_ms = setting.max_step_ms;
  options.page_size = setting.page_size;
  options.decode_kernel = setting.kernel;
  options.linear = setting.linear;
  options.pool_gib = 0.5;
  options.poison_freed_pages = true;
  options.logits_observer = [&](const StepPlan& plan, TensorView logits) {
    int64_t sample = 0;
    for (const PlannedRow& row : plan.rows) {
      if (!row.samples) continue;
      if (row.request == id) {
        const float* values = logits.Row<float>(sample);
        watched.logits.emplace_back(values, values + logits.cols);
      }
      ++sample;
    }
  };
  const Expected<std::unique_ptr<ServedModel>> loaded = LoadEngine(options, nullptr);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  ServedModel& model = **loaded;
  const int32_t vocab = model.config().shape.vocab;
  for (int32_t i = 0; i <= setting.others; ++i) {
    const bool is_watched = static_cast<RequestId>(i) + 1 == id;
    GenerateRequest request;
    request.prompt = is_watched ? Prompt(1, length, vocab)
                                : Prompt(100 + i, 1 + (i * 53) % (length + 40), vocab);
    request.max_new_tokens = is_watched ? budget : 1 + (i * 7) % (2 * budget);
    request.ignore_end_of_text = true;
    request.sampling = {.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .seed = 11};
    request.sink = [&watched, is_watched](const StreamUpdate& update) {
      if (is_watched && update.token) watched.tokens.push_back(*update.token);
    };
    EXPECT_TRUE(model.engine().Submit(std::move(request)).ok());
  }
  model.engine().Drain();
  model.engine().Stop();
  return watched;
}

void ExpectEqual(const Watched& got, const Watched& expected, const std::string& setting) {
  EXPECT_EQ(got.tokens, expected.tokens) << setting;
  // A row may run one step past its end, whose logits are dropped.
  ASSERT_GE(got.logits.size(), expected.tokens.size()) << setting;
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    ASSERT_EQ(std::memcmp(got.logits[i].data(), expected.logits[i].data(),
                          expected.logits[i].size() * sizeof(float)),
              0)
        << setting << ": logits of token " << i;
  }
}

TEST(InvarianceTest, TinyModelGivesTheSameBitsInEverySetting) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "tiny.gguf";
  for (const char* family : {"llama", "qwen2"}) {
    testing::BuildTinyModel({.family = family}).WriteTo(path);
    for (int32_t length : {1, 255, 530}) {
      const Watched alone = Serve(path, {"alone", 1, 512, 64, 0}, length, 12);
      ASSERT_EQ(alone.tokens.size(), 12U);
      for (const Setting& setting :
           {Setting{"two threads", 2, 512, 64, 0}, Setting{"chunks of 7", 2, 7, 64, 0},
            Setting{"chunks of 64, pages of 16", 2, 64, 16, 0},
            Setting{.name = "chunks chosen, in a batch of 8",
            .threads = 2,
            .chunk_tokens = 512,
            .page_size = 64,
            .others = 7,
            .max_step_ms = 3},
            Setting{"pages of 256", 2, 512, 256, 0}, Setting{"pages of 1", 2, 100, 1, 0},
            Setting{"in a batch of 32", 2, 512, 64, 31},
            Setting{"in a queue of 48, chunks of 64", 1, 64, 16, 47}}) {
        ExpectEqual(Serve(path, setting, length, 12), alone,
                    fmt::format("{}, {} tokens, {}", family, length, setting.name));
      }
    }
  }
}

TEST(InvarianceTest, SmolLm2GivesTheSameBitsInEverySetting) {
  const char* folder = std::getenv("DECANT_MODELS");
  const std::string path = std::string(folder != nullptr ? folder : DECANT_SOURCE_DIR "/models") +
                           "/smollm2-135m-instruct-q4_1.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " is missing; scripts/fetch-model smollm2-135m gets it";
  }
  constexpr int32_t kLength = 300;
  for (const LinearLayers linear : {LinearLayers::kLibrary, LinearLayers::kInt8}) {
    Setting one{"alone", 1, 512, 64, 0};
    one.linear = linear;
    const Watched alone = Serve(path, one, kLength, 8);
    ASSERT_EQ(alone.tokens.size(), 8U);
    for (Setting setting : {Setting{"two threads, chunks of 7", 2, 7, 16, 0},
                            Setting{"chunks of 64, pages of 256", 2, 64, 256, 0},
                            Setting{"in a batch of 32", 2, 512, 64, 31}}) {
      setting.linear = linear;
      ExpectEqual(Serve(path, setting, kLength, 8), alone,
                  fmt::format("{}{}", setting.name, linear == LinearLayers::kInt8 ? ", int8" : ""));
    }
  }
}

}  // namespace
}  // namespace decant
