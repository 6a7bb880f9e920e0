#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ops/cuda/cache_layout.h"
#include "ops/cuda/device.h"
#include "ops/cuda/invariant_linear.h"
#include "ops/cuda/linear_shapes.h"
#include "ops/cuda/residual_form.h"
#include "ops/cuda/testing/device_array.h"
#include "ops/cuda/testing/small_tests.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

/// Products with a finish in device memory, for the tests of the invariant linear layers' finishes.
namespace decant::invariant_finish {

/// Different tokens; a batch repeats them in any order.
inline constexpr int32_t kSources = 16;
inline constexpr int32_t kMostTokens = 544;
inline constexpr int32_t kPositions = 192;
inline constexpr int32_t kNoPage = 2147480000;
inline constexpr float kEpsilon = 1e-5F;
inline constexpr size_t kGuardBytes = 4096;

struct Case {
  LinearModel model;
  LinearFinish finish = LinearFinish::kFloat;
  CudaType type = CudaType::kF16;
  CacheLayout layout = CacheLayout::kTiled;
  bool bias = false;

  AttentionShape shape() const { return {model.heads, model.kv_heads, model.head_dim}; }
  int32_t rows() const {
    switch (finish) {
      case LinearFinish::kQkv:
        return (model.heads + 2 * model.kv_heads) * model.head_dim;
      case LinearFinish::kSiluMul:
        return 2 * model.intermediate;
      case LinearFinish::kArgmax:
        return model.vocab;
      default:
        return model.hidden;
    }
  }
  /// Of down's product, where the residual is written: it has the most ranges.
  int32_t cols() const { return normed() ? model.hidden : model.intermediate; }
  bool normed() const { return finish != LinearFinish::kResidual; }
  int32_t pair_distance() const {
    if (finish == LinearFinish::kQkv) return model.head_dim / 2;
    return finish == LinearFinish::kSiluMul ? model.intermediate : 0;
  }
  /// Few slots where there are many heads, so that the cache stays small.
  int32_t page_size() const { return model.kv_heads > 8 ? 16 : 64; }
  int32_t table_stride() const { return kPositions / page_size() + 1; }
};

inline void PrintTo(const Case& c, std::ostream* out) {
  constexpr const char* kNames[] = {"float", "qkv", "residual", "silu", "argmax"};
  *out << c.model.name << " " << kNames[static_cast<int>(c.finish)]
       << (c.type == CudaType::kF16 ? " fp16" : " bf16")
       << (c.layout == CacheLayout::kTiled ? " tiled" : " plain") << (c.bias ? " bias" : "");
}

/// Element `index` of the numbers that `seed` names, in [-1, 1).
inline float Draw(uint64_t seed, int64_t index) {
  return static_cast<float>(CounterRng(seed).Uniform(static_cast<uint64_t>(index))) * 2 - 1;
}
inline uint16_t Encode(CudaType type, float value) {
  return type == CudaType::kF16 ? ToF16(value).bits : ToBf16(value).bits;
}
inline float Decode(CudaType type, uint16_t bits) {
  return type == CudaType::kF16 ? ToFloat(F16{bits}) : ToFloat(Bf16{bits});
}

template <typename T>
DeviceArray<T> Allocate(int64_t count) {
  return AllocateArray<T>(count, kGuardBytes);
}
template <typename T>
void Send(const std::vector<T>& values, T* memory) {
  Require(CopyToDevice(memory, values.data(), values.size() * sizeof(T)));
}

/// Everything that a finish writes of one token: fp32 values, then elements.
struct Output {
  std::vector<float> floats;
  std::vector<uint16_t> elements;

  bool SameBits(const Output& other) const {
    return floats.size() == other.floats.size() && elements == other.elements &&
           std::memcmp(floats.data(), other.floats.data(), floats.size() * sizeof(float)) == 0;
  }
};

/// The memory of a case, its batches, and what comes of them.
class FinishFixture : public testing::TestWithParam<Case> {
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
    MakeWeight();
    MakeTokens();
    rounded_ = Allocate<uint16_t>(int64_t{kMostTokens} * c.cols());
    squares_ = Allocate<float>(int64_t{kMostTokens} * SquareParts(c.cols()));
    residual_ = Allocate<float>(int64_t{kMostTokens} * c.cols());
    output_ = Allocate<float>(int64_t{kMostTokens} * c.rows());
    out_rounded_ = Allocate<uint16_t>(int64_t{kMostTokens} * c.rows());
    out_squares_ = Allocate<float>(int64_t{kMostTokens} * SquareParts(c.rows()));
    positions_ = Allocate<int32_t>(kMostTokens);
    token_rows_ = Allocate<int32_t>(kMostTokens);
    tables_memory_ = Allocate<int32_t>(int64_t{kMostTokens + 1} * c.table_stride());
    // Before the first table: where a token of no row would find its pages.
    Send(std::vector<int32_t>(c.table_stride(), kNoPage), tables_memory_.get());
    tables_ = tables_memory_.get() + c.table_stride();
    cache_ = Allocate<uint16_t>(kMostTokens * PageElements());
  }

