// The head's tokens without logits: what LinearFinish::kArgmax and LaunchArgmaxOfParts find against
// plain loops, and LaunchArgmax, over the logits that LinearFinish::kFloat writes; with ties and
// with numbers from which no token can be drawn, by every tile.
#include <limits>
#include <span>

#include "ops/cuda/argmax.h"
#include "ops/cuda/draw.h"
#include "ops/cuda/invariant_finish_problem.cuh"

namespace decant::invariant_finish {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A token's logits are these times its size, row by row.
struct Head {
  const char* name;
  float (*logit)(int32_t row, int32_t rows);
};
constexpr Head kHeads[] = {
    {"many largest", [](int32_t row, int32_t) { return static_cast<float>(row % 97); }},
    {"all equal", [](int32_t, int32_t) { return -3.0F; }},
    {"the last row, of negative ones",
     [](int32_t row, int32_t rows) { return row == rows - 1 ? -1.0F : -5.0F; }},
    {"+infinity",
     [](int32_t row, int32_t) { return row == 7 ? kInf : static_cast<float>(row % 5); }},
    {"-infinity", [](int32_t row, int32_t) { return row == 7 ? -kInf : -1.0F - row % 5; }},
    {"NaN in the last row",
     [](int32_t row, int32_t rows) {
       return row == rows - 1 ? kNaN : static_cast<float>(row % 9);
     }},
    {"NaN before -infinity", [](int32_t row, int32_t) { return row == 0 ? kNaN : -kInf; }},
    {"all NaN", [](int32_t, int32_t) { return kNaN; }},
    {"all -infinity", [](int32_t, int32_t) { return -kInf; }},
};
/// Of tokens. Infinity times 0 is NaN.
constexpr float kSizes[] = {1, -1, 0.5F, 0, 2, -2, 0.25F};

struct ArgmaxCase {
  CudaType type = CudaType::kF16;
  int32_t rows = 0;
  int32_t cols = 0;
};
void PrintTo(const ArgmaxCase& c, std::ostream* out) {
  *out << c.rows << " x " << c.cols << (c.type == CudaType::kF16 ? " fp16" : " bf16");
}

/// What is drawn from some rows of logits.
struct Drawn {
  std::vector<int32_t> out;
  std::vector<int32_t> last;

