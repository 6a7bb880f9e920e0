// Numbers that are none: the request whose activations or logits they are ends with an error, and
// no other one notices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <limits>
#include <map>
#include <set>

#include "base/random.h"
#include "base/testing/temporary_folder.h"
#include "engine/completion.h"
#include "engine/load_engine.h"
#include "model/testing/tiny_model.h"
#include "ops/forwarding_ops.h"

namespace decant {
namespace {

using ::testing::HasSubstr;

constexpr Token kMarker = 7;          // the first token of a request that is to be spoiled
constexpr int32_t kSpoiledFrom = 20;  // the first context length at which it is
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// What is done to a value of a marked request.
struct Spoil {
  bool logits = false;
  std::optional<int32_t> attention_layer{};
  float value = kNaN;
};

/// Spoils the logits, or what attention gives, of rows whose request begins with the marker.
class SpoilingOps : public ForwardingOps {
 public:
  SpoilingOps(std::unique_ptr<Ops> inner_ops, const Spoil& spoil)
      : ForwardingOps(std::move(inner_ops)), spoil_(spoil) {}

  void BeginStep(const StepBatch& batch) override {
    batch_ = &batch;
    for (const BatchRow& row : batch.rows) {
      if (row.context_len > row.query_len) continue;
      if (batch.token_ids[row.query_start] == kMarker) {
        marked_.insert(row.slot);
      } else {
        marked_.erase(row.slot);
      }
    }
    inner().BeginStep(batch);
  }

  void Attention(int32_t layer, TensorView queries, TensorView attended) override {
    inner().Attention(layer, queries, attended);
    if (layer != spoil_.attention_layer) return;
    std::vector<float> values(attended.rows * attended.cols);
    inner().Download(attended, values);
    for (int64_t token = 0; token < attended.rows; ++token) {
      if (!Spoiled(static_cast<int32_t>(token))) continue;
      for (const int64_t i : {1, 5, 100}) values[token * attended.cols + i] = spoil_.value;
    }
    inner().Upload(values, attended);
  }

  TensorView NormHead(const VectorWeight& final_norm, const LinearWeight& head, TensorView residual,
                      std::span<const int32_t> tokens) override {
    const TensorView logits = inner().NormHead(final_norm, head, residual, tokens);
    for (size_t i = 0; spoil_.logits && i < tokens.size(); ++i) {
      if (Spoiled(tokens[i])) logits.Row<float>(static_cast<int64_t>(i))[3] = spoil_.value;
    }
    return logits;
  }

 private:
  bool Spoiled(int32_t token) const {
    const BatchRow& row = batch_->rows[batch_->token_rows[token]];
    return marked_.contains(row.slot) && batch_->positions[token] + 1 >= kSpoiledFrom;
  }

  const Spoil spoil_;
  const StepBatch* batch_ = nullptr;
  std::set<int32_t> marked_;  // slots
};

class FiniteTest : public ::testing::Test {
 protected:
  std::unique_ptr<ServedModel> Load(const testing::TinyModel& tiny,
                                    const std::optional<Spoil>& spoil, bool check_finite) const {
    testing::BuildTinyModel(tiny).WriteTo(path_);
    EngineOptions options;
    options.model = path_;
    options.threads = 1;
    options.chunk_tokens = 8;
    options.pool_gib = 0.05;
    options.poison_freed_pages = true;
    options.check_finite = check_finite;
    if (spoil) {
      options.wrap_ops = [spoil](std::unique_ptr<Ops> ops, const DecoderShape&) {
        return std::make_unique<SpoilingOps>(std::move(ops), *spoil);
      };
    }
    return LoadEngine(options, nullptr).value();
  }

  /// The completions of five requests side by side, of which number 2 begins with the marker and is
  /// two samples; a sixth one follows.
  static std::vector<std::vector<Completion>> Serve(ServedModel& model) {
    std::vector<std::future<std::vector<Completion>>> futures;
    const auto submit = [&](uint64_t key) {
      GenerateRequest request{.max_new_tokens = 24, .samples = key == 2 ? 2 : 1};
      for (int32_t i = 0; i < 11; ++i) {
        request.prompt.push_back(static_cast<Token>(CounterRng(key).Below(i, 200) + 20));
      }
      if (key == 2) request.prompt[0] = kMarker;
      request.ignore_end_of_text = true;
      request.sampling = {.temperature = key % 2 == 0 ? 0.0F : 1.0F, .seed = key};
      futures.push_back(SubmitAndCollectSamples(model.engine(), std::move(request)).value());
    };
    for (uint64_t key = 0; key < 5; ++key) submit(key);
    std::vector<std::vector<Completion>> completions;
    completions.reserve(6);
    for (auto& future : futures) completions.push_back(future.get());
    futures.clear();
    submit(5);
    completions.push_back(futures.front().get());
    model.engine().Drain();
    model.engine().Stop();  // once the step in flight is done too
    EXPECT_EQ(model.engine().Stats().pages_in_use, 0);
    return completions;
  }