  void TearDown() override {
    if (!IsSkipped()) EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }

  int64_t PageElements() const {
    const Case& c = GetParam();
    return int64_t{2} * c.model.kv_heads * c.page_size() * c.model.head_dim;
  }

  void MakeWeight() {
    const Case& c = GetParam();
    weight_elements_.resize(static_cast<size_t>(c.rows()) * c.cols());
    const float limit = 2 / std::sqrt(static_cast<float>(c.cols()));
    // A few thousand numbers over and over, in another order for each row: enough to tell rows
    // apart, and quickly made.
    constexpr int64_t kNumbers = 8191;
    std::vector<uint16_t> numbers(kNumbers);
    for (int64_t i = 0; i < kNumbers; ++i) numbers[i] = Encode(c.type, Draw(1, i) * limit);
    for (size_t i = 0; i < weight_elements_.size(); ++i) {
      weight_elements_[i] = numbers[(i + i / c.cols() * 17) % kNumbers];
    }
    weight_source_ = Allocate<uint16_t>(static_cast<int64_t>(weight_elements_.size()));
    Send(weight_elements_, weight_source_.get());
  }

  void MakeTokens() {
    const Case& c = GetParam();
    input_.resize(static_cast<size_t>(kSources) * c.cols());
    for (size_t i = 0; i < input_.size(); ++i) {
      // Tokens of different size, one of them too large for fp16 before it is scaled.
      const auto source = static_cast<int64_t>(i) / c.cols();
      const float size = source == 3 && c.normed() ? 100000.0F : std::exp2(source % 5 - 2.0F);
      input_[i] = Draw(2, static_cast<int64_t>(i)) * size;
    }
    old_.resize(static_cast<size_t>(kSources) * c.rows());
    for (size_t i = 0; i < old_.size(); ++i) old_[i] = Draw(3, static_cast<int64_t>(i)) * 4;
    bias_.resize(c.rows());
    for (size_t i = 0; i < bias_.size(); ++i) bias_[i] = Draw(4, static_cast<int64_t>(i));
    rotations_.resize(static_cast<size_t>(kPositions) * c.model.head_dim);
    for (size_t i = 0; i < rotations_.size(); i += 2) {
      const float angle = Draw(5, static_cast<int64_t>(i)) * 3;
      rotations_[i] = std::cos(angle);
      rotations_[i + 1] = std::sin(angle);
    }
    bias_memory_ = Allocate<float>(static_cast<int64_t>(bias_.size()));
    rotations_memory_ = Allocate<float>(static_cast<int64_t>(rotations_.size()));
    Send(bias_, bias_memory_.get());
    Send(rotations_, rotations_memory_.get());
  }

  int32_t PositionOf(int32_t source) const { return source * 11 % kPositions; }

  void Create(LinearKernels kernels) {
    const Case& c = GetParam();
    auto linear = InvariantLinear::Create(c.type, 0, stream_, kernels);
    ASSERT_TRUE(linear.ok()) << linear.status().message();
    linear_ = std::move(linear).value();
    auto weight = linear_->Pack(weight_source_.get(), c.rows(), c.cols(), c.pair_distance());
    ASSERT_TRUE(weight.ok()) << weight.status().message();
    weight_ = std::move(weight).value();
  }

  LinearInput Input() const {
    LinearInput input{.elements = rounded_.get(), .epsilon = kEpsilon};
    if (GetParam().normed()) input.squares = squares_.get();
    return input;
  }