  bool operator==(const Drawn& other) const { return out == other.out && last == other.last; }
};

class InvariantArgmaxTest : public testing::TestWithParam<ArgmaxCase> {
 protected:
  void SetUp() override {
    if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device here";
    const ArgmaxCase& c = GetParam();
    stream_ = CudaStream::Create().value();
    weight_source_ = Allocate<uint16_t>(int64_t{c.rows} * c.cols);
    input_ = Allocate<uint16_t>(int64_t{kMostTokens} * c.cols);
    logits_ = Allocate<float>(int64_t{kMostTokens} * c.rows);
    parts_ = Allocate<ArgmaxPart>(PartsOf(kMostTokens));
    out_ = Allocate<int32_t>(kMostTokens);
    last_ = Allocate<int32_t>(kMostTokens);
  }
  void TearDown() override {
    if (!IsSkipped()) EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  int64_t PartsOf(int32_t tokens) const { return int64_t{tokens} * ArgmaxParts(GetParam().rows); }

  void Create(LinearKernels kernels) {
    auto linear = InvariantLinear::Create(GetParam().type, 0, stream_, kernels);
    ASSERT_TRUE(linear.ok()) << linear.status().message();
    linear_ = std::move(linear).value();
  }

  /// element(row, column)
  template <typename Element>
  void MakeWeight(Element&& element) {
    const ArgmaxCase& c = GetParam();
    std::vector<uint16_t> elements;
    elements.reserve(static_cast<size_t>(c.rows) * c.cols);
    for (int32_t row = 0; row < c.rows; ++row) {
      for (int32_t col = 0; col < c.cols; ++col) {
        elements.push_back(Encode(c.type, element(row, col)));
      }
    }
    Send(elements, weight_source_.get());
    auto weight = linear_->Pack(weight_source_.get(), c.rows, c.cols);
    ASSERT_TRUE(weight.ok()) << weight.status().message();
    weight_ = std::move(weight).value();
    Require(cudaDeviceSynchronize());
  }

  /// Column 0 is a token's size, the others are -1, 0 and 1. NaN follows.
  void MakeInput(int32_t tokens) {
    const ArgmaxCase& c = GetParam();
    Require(FillDevice(input_.get(), 0xff, size_t{2} * kMostTokens * c.cols));
    std::vector<uint16_t> input(static_cast<size_t>(tokens) * c.cols);
    for (size_t i = 0; i < input.size(); ++i) {
      const size_t token = i / c.cols;
      const float value = i % c.cols == 0 ? kSizes[token % std::size(kSizes)]
                                          : static_cast<float>(rng_.Below(i, 3)) - 1;
      input[i] = Encode(c.type, value);
    }
    Send(input, input_.get());
  }

  /// The engine's rows in another order than the tokens.
  static std::vector<int32_t> Slots(int32_t tokens) {
    std::vector<int32_t> slots(tokens);
    for (int32_t i = 0; i < tokens; ++i) slots[i] = tokens - 1 - i;
    return slots;
  }

  /// Of all that `launch`, which gets slots, writes.
  template <typename Launch>
  Drawn Draw(int32_t tokens, Launch&& launch) {
    Require(FillDevice(out_.get(), 0xff, tokens * sizeof(int32_t)));
    Require(FillDevice(last_.get(), 0xff, tokens * sizeof(int32_t)));
    launch(Slots(tokens));
    Require(cudaGetLastError());
    return {.out = Download(out_.get(), tokens), .last = Download(last_.get(), tokens)};
  }

  /// The same by plain loops over the logits.
  Drawn DrawnByLoops(int32_t tokens) {
    const int32_t rows = GetParam().rows;
    const std::vector<float> all = Download(logits_.get(), int64_t{tokens} * rows);
    Drawn drawn{.out = std::vector<int32_t>(tokens), .last = std::vector<int32_t>(tokens)};
    for (int32_t i = 0; i < tokens; ++i) {
      float largest = -kInf;
      int32_t token = 0;
      bool undrawable = false;
      for (int32_t row = 0; row < rows; ++row) {
        const float logit = all[static_cast<size_t>(i) * rows + row];
        undrawable = undrawable || std::isnan(logit) || logit == kInf;
        if (logit > largest) {
          largest = logit;
          token = row;
        }
      }
      drawn.out[i] = undrawable ? kNoDraw : token;
      drawn.last[tokens - 1 - i] = token;
      ++(undrawable ? undrawable_ : drawable_);
    }
    return drawn;
  }

  /// The tokens by the argmax of logits, then by the head alone: as `run` computes products.
  template <typename Run>
  void ExpectTokens(int32_t tokens, const std::string& what, Run&& run) {
    const ArgmaxCase& c = GetParam();
    const Status status = run(ProductResult{.output = logits_.get()});
    ASSERT_TRUE(status.ok()) << status.message();
    const Drawn expected = DrawnByLoops(tokens);
    const Drawn of_logits = Draw(tokens, [&](const std::vector<int32_t>& slots) {
      LaunchArgmax(logits_.get(), c.rows, slots, last_.get(), out_.get(), stream_.get());
    });
    EXPECT_TRUE(of_logits == expected) << what << ", logits of " << tokens << " tokens";
    Require(FillDevice(parts_.get(), 0xff, PartsOf(tokens) * sizeof(ArgmaxPart) + kGuardBytes));
    const Drawn in_head = Draw(tokens, [&](const std::vector<int32_t>& slots) {
      const Status computed =
          run(ProductResult{.finish = LinearFinish::kArgmax, .output = parts_.get()});
      EXPECT_TRUE(computed.ok()) << computed.message();
      LaunchArgmaxOfParts(parts_.get(), c.rows, slots, last_.get(), out_.get(), stream_.get());
    });
    for (int32_t i = 0; i < tokens; ++i) {
      ASSERT_EQ(in_head.out[i], expected.out[i]) << what << ", token " << i << " of " << tokens;
      ASSERT_EQ(in_head.last[i], expected.last[i]) << what << ", slot " << i << " of " << tokens;
    }
    const auto behind = Download(reinterpret_cast<const uint8_t*>(parts_.get() + PartsOf(tokens)),
                                 static_cast<int64_t>(kGuardBytes));
    EXPECT_EQ(std::ranges::count(behind, 0xff), static_cast<int64_t>(behind.size()))
        << what << ": written outside";
  }

  /// By the chosen tile, and where they are compiled by every one.
  void ExpectTokensByAll(int32_t tokens, const std::string& head) {
    const ArgmaxCase& c = GetParam();
    const LinearInput input{.elements = input_.get()};
    ASSERT_NO_FATAL_FAILURE(MakeInput(tokens));
    ASSERT_NO_FATAL_FAILURE(ExpectTokens(
        tokens, head + ", " + linear_->Describe(),
        [&](const ProductResult& result) { return linear_->Run(weight_, input, tokens, result); }));
    if (linear_->kernels() == LinearKernels::kPortable) return;
    for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
      const auto plan =
          PlanLinearWith(tile, LinearRoom::kWhole,
                         {.rows = c.rows,
                          .cols = c.cols,
                          .splits = LinearSplits(c.rows, c.cols),
                          .tokens = tokens,
                          .token_rows_unit = TokenRowsUnit(LinearFinish::kArgmax, c.rows, 0)},
                         linear_->device());
      if (!plan) continue;
      token_rows_ = token_rows_ || kLinearTiles[tile].token_rows();
      ASSERT_NO_FATAL_FAILURE(ExpectTokens(
          tokens, head + ", tile " + std::to_string(tile), [&](const ProductResult& result) {
            return linear_->RunPlan(*plan, weight_, input, tokens, result);
          }));
    }
  }

