// Invariant linear layers against plain loops, and against themselves: a row's bits alone, in any
// number of tokens, at any place among them, by every tile.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ops/cuda/device.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/invariant_linear.h"
#include "ops/cuda/linear_shapes.h"
#include "ops/cuda/testing/device_array.h"
#include "ops/cuda/testing/small_tests.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

namespace decant {
namespace {

/// Different input rows; a batch repeats them in any order.
constexpr int32_t kRows = 16;
constexpr size_t kGuardBytes = 4096;
/// Outputs of a weight at most: what a test may take on a shared GPU.
constexpr int64_t kMostOutputs = int64_t{48} << 20;

struct Case {
  std::string name;
  CudaType type = CudaType::kF16;
  int32_t rows = 0;
  int32_t cols = 0;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name << (c.type == CudaType::kF16 ? " fp16 " : " bf16 ") << c.rows << " x " << c.cols;
}

/// Element `index` of the numbers that `seed` names, in [-1, 1); the same on host and device.
__host__ __device__ float Draw(uint64_t seed, int64_t index) {
  return static_cast<float>(CounterRng(seed).Uniform(static_cast<uint64_t>(index))) * 2 - 1;
}

float Round(CudaType type, float value) {
  return type == CudaType::kF16 ? ToFloat(ToF16(value)) : ToFloat(ToBf16(value));
}

template <typename T>
__global__ void FillElements(uint64_t seed, int64_t count, T* out) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    out[i] = Element<T>::From(Draw(seed, i));
  }
}

/// out row i = source row rows[i], then one row of NaN.
__global__ void GatherRows(const uint16_t* source, const int32_t* rows, int32_t cols,
                           uint16_t* out) {
  const int32_t row = static_cast<int32_t>(blockIdx.x);
  for (int32_t col = threadIdx.x; col < cols; col += blockDim.x) {
    out[int64_t{row} * cols + col] =
        rows[row] < 0 ? uint16_t{0x7fff} : source[int64_t{rows[row]} * cols + col];
  }
}

struct Difference {
  unsigned long long count;
  unsigned long long first;
};

/// Compares output row i with expected row rows[i], bit for bit.
__global__ void CountDifferences(const uint32_t* output, const uint32_t* expected,
                                 const int32_t* rows, int64_t tokens, int32_t width,
                                 Difference* difference) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < tokens * width;
       i += stride) {
    if (output[i] == expected[int64_t{rows[i / width]} * width + i % width]) continue;
    if (atomicAdd(&difference->count, 1ULL) == 0) difference->first = i;
  }
}

class InvariantLinearTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "no CUDA device here";
    }
    auto stream = CudaStream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status().message();
    stream_ = std::move(stream).value();
    const Case& c = GetParam();
    most_tokens_ = static_cast<int32_t>(std::min<int64_t>(2048, kMostOutputs / c.rows));
    source_ = AllocateArray<uint16_t>(int64_t{c.rows} * c.cols);
    inputs_ = AllocateArray<uint16_t>(int64_t{kRows} * c.cols);
    batch_ = AllocateArray<uint16_t>(int64_t{most_tokens_ + 1} * c.cols);
    batch_rows_ = AllocateArray<int32_t>(most_tokens_ + 1);
    output_ = AllocateArray<float>(int64_t{most_tokens_} * c.rows + kGuardBytes / sizeof(float));
    alone_ = AllocateArray<float>(int64_t{kRows} * c.rows);
    difference_ = AllocateArray<Difference>(1);
    Fill(kWeightSeed, int64_t{c.rows} * c.cols, source_.get());
    Fill(kInputSeed, int64_t{kRows} * c.cols, inputs_.get());
  }

  void TearDown() override {
    if (!IsSkipped()) EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  void Fill(uint64_t seed, int64_t count, uint16_t* out) const {
    if (GetParam().type == CudaType::kF16) {
      FillElements<<<512, 256, 0, stream_.get()>>>(seed, count, reinterpret_cast<__half*>(out));
    } else {
      FillElements<<<512, 256, 0, stream_.get()>>>(seed, count,
                                                   reinterpret_cast<__nv_bfloat16*>(out));
    }
    Require(cudaGetLastError());
  }

  void Create(LinearKernels kernels) {
    const Case& c = GetParam();
    auto linear = InvariantLinear::Create(c.type, 0, stream_, kernels);
    ASSERT_TRUE(linear.ok()) << linear.status().message();
    linear_ = std::move(linear).value();
    auto weight = linear_->Pack(source_.get(), c.rows, c.cols);
    ASSERT_TRUE(weight.ok()) << weight.status().message();
    weight_ = std::move(weight).value();
  }

  /// Each input row by itself, fp32, to alone_.
  void ComputeAlone() {
    const Case& c = GetParam();
    for (int32_t row = 0; row < kRows; ++row) {
      const Status status =
          linear_->Run(weight_, {.elements = inputs_.get() + int64_t{row} * c.cols}, 1,
                       {.output = alone_.get() + int64_t{row} * c.rows});
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }

  /// Gathers `tokens` input rows at random, with NaN behind them.
  void MakeBatch(int32_t tokens) {
    tokens_ = tokens;
    Require(cudaDeviceSynchronize());
    std::vector<int32_t> rows(tokens + 1, -1);
    for (int32_t i = 0; i < tokens; ++i) rows[i] = static_cast<int32_t>(rng_.Below(draw_++, kRows));
    Require(CopyToDevice(batch_rows_.get(), rows.data(), rows.size() * sizeof(int32_t)));
    GatherRows<<<static_cast<unsigned>(tokens + 1), 256, 0, stream_.get()>>>(
        inputs_.get(), batch_rows_.get(), GetParam().cols, batch_.get());
    Require(cudaGetLastError());
    Require(cudaMemsetAsync(output_.get(), 0xff, OutputBytes() + kGuardBytes, stream_.get()));
  }

  size_t OutputBytes() const {
    return static_cast<size_t>(tokens_) * GetParam().rows * sizeof(float);
  }

  /// The batch's outputs are the bits of its rows alone, and nothing is written behind them.
  void ExpectAlone(const std::string& what) {
    const Case& c = GetParam();
    Require(cudaMemsetAsync(difference_.get(), 0, sizeof(Difference), stream_.get()));
    CountDifferences<<<512, 256, 0, stream_.get()>>>(
        reinterpret_cast<const uint32_t*>(output_.get()),
        reinterpret_cast<const uint32_t*>(alone_.get()), batch_rows_.get(), tokens_, c.rows,
        difference_.get());
    Require(cudaGetLastError());
    const Difference difference = Download(difference_.get(), 1)[0];
    EXPECT_EQ(difference.count, 0U)
        << what << ", " << tokens_ << " tokens: of " << int64_t{tokens_} * c.rows
        << " outputs; the first seen: token " << difference.first / c.rows << ", row "
        << difference.first % c.rows;
    const std::vector<uint8_t> guard =
        Download(reinterpret_cast<const uint8_t*>(output_.get()) + OutputBytes(), kGuardBytes);
    EXPECT_TRUE(std::all_of(guard.begin(), guard.end(), [](uint8_t byte) { return byte == 0xff; }))
        << what << ", " << tokens_ << " tokens: written past the output";
  }

  std::vector<int32_t> TokenCounts() const {
    std::vector<int32_t> counts = {1,   2,   7,   8,   9,   31,  32,  33,  63,  64,   65,  100,
                                   128, 129, 255, 256, 257, 511, 512, 544, 576, 1000, 2048};
    if (SmallTests()) counts = {1, 9, 33, 272};
    std::erase_if(counts, [&](int32_t count) { return count > most_tokens_; });
    return counts;
  }

  static constexpr uint64_t kWeightSeed = 7;
  static constexpr uint64_t kInputSeed = 8;
  CounterRng rng_{9};
  uint64_t draw_ = 0;
  int32_t most_tokens_ = 0;
  int32_t tokens_ = 0;
  DeviceArray<uint16_t> source_, inputs_, batch_;
  DeviceArray<int32_t> batch_rows_;
  DeviceArray<float> output_, alone_;
  DeviceArray<Difference> difference_;
  CudaStream stream_;
  std::unique_ptr<InvariantLinear> linear_;
  PackedWeight weight_;

  void ExpectRight();
  void ExpectInvariant();
};

/// Some outputs of the rows alone against a sum in fp64; the error may be twice that of the exact
/// sum rounded to the weights' type.
void InvariantLinearTest::ExpectRight() {
  const Case& c = GetParam();
  const std::vector<float> alone = Download(alone_.get(), int64_t{kRows} * c.rows);
  constexpr int32_t kSampledRows = 96;
  const int32_t step = std::max(1, c.rows / kSampledRows);
  double largest = 0;
  double largest_rounding = 0;
  for (int32_t row = 0; row < c.rows;
       row += row + step < c.rows || row == c.rows - 1 ? step : c.rows - 1 - row) {
    std::vector<double> weight(c.cols);
    for (int32_t col = 0; col < c.cols; ++col) {
      weight[col] = Round(c.type, Draw(kWeightSeed, int64_t{row} * c.cols + col));
    }
    for (int32_t token = 0; token < kRows; token += 5) {
      double exact = 0;
      for (int32_t col = 0; col < c.cols; ++col) {
        exact += weight[col] * Round(c.type, Draw(kInputSeed, int64_t{token} * c.cols + col));
      }
      const double error = std::abs(alone[int64_t{token} * c.rows + row] - exact);
      if (!(error <= largest)) {
        largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
      }
      largest_rounding =
          std::max(largest_rounding, std::abs(Round(c.type, static_cast<float>(exact)) - exact));
    }
  }
  EXPECT_LE(largest, 2 * largest_rounding);
  std::cout << "largest error " << largest << ", of rounding alone " << largest_rounding << "\n";
}

void InvariantLinearTest::ExpectInvariant() {
  for (const int32_t tokens : TokenCounts()) {
    ASSERT_NO_FATAL_FAILURE(MakeBatch(tokens));
    const Status status =
        linear_->Run(weight_, {.elements = batch_.get()}, tokens, {.output = output_.get()});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_NO_FATAL_FAILURE(ExpectAlone("the chosen tile"));
  }
}

TEST_P(InvariantLinearTest, RowsAreRightAndDependOnNothingElse) {
  ASSERT_NO_FATAL_FAILURE(Create(LinearKernels::kBest));
  ASSERT_NO_FATAL_FAILURE(ComputeAlone());
  ASSERT_NO_FATAL_FAILURE(ExpectRight());
  ASSERT_NO_FATAL_FAILURE(ExpectInvariant());
}

TEST_P(InvariantLinearTest, PortableRowsAreRightAndDependOnNothingElse) {
  ASSERT_NO_FATAL_FAILURE(Create(LinearKernels::kPortable));
  ASSERT_NO_FATAL_FAILURE(ComputeAlone());
  ASSERT_NO_FATAL_FAILURE(ExpectRight());
  ASSERT_NO_FATAL_FAILURE(ExpectInvariant());
}

TEST_P(InvariantLinearTest, EveryTileGivesTheSameBits) {
  const Case& c = GetParam();
  ASSERT_NO_FATAL_FAILURE(Create(LinearKernels::kBest));
  if (linear_->kernels() != LinearKernels::kBest) GTEST_SKIP() << "no kernels for this device";
  ASSERT_NO_FATAL_FAILURE(ComputeAlone());
  for (const int32_t tokens : TokenCounts()) {
    for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
      const LinearRoom room = (tokens + tile) % 2 == 0 ? LinearRoom::kWhole : LinearRoom::kHalf;
      const auto plan =
          PlanLinearWith(tile, room,
                         {.rows = c.rows,
                          .cols = c.cols,
                          .splits = LinearSplits(c.rows, c.cols),
                          .tokens = tokens,
                          .token_rows_unit = TokenRowsUnit(LinearFinish::kFloat, c.rows, 0)},
                         linear_->device());
      if (!plan) continue;
      ASSERT_NO_FATAL_FAILURE(MakeBatch(tokens));
      const Status status = linear_->RunPlan(*plan, weight_, {.elements = batch_.get()}, tokens,
                                             {.output = output_.get()});
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_NO_FATAL_FAILURE(ExpectAlone("tile " + std::to_string(tile)));
    }
  }
}