  ProductResult Result() const {
    const Case& c = GetParam();
    const int64_t block = int64_t{c.page_size()} * c.model.head_dim;
    const bool tiled = c.layout == CacheLayout::kTiled;
    const CachePages cache{.k = cache_.get(),
                           .v = cache_.get() + (tiled ? block : block * c.model.kv_heads),
                           .page_stride = PageElements(),
                           .head_stride = tiled ? 2 * block : block,
                           .page_size = c.page_size(),
                           .layout = c.layout};
    return {.finish = c.finish,
            .output = output_.get(),
            .form = {.rounded = out_rounded_.get(), .squares = out_squares_.get()},
            .qkv = {.bias = c.bias ? bias_memory_.get() : nullptr,
                    .rotations = rotations_memory_.get(),
                    .shape = c.shape(),
                    .cache = cache,
                    .positions = positions_.get(),
                    .token_rows = token_rows_.get(),
                    .block_tables = tables_,
                    .table_stride = c.table_stride()}};
  }

  /// Makes the batch of these source tokens, the last `padding` of them without a row and at
  /// position 0, poisons what is written, and NaN follows what is read.
  void MakeBatch(const std::vector<int32_t>& sources, int32_t padding = 0) {
    const Case& c = GetParam();
    const auto tokens = static_cast<int32_t>(sources.size());
    std::vector<float> input(static_cast<size_t>(tokens) * c.cols());
    std::vector<float> old(static_cast<size_t>(tokens) * c.rows());
    std::vector<int32_t> positions(tokens);
    std::vector<int32_t> token_rows(tokens);
    std::vector<int32_t> tables(static_cast<size_t>(tokens) * c.table_stride(), kNoPage);
    for (int32_t i = 0; i < tokens; ++i) {
      std::copy_n(input_.begin() + int64_t{sources[i]} * c.cols(), c.cols(),
                  input.begin() + int64_t{i} * c.cols());
      std::copy_n(old_.begin() + int64_t{sources[i]} * c.rows(), c.rows(),
                  old.begin() + int64_t{i} * c.rows());
      token_rows[i] = kNoRow;
      if (i >= tokens - padding) continue;
      positions[i] = PositionOf(sources[i]);
      token_rows[i] = tokens - 1 - i;
      // Each token has a row and a page of its own.
      tables[int64_t{token_rows[i]} * c.table_stride() + positions[i] / c.page_size()] = i;
    }
    for (const auto& [memory, bytes] : Written(tokens)) {
      Require(cudaMemsetAsync(memory, 0xff, bytes, stream_.get()));
    }
    Require(
        cudaMemsetAsync(rounded_.get(), 0xff, size_t{2} * kMostTokens * c.cols(), stream_.get()));
    Require(cudaDeviceSynchronize());
    Send(input, residual_.get());
    Send(positions, positions_.get());
    Send(token_rows, token_rows_.get());
    Send(tables, tables_);
    if (c.finish == LinearFinish::kResidual) Send(old, output_.get());
    LaunchResidualForm(c.type, residual_.get(), tokens, c.cols(),
                       {.rounded = rounded_.get(), .squares = squares_.get()}, stream_.get());
    Require(cudaGetLastError());
  }

  /// All memory that a finish of so many tokens may write, and what lies behind it.
  std::vector<std::pair<void*, size_t>> Written(int32_t count) const {
    const Case& c = GetParam();
    const auto tokens = static_cast<size_t>(count);
    const size_t outputs = tokens * c.rows();
    return {{output_.get(), outputs * sizeof(float) + kGuardBytes},
            {out_rounded_.get(), outputs * sizeof(uint16_t) + kGuardBytes},
            {out_squares_.get(), tokens * SquareParts(c.rows()) * sizeof(float) + kGuardBytes},
            {cache_.get(), tokens * PageElements() * sizeof(uint16_t) + kGuardBytes}};
  }

  /// Words of two bytes that are not poison in all of it.
  int64_t CountWritten(int32_t tokens) const {
    int64_t count = 0;
    for (const auto& [memory, bytes] : Written(tokens)) {
      const auto words =
          Download(static_cast<const uint16_t*>(memory), static_cast<int64_t>(bytes) / 2);
      count += std::ranges::count_if(words, [](uint16_t word) { return word != 0xffff; });
    }
    return count;
  }