  const CounterRng rng_{12};
  CudaStream stream_;
  DeviceArray<uint16_t> weight_source_, input_;
  DeviceArray<float> logits_;
  DeviceArray<ArgmaxPart> parts_;
  DeviceArray<int32_t> out_, last_;
  std::unique_ptr<InvariantLinear> linear_;
  PackedWeight weight_;
  int64_t drawable_ = 0;
  int64_t undrawable_ = 0;
  bool token_rows_ = false;  ///< whether a tile of LinearMode::kTokenRows has run
};

TEST_P(InvariantArgmaxTest, FindsTheTokensOfTheLogits) {
  std::vector<int32_t> counts = {1, 5, 13, 32, 61, 100, 300};  // a SlotList has 256
  if (SmallTests()) counts = {5};
  for (const LinearKernels kernels : {LinearKernels::kBest, LinearKernels::kPortable}) {
    ASSERT_NO_FATAL_FAILURE(Create(kernels));
    for (const Head& head : std::span(kHeads).first(SmallTests() ? 1 : std::size(kHeads))) {
      ASSERT_NO_FATAL_FAILURE(MakeWeight([&](int32_t row, int32_t col) {
        return col == 0 ? head.logit(row, GetParam().rows) : 0.0F;
      }));
      for (const int32_t tokens : counts) {
        ASSERT_NO_FATAL_FAILURE(ExpectTokensByAll(tokens, head.name));
      }
    }
    // Sums of all columns: small whole numbers, many of them equal.
    ASSERT_NO_FATAL_FAILURE(MakeWeight([&](int32_t row, int32_t col) {
      return static_cast<float>(rng_.Below(int64_t{row} * 8192 + col, 3)) - 1;
    }));
    for (const int32_t tokens : counts) {
      ASSERT_NO_FATAL_FAILURE(ExpectTokensByAll(tokens, "sums"));
    }
    if (linear_->kernels() == LinearKernels::kPortable) break;
    EXPECT_EQ(token_rows_, GetParam().rows % 64 == 0);
  }
  EXPECT_GT(drawable_, 0);
  if (!SmallTests()) EXPECT_GT(undrawable_, 0);
}

/// No whole row block, no whole part, one range and several; and whole row blocks, the last tile of
/// which has none of its last parts where tokens are rows.
std::vector<ArgmaxCase> ArgmaxCases() {
  std::vector<ArgmaxCase> cases;
  for (const CudaType type : {CudaType::kF16, CudaType::kBf16}) {
    cases.push_back({type, 1003, 64});
    cases.push_back({type, 280, 1536});
    cases.push_back({type, 1088, 128});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, InvariantArgmaxTest, testing::ValuesIn(ArgmaxCases()));

}  // namespace
}  // namespace decant::invariant_finish
