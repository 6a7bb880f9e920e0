// What the invariant linear layers make of their sums: each finish against plain loops over the
// sums themselves, and against itself, as a token's bits must not depend on the tokens beside it,
// on their number or on the tile.
#include "ops/cuda/invariant_finish_problem.cuh"

namespace decant::invariant_finish {
namespace {

class InvariantFinishTest : public FinishFixture {
 protected:
  void ExpectRight();
  Output Finished(int32_t source, const std::vector<float>& sums) const;
  void CheckSums(const std::vector<float>& sums) const;
};

/// The sums times the norm's factor against fp64; the root mean square error may be twice
/// that of rounding the input to the weights' type.
void InvariantFinishTest::CheckSums(const std::vector<float>& sums) const {
  const Case& c = GetParam();
  const int32_t step = std::max(1, c.rows() / 61);
  for (int32_t source = 0; source < kSources; ++source) {
    const float* input = input_.data() + int64_t{source} * c.cols();
    double squares = 0;
    for (int32_t i = 0; i < c.cols(); ++i) squares += double{input[i]} * input[i];
    const double norm = c.normed() ? 1 / std::sqrt(squares / c.cols() + kEpsilon) : 1;
    const double scale = c.normed() ? norm : RoundedScale(c.type);
    double errors = 0;
    double roundings = 0;
    for (int32_t row = 0; row < c.rows(); row += step) {
      double exact = 0;
      double rounded = 0;
      for (int32_t i = 0; i < c.cols(); ++i) {
        const double weight = Decode(c.type, weight_elements_[int64_t{row} * c.cols() + i]);
        exact += weight * input[i] * scale;
        rounded += weight * Decode(c.type, Encode(c.type, static_cast<float>(input[i] * scale)));
      }
      const double error = sums[int64_t{source} * c.rows() + row] - exact;
      errors += error * error;
      roundings += (rounded - exact) * (rounded - exact);
    }
    EXPECT_TRUE(std::sqrt(errors) <= 2 * std::sqrt(roundings))
        << "token " << source << ": " << errors << " against " << roundings;
  }
}

/// What the sums of a token, times its norm's factor, should become.
Output InvariantFinishTest::Finished(int32_t source, const std::vector<float>& all_sums) const {
  const Case& c = GetParam();
  const float* sums = all_sums.data() + int64_t{source} * c.rows();
  Output expected;
  const auto push = [&](float value) { expected.elements.push_back(Encode(c.type, value)); };
  if (c.finish == LinearFinish::kFloat) {
    expected.floats.assign(sums, sums + c.rows());
  } else if (c.finish == LinearFinish::kResidual) {
    std::vector<float> squares(SquareParts(c.rows()), 0.0F);
    for (int32_t row = 0; row < c.rows(); ++row) {
      const float value = old_[int64_t{source} * c.rows() + row] + sums[row];
      expected.floats.push_back(value);
      push(value * RoundedScale(c.type));
      squares[row / kSquareColumns] += value * value;
    }
    expected.floats.insert(expected.floats.end(), squares.begin(), squares.end());
  } else if (c.finish == LinearFinish::kSiluMul) {
    for (int32_t i = 0; i < c.model.intermediate; ++i) {
      push(sums[i] / (1 + std::exp(-sums[i])) * sums[c.model.intermediate + i]);
    }
  } else if (c.finish == LinearFinish::kArgmax) {
    for (int32_t part = 0; part < ArgmaxParts(c.rows()); ++part) {
      const int32_t first = part * kArgmaxRows;
      ArgmaxPart largest{-INFINITY, static_cast<uint32_t>(first)};
      for (int32_t row = first; row < std::min(first + kArgmaxRows, c.rows()); ++row) {
        if (sums[row] > largest.largest) largest = {sums[row], static_cast<uint32_t>(row)};
      }
      uint16_t words[4];
      std::memcpy(words, &largest, sizeof(largest));
      expected.elements.insert(expected.elements.end(), std::begin(words), std::end(words));
    }
  } else {
    const int32_t dims = c.model.head_dim;
    const int32_t half = dims / 2;
    for (int32_t row = 0; row < c.rows(); ++row) {
      const auto value = [&](int32_t at) { return sums[at] + (c.bias ? bias_[at] : 0); };
      if (row / dims >= c.model.heads + c.model.kv_heads) {
        push(value(row));
        continue;
      }
      const int32_t dim = row % dims;
      const float* rotation =
          rotations_.data() + int64_t{PositionOf(source)} * dims + dim % half * 2;
      push(dim < half ? value(row) * rotation[0] - value(row + half) * rotation[1]
                      : value(row) * rotation[0] + value(row - half) * rotation[1]);
    }
  }
  return expected;
}

void InvariantFinishTest::ExpectRight() {
  const Case& c = GetParam();
  std::vector<int32_t> sources(kSources);
  for (int32_t i = 0; i < kSources; ++i) sources[i] = i;
  ASSERT_NO_FATAL_FAILURE(MakeBatch(sources));
  const Status status = linear_->Run(weight_, Input(), kSources, {.output = output_.get()});
  ASSERT_TRUE(status.ok()) << status.message();
  const std::vector<float> sums = Download(output_.get(), int64_t{kSources} * c.rows());
  CheckSums(sums);
  // One rounding of what fp32 gives; sums of other terms may cancel in what they add up to.
  const double relative = (c.type == CudaType::kF16 ? 0x1p-11 : 0x1p-8) * 1.01;
  for (int32_t source = 0; source < kSources; ++source) {
    const Output want = Finished(source, sums);
    const Output& got = alone_[source];
    ASSERT_EQ(got.floats.size(), want.floats.size());
    ASSERT_EQ(got.elements.size(), want.elements.size());
    if (c.finish == LinearFinish::kArgmax) {
      EXPECT_TRUE(got.SameBits(want)) << "parts of token " << source;
      continue;
    }
    int64_t wrong = 0;
    for (size_t i = 0; i < want.floats.size(); ++i) {
      wrong +=
          !(std::abs(got.floats[i] - want.floats[i]) <= 1e-5F * std::abs(want.floats[i]) + 1e-6F);
    }
    EXPECT_EQ(wrong, 0) << "fp32 values of token " << source;
    wrong = 0;
    for (size_t i = 0; i < want.elements.size(); ++i) {
      const double exact = Decode(c.type, want.elements[i]);
      const double error = std::abs(Decode(c.type, got.elements[i]) - exact);
      wrong += !(error <= 2 * relative * std::abs(exact) + 2e-6);
    }
    EXPECT_EQ(wrong, 0) << "elements of token " << source;
  }
}

TEST_P(InvariantFinishTest, TokensAreRightAndDependOnNothingElse) {
  for (const LinearKernels kernels : {LinearKernels::kBest, LinearKernels::kPortable}) {
    ASSERT_NO_FATAL_FAILURE(Create(kernels));
    ASSERT_NO_FATAL_FAILURE(ComputeAlone());
    ASSERT_NO_FATAL_FAILURE(ExpectRight());
    std::vector<int32_t> counts = {1, 2, 7, 8, 9, 31, 32, 33, 64, 100, 256, 257, kMostTokens};
    if (SmallTests()) counts = {9, 33};
    for (const int32_t tokens : counts) {
      const std::vector<int32_t> sources = DrawSources(tokens);
      ASSERT_NO_FATAL_FAILURE(MakeBatch(sources));
      const Status status = linear_->Run(weight_, Input(), tokens, Result());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_NO_FATAL_FAILURE(
          ExpectAlone(sources, kernels == LinearKernels::kBest ? "the chosen tile" : "portable"));
    }
    if (linear_->kernels() == LinearKernels::kPortable) return;
  }
}

TEST_P(InvariantFinishTest, EveryTileGivesTheSameBits) {
  const Case& c = GetParam();
  ASSERT_NO_FATAL_FAILURE(Create(LinearKernels::kBest));
  if (linear_->kernels() != LinearKernels::kBest) GTEST_SKIP() << "no kernels for this device";
  ASSERT_NO_FATAL_FAILURE(ComputeAlone());
  for (const int32_t tokens : {5, 12, 29, 61, 100, 300}) {
    if (SmallTests() && tokens > 29) continue;
    for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
      const LinearRoom room = (tokens + tile) % 2 == 0 ? LinearRoom::kWhole : LinearRoom::kHalf;
      const auto plan =
          PlanLinearWith(tile, room,
                         {.rows = c.rows(),
                          .cols = c.cols(),
                          .splits = LinearSplits(c.rows(), c.cols()),
                          .tokens = tokens,
                          .token_rows_unit = TokenRowsUnit(c.finish, c.rows(), c.pair_distance())},
                         linear_->device());
      if (!plan) continue;
      const std::vector<int32_t> sources = DrawSources(tokens);
      ASSERT_NO_FATAL_FAILURE(MakeBatch(sources));
      const Status status = linear_->RunPlan(*plan, weight_, Input(), tokens, Result());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_NO_FATAL_FAILURE(ExpectAlone(sources, "tile " + std::to_string(tile)));
    }
  }
}

/// Only with kQkv do tokens have places that padding lacks.
class InvariantPaddingTest : public FinishFixture {
 protected:
  /// Computes `real` tokens and then `padding` ones by `run`, which is told how many these are.
  template <typename Run>
  void ExpectNoTrace(int32_t real, int32_t padding, const std::string& what, Run&& run) {
    const Case& c = GetParam();
    const int32_t tokens = real + padding;
    std::vector<int32_t> sources = DrawSources(real);
    sources.resize(tokens, 0);  // whose position is 0, as that of padding
    ASSERT_NO_FATAL_FAILURE(MakeBatch(sources, padding));
    const Status status = run(tokens);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<Output> outputs = Collect(tokens);
    const int64_t queries = int64_t{c.model.heads} * c.model.head_dim;
    int64_t written = 0;
    for (int32_t i = 0; i < tokens; ++i) {
      const std::vector<uint16_t>& alone = alone_[sources[i]].elements;
      const auto end = i < real ? alone.end() : alone.begin() + queries;
      ASSERT_TRUE(std::equal(alone.begin(), end, outputs[i].elements.begin()))
          << what << ", token " << i << " of " << real << " and " << padding;
      written += end - alone.begin();
    }
    EXPECT_EQ(CountWritten(tokens), written) << what << ": padding was written to the cache";
  }
};

TEST_P(InvariantPaddingTest, HasQueriesAndLeavesNothingInTheCache) {
  const Case& c = GetParam();
  for (const LinearKernels kernels : {LinearKernels::kBest, LinearKernels::kPortable}) {
    ASSERT_NO_FATAL_FAILURE(Create(kernels));
    ASSERT_NO_FATAL_FAILURE(ComputeAlone());
    constexpr std::pair<int32_t, int32_t> kMixes[] = {{1, 1}, {3, 1}, {9, 7}, {65, 31}, {513, 31}};
    for (const auto& [real, padding] : kMixes) {
      ASSERT_NO_FATAL_FAILURE(ExpectNoTrace(
          real, padding, kernels == LinearKernels::kBest ? "the chosen tile" : "portable",
          [&](int32_t tokens) { return linear_->Run(weight_, Input(), tokens, Result()); }));
    }
    if (linear_->kernels() == LinearKernels::kPortable) return;
    for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
      const auto run = [&](int32_t tokens) {
        const auto plan = PlanLinearWith(tile, LinearRoom::kWhole,
                                         {.rows = c.rows(),
                                          .cols = c.cols(),
                                          .splits = LinearSplits(c.rows(), c.cols()),
                                          .tokens = tokens},
                                         linear_->device());
        // A tile that does not suit the weight: the chosen one once more.
        return plan ? linear_->RunPlan(*plan, weight_, Input(), tokens, Result())
                    : linear_->Run(weight_, Input(), tokens, Result());
      };
      ASSERT_NO_FATAL_FAILURE(ExpectNoTrace(40, 24, "tile " + std::to_string(tile), run));
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const LinearModel tiny{"tiny", 96, 160, 6, 2, 64, 283};  // no whole row block of hidden rows
  LinearModel whole = tiny;
  whole.name = "tiny, whole row blocks of the head";
  whole.vocab = 1088;
  for (const CudaType type : {CudaType::kF16, CudaType::kBf16}) {
    cases.push_back({whole, LinearFinish::kArgmax, type});
    for (const CacheLayout layout : {CacheLayout::kPlain, CacheLayout::kTiled}) {
      const bool bias = layout == CacheLayout::kTiled;
      cases.push_back({tiny, LinearFinish::kQkv, type, layout, bias});
    }
    for (const LinearFinish finish : {LinearFinish::kFloat, LinearFinish::kResidual,
                                      LinearFinish::kSiluMul, LinearFinish::kArgmax}) {
      cases.push_back({tiny, finish, type});
    }
  }
  if (SmallTests()) return cases;
  for (const LinearModel& model : kLinearModels) {
    const bool bias = model.name.starts_with("qwen");
    for (const LinearFinish finish :
         {LinearFinish::kQkv, LinearFinish::kResidual, LinearFinish::kSiluMul}) {
      const CudaType type = cases.size() % 2 == 0 ? CudaType::kF16 : CudaType::kBf16;
      const CacheLayout layout = cases.size() % 5 == 0 ? CacheLayout::kPlain : CacheLayout::kTiled;
      cases.push_back({model, finish, type, layout, bias});
    }
  }
  return cases;
}

std::vector<Case> QkvCases() {
  std::vector<Case> cases = Cases();
  std::erase_if(cases, [](const Case& c) { return c.finish != LinearFinish::kQkv; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, InvariantFinishTest, testing::ValuesIn(Cases()));
INSTANTIATE_TEST_SUITE_P(Cases, InvariantPaddingTest, testing::ValuesIn(QkvCases()));

}  // namespace
}  // namespace decant::invariant_finish
