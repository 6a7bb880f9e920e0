// A step's bits do not depend on whether its layers are launched as a graph, kernel by kernel, or
// with something between each two operations, behind which no kernel starts early.

#include <fmt/format.h>
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
#include "model/forward.h"
#include "model/testing/tiny_model.h"
#include "ops/check_finite_ops.h"
#include "runtime/cuda_runner.h"
#include "sched/scheduler.h"

namespace decant {
namespace {

constexpr int32_t kRows = 24;
constexpr int32_t kSamples = 32;
constexpr int32_t kChunkTokens = 2048;
constexpr int32_t kPages = 1600;
constexpr int32_t kPageSize = 16;
constexpr int32_t kPositions = 4096;

/// How a step's operations are launched.
enum class Launches {
  kGraphs,
  kKernels,
  kWatched,  ///< One by one, each result looked at, as with --check-finite.
  kTokens,   ///< As graphs, and nobody looks at logits.
};

/// What requests ask for.
enum class Requests {
  kMixed,   ///< Greedy, sampled and with penalties.
  kGreedy,  ///< The first largest logit, no more.
};

struct Setting {
  testing::TinyModel model{};
  CudaType type = CudaType::kF16;
  LinearLayers linear = LinearLayers::kLibrary;
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

/// A model on the device: once for all ways of launching, since cuBLASLt's algorithms are chosen by
/// measurement when it is loaded.
class LoadedModel {
 public:
  explicit LoadedModel(const Setting& setting)
      : file_(std::make_shared<const GgufFile>(
            GgufFile::FromBytes("tiny", testing::BuildTinyModel(setting.model).Build()).value())),
        config_(ReadModelConfig(*file_).value()) {
    auto ops = CudaOps::Create({.shape = config_.shape,
                                .type = setting.type,
                                .decode_kernel = DecodeKernel::kSplit,
                                .linear = setting.linear,
                                .threads = 2,
                                .max_tokens = kChunkTokens + kRows,
                                .max_rows = kRows,
                                .max_samples = kSamples,
                                .max_model_len = setting.model.max_positions});
    DECANT_CHECK(ops.ok(), "{}", ops.status().ToString());
    device_ = ops->get();
    watched_ = std::make_unique<CheckFiniteOps>(std::move(ops).value());
    weights_ = LoadDecoderWeights(file_, config_, *watched_, nullptr).value();
  }

  const DecoderShape& shape() const { return config_.shape; }
  CudaOps& device() { return *device_; }
  Ops& watched() { return *watched_; }
  const DecoderWeights& weights() const { return weights_; }

 private:
  std::shared_ptr<const GgufFile> file_;
  ModelConfig config_;
  CudaOps* device_ = nullptr;
  std::unique_ptr<Ops> watched_;  ///< Around device_.
  DecoderWeights weights_;
};

/// A scheduler and a runner of one model, step by step, with one step in flight as in an engine.
class Serving {
 public:
  Serving(LoadedModel& model, Launches launches, Requests requests)
      : device_(model.device()),
        requests_(requests),
        pool_(kPages, kPageSize),
        scheduler_({.max_batch = kRows,
                    .chunk_tokens = kChunkTokens,
                    .limits = {.max_model_len = kPositions}},
                   pool_) {
    const Status cache = device_.AllocateCache(kPages, kPageSize);
    DECANT_CHECK(cache.ok(), "{}", cache.ToString());
    for (int32_t page = 0; page < kPages; ++page) device_.PoisonPage(page);
    pool_.set_free_observer([this](std::span<const int32_t> pages) {
      for (const int32_t page : pages) device_.PoisonPage(page);
    });
    Ops& ops = launches == Launches::kWatched ? model.watched() : device_;
    LogitsObserver observer;
    if (launches != Launches::kTokens) {
      observer = [this](const StepPlan& plan, TensorView logits) { Observe(plan, logits); };
    }
    runner_ = CudaRunner::Create(ops, device_, model.weights(),
                                 {.max_rows = kRows,
                                  .max_samples = kSamples,
                                  .vocab = model.shape().vocab,
                                  .graphs = launches != Launches::kKernels},
                                 std::move(observer))
                  .value();
  }

  void Submit(RequestId id, int32_t prompt_len, int32_t budget) {
    Request request{.id = id, .max_new_tokens = budget};
    for (int32_t i = 0; i < prompt_len; ++i) {
      request.prompt.push_back(static_cast<Token>(CounterRng(id).Below(i, 250)));
    }
    const bool mixed = requests_ == Requests::kMixed;
    if (mixed && id % 3 == 0) request.sampling = {.temperature = 0.8F, .top_k = 20, .seed = id};
    if (mixed && id % 5 == 0) request.sampling.repetition_penalty = 1.2F;
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
    now_.finite = now_.finite && result_.failures.empty();
    for (const SampledToken& token : result_.tokens) now_.tokens.push_back(token.token);
    outcomes_.push_back(std::exchange(now_, {}));
    scheduler_.Commit(result_);
  }
  void RunOut() {
    while (!scheduler_.idle()) Turn();
  }

  std::vector<Outcome> TakeOutcomes() { return std::exchange(outcomes_, {}); }

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

