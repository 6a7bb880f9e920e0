// A step's bits do not depend on whether its layers are launched as a graph.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cache/page_pool.h"
#include "model/testing/tiny_model.h"
#include "runtime/cuda_runner.h"
#include "sched/scheduler.h"

namespace decant {
namespace {

constexpr int32_t kRows = 24;
constexpr int32_t kChunkTokens = 2048;
constexpr int32_t kPages = 1600;
constexpr int32_t kPageSize = 16;

struct Setting {
  testing::TinyModel model{};
  CudaType type = CudaType::kF16;
  LinearLayers linear = LinearLayers::kCublas;
};

/// What a step was and what came of it.
struct Outcome {
  int32_t prompt_tokens = 0;
  int32_t decode_tokens = 0;
  std::vector<Token> tokens{};
  uint64_t logits = 0;  ///< A hash of their bits.
  bool finite = true;
};

uint64_t Hash(const TensorView& logits) {
  uint64_t hash = 0;
  for (int64_t row = 0; row < logits.rows; ++row) {
    for (int64_t i = 0; i < logits.cols; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, logits.Row<float>(row) + i, sizeof(bits));
      hash = CounterRng(hash).Bits(bits);
    }
  }
  return hash;
}

/// A scheduler and a runner of one model, step by step, with one step in flight as in an engine.
class Serving {
 public:
  Serving(const Setting& setting, bool graphs)
      : file_(std::make_shared<const GgufFile>(
            GgufFile::FromBytes("tiny", testing::BuildTinyModel(setting.model).Build()).value())),
        config_(ReadModelConfig(*file_).value()),
        pool_(kPages, kPageSize),
        scheduler_({.max_batch = kRows,
                    .chunk_tokens = kChunkTokens,
                    .limits = {.max_model_len = setting.model.max_positions}},
                   pool_) {
    auto ops = CudaOps::Create({.shape = config_.shape,
                                .type = setting.type,
                                .decode_kernel = DecodeKernel::kSplit,
                                .linear = setting.linear,
                                .threads = 2,
                                .max_tokens = kChunkTokens + kRows,
                                .max_rows = kRows,
                                .max_samples = 32,
                                .max_model_len = setting.model.max_positions});
    DECANT_CHECK(ops.ok(), "{}", ops.status().ToString());
    ops_ = std::move(ops).value();
    weights_ = LoadDecoderWeights(file_, config_, *ops_, nullptr).value();
    const Status cache = ops_->AllocateCache(kPages, kPageSize);
    DECANT_CHECK(cache.ok(), "{}", cache.ToString());
    for (int32_t page = 0; page < kPages; ++page) ops_->PoisonPage(page);
    pool_.set_free_observer([this](std::span<const int32_t> pages) {
      for (const int32_t page : pages) ops_->PoisonPage(page);
    });
    runner_ =
        CudaRunner::Create(
            *ops_, *ops_, weights_,
            {.max_rows = kRows, .max_samples = 32, .vocab = config_.shape.vocab, .graphs = graphs},
            [this](const StepPlan& plan, TensorView logits) { Observe(plan, logits); })
            .value();
  }

  void Submit(RequestId id, int32_t prompt_len, int32_t budget) {
    Request request{.id = id, .max_new_tokens = budget};
    for (int32_t i = 0; i < prompt_len; ++i) {
      request.prompt.push_back(static_cast<Token>(CounterRng(id).Below(i, 250)));
    }
    if (id % 3 == 0) request.sampling = {.temperature = 0.8F, .top_k = 20, .seed = id};
    if (id % 5 == 0) request.sampling.repetition_penalty = 1.2F;
    const Status status = scheduler_.Submit(std::move(request));
    DECANT_CHECK(status.ok(), "{}", status.ToString());
  }
  void Cancel(RequestId id) { scheduler_.End(id); }

  /// Plans and launches a step, and completes the one before.
  void Turn() {
    const bool in_flight = scheduler_.in_flight() == 1;
    const StepPlan& plan = scheduler_.Next();
    if (!plan.empty()) {
      const Expected<Ticket> ticket = runner_->Launch(plan);
      DECANT_CHECK(ticket.ok(), "{}", ticket.status().ToString());
    }
    if (!in_flight) return;
    const Status status = runner_->Wait({.step = outcomes_.size()}, result_);
    DECANT_CHECK(status.ok(), "{}", status.ToString());
    for (const SampledToken& token : result_.tokens) now_.tokens.push_back(token.token);
    outcomes_.push_back(std::exchange(now_, {}));
    scheduler_.Commit(result_);
  }
  void RunOut() {
    while (!scheduler_.idle()) Turn();
  }

  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  size_t graphs() const { return ops_->graphs(); }