  /// Only the marked request fails, with `message`; the others get what they get without it.
  void ExpectOneFailure(const Spoil& spoil, bool check_finite, const std::string& message) const {
    const std::unique_ptr<ServedModel> healthy = Load({}, std::nullopt, check_finite);
    const auto expected = Serve(*healthy);
    const std::unique_ptr<ServedModel> model = Load({}, spoil, check_finite);
    const auto completions = Serve(*model);
    for (size_t i = 0; i < completions.size(); ++i) {
      ASSERT_EQ(completions[i].size(), expected[i].size());
      for (size_t sample = 0; sample < completions[i].size(); ++sample) {
        const Completion& got = completions[i][sample];
        const Completion& good = expected[i][sample];
        EXPECT_EQ(good.finish, FinishReason::kBudget);
        if (i != 2) {
          EXPECT_EQ(got.finish, FinishReason::kBudget) << got.status.ToString();
          EXPECT_EQ(got.tokens, good.tokens) << "request " << i;
          continue;
        }
        EXPECT_EQ(got.finish, FinishReason::kFailed);
        EXPECT_THAT(got.status.message(), HasSubstr(message));
        ASSERT_LT(got.tokens.size(), good.tokens.size());
        EXPECT_GE(got.tokens.size(), 1U);
        EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), good.tokens.begin()));
      }
    }
    EXPECT_EQ(model->engine().Stats().count(FinishReason::kFailed), 2U);
  }

  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "tiny.gguf";
};

TEST_F(FiniteTest, LogitsThatAreNoNumbersFailTheirRequestOnly) {
  for (const float value : {kNaN, kInf}) {
    ExpectOneFailure({.logits = true, .value = value}, false,
                     "the logits after position 19 are no numbers");
  }
}

TEST_F(FiniteTest, ActivationsAreNamedByLayerAndOperation) {
  ExpectOneFailure({.attention_layer = 1, .value = kNaN}, true,
                   "layer 1, attention: NaN in 3 of 192 values, token position 19 of request 3");
  ExpectOneFailure({.attention_layer = 0, .value = -kInf}, true,
                   "layer 0, attention: inf in 3 of 192 values, token position 19 of request 3");
}

TEST_F(FiniteTest, ALayerThatLeavesTheRangeIsNamedForEveryRequest) {
  const testing::TinyModel tiny{.layers = 3, .type = GgmlType::kF32, .overflowing_layer = 1};
  for (const bool check_finite : {true, false}) {
    const std::unique_ptr<ServedModel> model = Load(tiny, std::nullopt, check_finite);
    for (const std::vector<Completion>& samples : Serve(*model)) {
      for (const Completion& completion : samples) {
        EXPECT_EQ(completion.finish, FinishReason::kFailed);
        EXPECT_EQ(completion.tokens.size(), 0U);
        // The prompt's first position is the first that is computed.
        EXPECT_THAT(completion.status.message(),
                    HasSubstr(check_finite ? "layer 1, norm, gate and up: inf in "
                                           : "--check-finite names the layer"));
        if (!check_finite) continue;
        EXPECT_THAT(completion.status.message(), HasSubstr(" of 160 values, token position 0 of"));
      }
    }
    EXPECT_TRUE(model->engine().Health().code() != StatusCode::kInternal) << "the engine lives";
  }
}

TEST(ComputeTypeTest, ModelsKnownToLeaveTheRangeOfFp16RunInBf16) {
  const Device gpu{.kind = DeviceKind::kCuda};
  ModelConfig config;
  config.family = "llama";
  EXPECT_EQ(ChooseComputeType(ComputeType::kAuto, gpu, config).type, ComputeType::kF16);
  config.stored_type = "bfloat16";
  const ChosenType stored = ChooseComputeType(ComputeType::kAuto, gpu, config);
  EXPECT_EQ(stored.type, ComputeType::kBf16);
  EXPECT_THAT(stored.reason, HasSubstr("made in bfloat16"));
  config = {};
  config.family = "qwen2";
  const ChosenType known = ChooseComputeType(ComputeType::kAuto, gpu, config);
  EXPECT_EQ(known.type, ComputeType::kBf16);
  EXPECT_THAT(known.reason, HasSubstr("qwen2"));
  EXPECT_EQ(ChooseComputeType(ComputeType::kF16, gpu, config).type, ComputeType::kF16);
  EXPECT_EQ(ChooseComputeType(ComputeType::kAuto, Device{}, config).type, ComputeType::kAuto);
}

}  // namespace
}  // namespace decant