  /// What was written of each token.
  std::vector<Output> Collect(int32_t tokens) const {
    const Case& c = GetParam();
    std::vector<Output> outputs(tokens);
    const auto split = [&](const auto* memory, int32_t width, auto Output::*part) {
      const auto all = Download(memory, int64_t{tokens} * width);
      for (int32_t i = 0; i < tokens; ++i) {
        auto& to = outputs[i].*part;
        to.insert(to.end(), all.begin() + int64_t{i} * width, all.begin() + int64_t{i + 1} * width);
      }
    };
    const auto* elements = reinterpret_cast<const uint16_t*>(output_.get());
    switch (c.finish) {
      case LinearFinish::kFloat:
        split(output_.get(), c.rows(), &Output::floats);
        break;
      case LinearFinish::kResidual:
        split(output_.get(), c.rows(), &Output::floats);
        split(out_squares_.get(), SquareParts(c.rows()), &Output::floats);
        split(out_rounded_.get(), c.rows(), &Output::elements);
        break;
      case LinearFinish::kSiluMul:
        split(elements, c.rows() / 2, &Output::elements);
        break;
      case LinearFinish::kQkv:
        split(elements, c.model.heads * c.model.head_dim, &Output::elements);
        CollectCache(outputs);
        break;
      case LinearFinish::kArgmax:
        split(elements, ArgmaxParts(c.rows()) * 4, &Output::elements);
    }
    return outputs;
  }

  /// K, then V of each token's slot.
  void CollectCache(std::vector<Output>& outputs) const {
    const Case& c = GetParam();
    const CachePages cache = Result().qkv.cache;
    const auto pages =
        Download(cache_.get(), static_cast<int64_t>(outputs.size()) * PageElements());
    const auto positions = Download(positions_.get(), static_cast<int64_t>(outputs.size()));
    const int64_t v = static_cast<uint16_t*>(cache.v) - static_cast<uint16_t*>(cache.k);
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (const int64_t part : {int64_t{0}, v}) {
        for (int32_t head = 0; head < c.model.kv_heads; ++head) {
          for (int32_t dim = 0; dim < c.model.head_dim; ++dim) {
            outputs[i].elements.push_back(
                pages[static_cast<int64_t>(i) * cache.page_stride + part +
                      head * cache.head_stride +
                      BlockElement(c.layout, c.page_size(), c.model.head_dim,
                                   positions[i] % c.page_size(), dim)]);
          }
        }
      }
    }
  }

  /// Each source token by itself.
  void ComputeAlone() {
    alone_.clear();
    for (int32_t source = 0; source < kSources; ++source) {
      ASSERT_NO_FATAL_FAILURE(MakeBatch({source}));
      const Status status = linear_->Run(weight_, Input(), 1, Result());
      ASSERT_TRUE(status.ok()) << status.message();
      alone_.push_back(Collect(1)[0]);
    }
  }

  std::vector<int32_t> DrawSources(int32_t tokens) {
    std::vector<int32_t> sources(tokens);
    for (int32_t& source : sources) source = static_cast<int32_t>(rng_.Below(draw_++, kSources));
    return sources;
  }

  void ExpectAlone(const std::vector<int32_t>& sources, const std::string& what) {
    const std::vector<Output> outputs = Collect(static_cast<int32_t>(sources.size()));
    int64_t written = 0;
    for (size_t i = 0; i < sources.size(); ++i) {
      const Output& alone = alone_[sources[i]];
      ASSERT_TRUE(outputs[i].SameBits(alone))
          << what << ", token " << i << " of " << sources.size();
      written += static_cast<int64_t>(alone.floats.size() * 2 + alone.elements.size());
    }
    // Finite numbers hold no word of poison but as the low half of an fp32 number.
    EXPECT_LE(CountWritten(static_cast<int32_t>(sources.size())), written)
        << what << ": written outside";
  }

  CounterRng rng_{9};
  uint64_t draw_ = 0;
  std::vector<uint16_t> weight_elements_;
  std::vector<float> input_, old_, bias_, rotations_;
  DeviceArray<uint16_t> weight_source_, rounded_, out_rounded_, cache_;
  DeviceArray<float> squares_, residual_, output_, out_squares_, bias_memory_, rotations_memory_;
  DeviceArray<int32_t> positions_, token_rows_, tables_memory_;
  int32_t* tables_ = nullptr;  ///< [tokens, table_stride]
  std::vector<Output> alone_;
  CudaStream stream_;
  std::unique_ptr<InvariantLinear> linear_;
  PackedWeight weight_;
};

}  // namespace decant::invariant_finish