TEST_P(InvariantLinearTest, MeasuringChangesNoBits) {
  ASSERT_NO_FATAL_FAILURE(Create(LinearKernels::kBest));
  ASSERT_NO_FATAL_FAILURE(ComputeAlone());
  ASSERT_NO_FATAL_FAILURE(MakeBatch(most_tokens_));
  const std::vector<InvariantLinear::TuneCase> cases = {
      {.weights = {&weight_}, .finish = LinearFinish::kFloat, .max_tokens = most_tokens_}};
  const auto sizes = InvariantLinear::TuneRoom::For(cases);
  const DeviceArray<float> squares =
      AllocateArray<float>(static_cast<int64_t>(sizes.squares / sizeof(float)));
  Require(FillDevice(squares.get(), 0, sizes.squares));
  ASSERT_LE(sizes.output, OutputBytes());
  const Status status = linear_->Tune(
      cases, {.input = batch_.get(), .output = output_.get(), .form = {.squares = squares.get()}});
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_NO_FATAL_FAILURE(ExpectInvariant());
}

TEST_P(InvariantLinearTest, ProductsThatOverlapDoNotDisturbEachOther) {
  ASSERT_NO_FATAL_FAILURE(Create(LinearKernels::kBest));
  ASSERT_NO_FATAL_FAILURE(ComputeAlone());
  ASSERT_NO_FATAL_FAILURE(MakeBatch(std::min(most_tokens_, 200)));
  constexpr int kRepeats = 20;
  for (int i = 0; i < kRepeats; ++i) {
    // Fewer tokens now and then: another tile, and workspace used otherwise.
    const int32_t tokens = i % 3 == 2 ? std::min(most_tokens_, 20) : tokens_;
    const Status status =
        linear_->Run(weight_, {.elements = batch_.get()}, tokens, {.output = output_.get()});
    ASSERT_TRUE(status.ok()) << status.message();
  }
  ASSERT_NO_FATAL_FAILURE(ExpectAlone("after twenty others"));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  if (!SmallTests()) {
    for (const LinearModel& model : kLinearModels) {
      for (const LinearLayer& layer : LinearLayers(model)) {
        const CudaType type = cases.size() % 3 == 2 ? CudaType::kBf16 : CudaType::kF16;
        const bool seen = std::ranges::any_of(
            cases, [&](const Case& c) { return c.rows == layer.rows && c.cols == layer.cols; });
        if (seen) continue;
        cases.push_back({std::string(model.name) + " " + std::string(layer.name), type, layer.rows,
                         layer.cols});
      }
    }
  }
  cases.push_back({"one range, few columns", CudaType::kF16, 7230, 72});
  cases.push_back({"odd rows", CudaType::kBf16, 1001, 584});
  cases.push_back({"many ranges", CudaType::kF16, 960, 2560});
  cases.push_back({"one range", CudaType::kBf16, 9728, 896});
  cases.push_back({"tiles in turn", CudaType::kF16, 24008, 72});
  cases.push_back({"eights of rows", CudaType::kBf16, 1096, 584});
  cases.push_back({"one row", CudaType::kF16, 1, 8});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, InvariantLinearTest, testing::ValuesIn(Cases()));

}  // namespace
}  // namespace decant