 private:
  void Observe(const StepPlan& plan, const TensorView& logits) {
    now_.prompt_tokens = plan.prompt_tokens;
    now_.decode_tokens = plan.decode_tokens;
    now_.logits = Hash(logits);
    for (int64_t row = 0; row < logits.rows; ++row) {
      const float* values = logits.Row<float>(row);
      now_.finite = now_.finite && std::all_of(values, values + logits.cols,
                                               [](float value) { return std::isfinite(value); });
    }
  }

  std::shared_ptr<const GgufFile> file_;
  ModelConfig config_;
  std::unique_ptr<CudaOps> ops_;
  DecoderWeights weights_;
  PagePool pool_;
  Scheduler scheduler_;
  std::unique_ptr<CudaRunner> runner_;
  StepResult result_;
  Outcome now_;
  std::vector<Outcome> outcomes_;
};

/// Steps of every mix: a chunk of one token, one of 2,048, rows only, then hundreds in which
/// requests of all lengths come, end and are cancelled.
void ServeEverything(Serving& serving) {
  RequestId id = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    serving.Submit(++id, 1, 3);
    serving.RunOut();
    serving.Submit(++id, kChunkTokens, 2);
    serving.RunOut();
  }
  for (int32_t i = 0; i < kRows; ++i) serving.Submit(++id, 5 + i, 20 + i);
  serving.RunOut();
  constexpr int32_t kLengths[] = {1, 2, 5, 17, 63, 64, 100, 257, 512, 700, 1500};
  const CounterRng rng(41);
  for (uint64_t turn = 0; turn < 400; ++turn) {
    if (rng.Below(3 * turn, 3) == 0) {
      const int32_t length = kLengths[rng.Below(3 * turn + 1, std::size(kLengths))];
      serving.Submit(++id, length, 1 + static_cast<int32_t>(turn % 37));
    }
    if (turn % 7 == 3) serving.Cancel(id - rng.Below(3 * turn + 2, 12));
    serving.Turn();
  }
  serving.RunOut();
}

class CudaGraphsTest : public ::testing::TestWithParam<Setting> {};

TEST_P(CudaGraphsTest, ChangeNoBitOfAnyStep) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  Serving with(GetParam(), true);
  ServeEverything(with);
  Serving without(GetParam(), false);
  ServeEverything(without);
  EXPECT_EQ(without.graphs(), 0);
  EXPECT_GE(with.graphs(), 5) << "kinds of steps that occurred twice";

  ASSERT_EQ(with.outcomes().size(), without.outcomes().size());
  int64_t pure_decode = 0;
  int64_t loaded = 0;
  int64_t prompts_only = 0;
  for (size_t step = 0; step < with.outcomes().size(); ++step) {
    const Outcome& graph = with.outcomes()[step];
    const Outcome& plain = without.outcomes()[step];
    ++(graph.prompt_tokens == 0 ? pure_decode : graph.decode_tokens > 0 ? loaded : prompts_only);
    ASSERT_TRUE(graph.finite && plain.finite) << "step " << step;
    ASSERT_EQ(graph.prompt_tokens, plain.prompt_tokens) << "step " << step;
    ASSERT_EQ(graph.tokens, plain.tokens) << "step " << step;
    ASSERT_EQ(graph.logits, plain.logits)
        << "step " << step << ", " << graph.prompt_tokens << " prompt and " << graph.decode_tokens
        << " decode tokens";
  }
  EXPECT_GT(pure_decode, 100);
  EXPECT_GT(loaded, 50);
  EXPECT_GT(prompts_only, 3);
}

constexpr int32_t kPositions = 4096;

std::vector<Setting> Settings() {
  const testing::TinyModel llama{.head_dim = 64, .max_positions = kPositions};
  const testing::TinyModel qwen{.family = "qwen2",
                                .heads = 7,
                                .kv_heads = 1,
                                .head_dim = 128,
                                .max_positions = kPositions,
                                .tied_head = false,
                                .seed = 2};
  return {{.model = llama},
          {.model = llama, .linear = LinearLayers::kInvariant},
          {.model = qwen, .type = CudaType::kBf16},
          {.model = qwen, .type = CudaType::kBf16, .linear = LinearLayers::kInvariant}};
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGraphsTest, ::testing::ValuesIn(Settings()),
                         [](const auto& test) {
                           return test.param.model.family +
                                  (test.param.linear == LinearLayers::kInvariant ? "Invariant"
                                                                                 : "Cublas");
                         });

}  // namespace
}  // namespace decant
