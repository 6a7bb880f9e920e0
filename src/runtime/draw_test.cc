// The device's sampler run by threads of the host, against the host's own.

#include <gtest/gtest.h>

#include <barrier>
#include <numeric>
#include <thread>

#include "runtime/draw_cases.h"
#include "runtime/sampler.h"
#include "runtime/step_draws.h"
#include "runtime/step_failures.h"

namespace decant {
namespace {

/// What the threads of a block share.
struct BlockMemory {
  explicit BlockMemory(int32_t threads)
      : barrier(threads), scratch(threads), floats(threads), doubles(threads), flags(threads) {}

  std::barrier<> barrier;
  std::vector<double> scratch;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int32_t> flags;
  int32_t token = 0;
};

class HostBlock {
 public:
  HostBlock(BlockMemory& memory, int32_t thread) : memory_(memory), thread_(thread) {}

  int32_t thread() const { return thread_; }
  int32_t threads() const { return static_cast<int32_t>(memory_.scratch.size()); }
  void Sync() { memory_.barrier.arrive_and_wait(); }
  double* scratch() { return memory_.scratch.data(); }
  int32_t& token() { return memory_.token; }

  float Max(float value) {
    return Meet(memory_.floats, value, [](const std::vector<float>& values) {
      return *std::max_element(values.begin(), values.end());
    });
  }
  double Sum(double value) {
    return Meet(memory_.doubles, value, [](const std::vector<double>& values) {
      return std::accumulate(values.begin(), values.end(), 0.0);
    });
  }
  int32_t Count(bool flag) {
    return Meet(memory_.flags, flag ? 1 : 0, [](const std::vector<int32_t>& values) {
      return std::accumulate(values.begin(), values.end(), 0);
    });
  }
  int32_t ExclusiveCount(bool flag, int32_t* all) {
    return Meet(memory_.flags, flag ? 1 : 0, [&](const std::vector<int32_t>& values) {
      *all = std::accumulate(values.begin(), values.end(), 0);
      return std::accumulate(values.begin(), values.begin() + thread_, 0);
    });
  }

 private:
  template <typename T, typename Read>
  T Meet(std::vector<T>& values, T mine, Read&& read) {
    values[thread_] = mine;
    Sync();
    const T result = read(values);
    Sync();
    return result;
  }

  BlockMemory& memory_;
  int32_t thread_;
};

/// A row of the device: its counts, and its draws.
class DeviceRow {
 public:
  explicit DeviceRow(int32_t vocab) : counts_(vocab), processed_(vocab), list_(vocab) {}

  /// By so many threads.
  Token Draw(const PlannedRow& planned, std::span<const float> logits, int32_t threads) {
    // Behind another row's, so that its lists do not begin at 0.
    StepDraws draws{.biases = {{.token = 0, .bias = 50}}, .banned = {9}};
    AddDraw(planned, draws);
    const RowDraw& row = draws.rows[0];
    for (const StepDraws::Start& start : draws.starts) {
      std::ranges::fill(counts_, 0);
      for (const Token token : start.prompt) counts_[token] = 1;
    }
    const auto vocab = static_cast<int32_t>(logits.size());
    BlockMemory memory(threads);
    std::vector<Token> tokens(threads);
    std::vector<std::jthread> team;
    for (int32_t thread = 0; thread < threads; ++thread) {
      team.emplace_back([&, thread] {
        HostBlock block(memory, thread);
        const float* values = logits.data();
        if (row.changes_logits()) {
          ProcessRow(block, row, values, vocab, draws.biases.data(), draws.banned.data(),
                     counts_.data(), processed_.data());
          values = processed_.data();
        }
        tokens[thread] = DrawToken(block, row, values, vocab, list_.data());
      });
    }
    team.clear();
    for (const Token token : tokens) EXPECT_EQ(token, tokens[0]);
    if (row.penalizes) counts_[tokens[0]] = std::max(counts_[tokens[0]], 1) + 1;
    return tokens[0];
  }

 private:
  std::vector<TokenCount> counts_;
  std::vector<float> processed_;
  std::vector<DrawCandidate> list_;
};

TEST(DrawTest, DrawsWhatTheHostDraws) {
  constexpr int32_t kVocab = 211;
  constexpr uint64_t kDraws = 5;
  const std::vector<std::vector<float>> logits = DrawLogits(kVocab);
  const std::vector<Token> prompt = {1, 7, 7, 30, 200};
  const std::vector<Token> stop_tokens = {2, 209};
  int32_t cases = 0;
  for (const SamplingParams& params : DrawCases(kVocab)) {
    // Most by one thread: several wait for each other a thousand times a draw.
    const int32_t threads = ++cases % 32 == 0 ? 2 : 1;
    DeviceRow device(kVocab);
    Sampler host;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const std::vector<float>& row = logits[(i + params.seed) % logits.size()];
      const Token expected = host.Sample(
          row, params, {.sample_index = i, .prompt = prompt, .stop_tokens = stop_tokens});
      EXPECT_EQ(device.Draw({.samples = true,
                             .prompt = prompt,
                             .stop_tokens = stop_tokens,
                             .sampling = params,
                             .sample_index = i},
                            row, threads),
                expected)
          << "draw " << i << " of temperature " << params.temperature << ", top_k " << params.top_k
          << ", top_p " << params.top_p << ", min_p " << params.min_p << ", by " << threads
          << " threads";
    }
  }
}

TEST(DrawTest, NothingAboveMinusInfinityGivesTokenZero) {
  const std::vector<float> none(50, -std::numeric_limits<float>::infinity());
  const std::vector<float> nan(50, std::numeric_limits<float>::quiet_NaN());
  for (const float temperature : {0.0F, 1.0F}) {
    const PlannedRow row{.samples = true,
                         .sampling = {.temperature = temperature, .top_k = 5, .top_p = 0.5F}};
    DeviceRow device(50);
    EXPECT_EQ(device.Draw(row, none, 3), 0);
    EXPECT_EQ(device.Draw(row, nan, 3), 0);
  }
}

TEST(DrawTest, TellsOfRowsFromWhichNoTokenCanBeDrawn) {
  constexpr int32_t kVocab = 53;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf, 3e38F}) {
    for (const int32_t at : {0, 17, kVocab - 1}) {
      std::vector<float> logits(kVocab, 1.0F);
      logits[at] = value;
      const bool expected = value < kInf;
      EXPECT_EQ(CanDraw(logits), expected) << value;
      for (const int32_t threads : {1, 3}) {
        BlockMemory memory(threads);
        std::vector<std::jthread> team;
        for (int32_t thread = 0; thread < threads; ++thread) {
          team.emplace_back([&, thread] {
            HostBlock block(memory, thread);
            EXPECT_EQ(draw::CanDraw(block, logits.data(), kVocab), expected) << value;
          });
        }
      }
    }
  }
}

TEST(DrawTest, InfiniteLogitsShareTheDraw) {
  std::vector<float> logits(40, 0.0F);
  logits[11] = logits[30] = std::numeric_limits<float>::infinity();
  const SamplingParams params{.temperature = 1, .top_p = 0.9F, .seed = 3};
  DeviceRow device(40);
  Sampler host;
  for (uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(device.Draw({.samples = true, .sampling = params, .sample_index = i}, logits, 4),
              host.Sample(logits, params, {.sample_index = i}));
  }
}

}  // namespace
}  // namespace decant