  CudaOps& device_;
  const Requests requests_;
  PagePool pool_;
  Scheduler scheduler_;
  std::unique_ptr<CudaRunner> runner_;
  StepResult result_;
  Outcome now_;
  std::vector<Outcome> outcomes_;
};

/// Steps of every mix: a chunk of one token, one of 2,048, rows only, then hundreds in which
/// requests of all lengths come, end and are cancelled.
std::vector<Outcome> ServeEverything(LoadedModel& model, Launches launches,
                                     Requests requests = Requests::kMixed) {
  Serving serving(model, launches, requests);
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
  return serving.TakeOutcomes();
}

void ExpectSame(const std::vector<Outcome>& steps, const std::vector<Outcome>& watched,
                const std::string& what) {
  ASSERT_EQ(steps.size(), watched.size()) << what;
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string where = fmt::format("{}, step {} of {} prompt and {} decode tokens", what, i,
                                          watched[i].prompt_tokens, watched[i].decode_tokens);
    ASSERT_TRUE(steps[i].finite && watched[i].finite) << where;
    ASSERT_EQ(steps[i].prompt_tokens, watched[i].prompt_tokens) << where;
    ASSERT_EQ(steps[i].tokens, watched[i].tokens) << where;
    ASSERT_EQ(steps[i].logits, watched[i].logits) << where;
  }
}

void ExpectSameTokens(const std::vector<Outcome>& steps, const std::vector<Outcome>& watched,
                      const std::string& what) {
  ASSERT_EQ(steps.size(), watched.size()) << what;
  for (size_t i = 0; i < steps.size(); ++i) {
    ASSERT_TRUE(steps[i].finite) << what << ", step " << i;
    ASSERT_EQ(steps[i].tokens, watched[i].tokens) << what << ", step " << i;
  }
}

/// Memory that the device writes logits to.
class LogitsMemory {
 public:
  explicit LogitsMemory(LoadedModel& model)
      : data_(Logits(model.device(), model.weights(), model.device().residual(), {}).data),
        bytes_(size_t{kSamples} * model.shape().vocab * sizeof(float)) {}

  void Poison() const { DECANT_CHECK(FillDevice(data_, 0xff, bytes_) == cudaSuccess, "poison"); }
  bool Poisoned() const {
    std::vector<uint8_t> bytes(bytes_);
    DECANT_CHECK(cudaMemcpy(bytes.data(), data_, bytes_, cudaMemcpyDeviceToHost) == cudaSuccess,
                 "downloading logits");
    return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0xff; });
  }

 private:
  std::byte* data_;
  size_t bytes_;
};

class CudaGraphsTest : public ::testing::TestWithParam<Setting> {};

TEST_P(CudaGraphsTest, ChangeNoBitOfAnyStep) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  LoadedModel model(GetParam());
  const std::vector<Outcome> watched = ServeEverything(model, Launches::kWatched);
  EXPECT_EQ(model.device().graphs(), 0);
  const std::vector<Outcome> kernels = ServeEverything(model, Launches::kKernels);
  EXPECT_EQ(model.device().graphs(), 0);
  const std::vector<Outcome> graphs = ServeEverything(model, Launches::kGraphs);
  EXPECT_GE(model.device().graphs(), 5) << "kinds of steps that occurred twice";
  ASSERT_NO_FATAL_FAILURE(ExpectSame(kernels, watched, "kernels"));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(graphs, watched, "graphs"));

  int64_t pure_decode = 0;
  int64_t loaded = 0;
  int64_t prompts_only = 0;
  for (const Outcome& step : watched) {
    ++(step.prompt_tokens == 0 ? pure_decode : step.decode_tokens > 0 ? loaded : prompts_only);
  }
  EXPECT_GT(pure_decode, 100);
  EXPECT_GT(loaded, 50);
  EXPECT_GT(prompts_only, 3);
}

/// The head alone finds the tokens of greedy steps; with cuBLASLt, and in steps where a request
/// wants more, logits are written as ever.
TEST_P(CudaGraphsTest, TokensAreTheSameWithoutLogits) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device";
  LoadedModel model(GetParam());
  const LogitsMemory logits(model);
  for (const Requests requests : {Requests::kGreedy, Requests::kMixed}) {
    const std::vector<Outcome> watched = ServeEverything(model, Launches::kWatched, requests);
    logits.Poison();
    const std::vector<Outcome> tokens = ServeEverything(model, Launches::kTokens, requests);
    const bool in_head =
        requests == Requests::kGreedy && GetParam().linear == LinearLayers::kInvariant;
    EXPECT_EQ(logits.Poisoned(), in_head);
    EXPECT_GE(model.device().graphs(), 5);
    ASSERT_NO_FATAL_FAILURE(ExpectSameTokens(
        tokens, watched, requests == Requests::kGreedy ? "greedy requests" : "all requests"));
  }
}

std::vector<Setting> Settings() {
  const testing::TinyModel llama{.layers = 6, .head_dim = 64, .max_positions = kPositions};
  const testing::TinyModel qwen{.family = "qwen2",
                                .layers = 6,
                                .heads = 7,
                                .kv_heads = 1,
                                .head_dim = 128,
                                .max_positions = kPositions,
                                .tied_head = false,
                                .seed = 2};
  const testing::TinyModel normed_heads{
      .family = "qwen3", .head_dim = 128, .max_positions = kPositions, .seed = 3};
  return {{.model = llama},
          {.model = llama, .linear = LinearLayers::kInvariant},
          {.model = qwen, .type = CudaType::kBf16},
          {.model = qwen, .type = CudaType::kBf16, .linear = LinearLayers::kInvariant},
          {.model = normed_heads, .linear = LinearLayers::kInvariant}};
}

INSTANTIATE_TEST_SUITE_P(Models, CudaGraphsTest, ::testing::ValuesIn(Settings()),
                         [](const auto& test) {
                           return test.param.model.family +
                                  (test.param.linear == LinearLayers::kInvariant ? "Invariant"
                                                                                 : "Cublas");
                         });

}  // namespace
}  // namespace decant
