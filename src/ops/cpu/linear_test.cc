#include "ops/cpu/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "ops/cpu/cpu_kernels.h"

namespace decant {
namespace {

struct Case {
  int64_t rows;
  int64_t cols;
  int32_t slice_rows;
};

float Weight(int64_t row, int64_t col) {
  return ToFloat(ToBf16(static_cast<float>(CounterRng(5).Uniform(row * 65536 + col) * 2 - 1)));
}

float Input(int64_t token, int64_t col) {
  return ToFloat(ToBf16(static_cast<float>(CounterRng(9).Uniform(token * 65536 + col) * 2 - 1)));
}

/// `weight` of `rows` rows times the inputs of `tokens` tokens from `first_token` on.
std::vector<float> Product(LinearEngine& engine, const SlicedLinear& weight, int64_t rows,
                           DType dtype, int32_t first_token, int32_t tokens) {
  const int64_t cols = weight.cols();
  HostBuffer input((tokens + LinearEngine::kPadding) * cols * DTypeSize(dtype));
  for (int64_t i = 0; i < int64_t{tokens} * cols; ++i) {
    const float value = Input(first_token + i / cols, i % cols);
    if (dtype == DType::kBf16) {
      input.As<Bf16>()[i] = ToBf16(value);
    } else {
      input.As<float>()[i] = value;
    }
  }
  // Rows past the last are padding: whatever stands there must not matter.
  std::memset(input.data() + tokens * cols * DTypeSize(dtype), 0x7f, 64 * cols * DTypeSize(dtype));
  std::vector<float> out(tokens * rows, std::nanf(""));
  engine.Run(
      weight, {.data = input.data(), .dtype = dtype, .rows = tokens, .cols = cols}, tokens,
      [&](const SlicedLinear::Slice& slice, int32_t first, int32_t count, const float* y, int) {
        for (int32_t i = 0; i < count; ++i) {
          std::copy_n(y + int64_t{i} * slice.rows, slice.rows,
                      out.begin() + (first + i) * rows + slice.first_row);
        }
      });
  return out;
}

std::vector<float> Multiply(const Case& c, DType dtype, int threads, int32_t first_token,
                            int32_t tokens) {
  ThreadPool pool(threads);
  LinearEngine engine(dtype, LinearLayers::kLibrary, WeightCopies::kBf16,
                      KernelsFor(DetectCpuLevel()), pool);
  const RowSource source{
      .rows = c.rows, .cols = c.cols, .read = [&](int64_t first, int64_t count, float* out) {
        for (int64_t i = 0; i < count * c.cols; ++i) {
          out[i] = Weight(first + i / c.cols, i % c.cols);
        }
      }};
  const auto weight = engine.Pack(source, c.slice_rows);
  return Product(engine, *weight, c.rows, dtype, first_token, tokens);
}

std::vector<DType> TypesHere() {
  if (DetectCpuLevel() >= CpuLevel::kAvx512Bf16) return {DType::kF32, DType::kBf16};
  return {DType::kF32};
}

constexpr Case kCases[] = {{960, 576, 128}, {576, 1536, 96}, {80, 96, 64}};

TEST(LinearTest, ErrsNoMoreThanAPlainLoopTwice) {
  constexpr int32_t kTokens = 5;
  for (const Case& c : kCases) {
    for (DType dtype : TypesHere()) {
      const std::vector<float> y = Multiply(c, dtype, 2, 0, kTokens);
      double worst = 0;
      double plain_worst = 0;
      for (int64_t token = 0; token < kTokens; ++token) {
        for (int64_t row = 0; row < c.rows; ++row) {
          double exact = 0;
          float plain = 0;
          for (int64_t col = 0; col < c.cols; ++col) {
            // Inputs and weights are bf16 numbers, so products are exact in fp32 and the sums'
            // order is all that differs.
            exact += double{Input(token, col)} * Weight(row, col);
            plain += Input(token, col) * Weight(row, col);
          }
          const double error = std::abs(y[token * c.rows + row] - exact);
          if (!(error <= worst)) worst = error;
          plain_worst = std::max(plain_worst, std::abs(plain - exact));
        }
      }
      EXPECT_TRUE(worst <= 2 * plain_worst) << worst << " against " << plain_worst;
    }
  }
}

TEST(LinearTest, BitsOfARowDependOnTheRowOnly) {
  for (const Case& c : kCases) {
    for (DType dtype : TypesHere()) {
      const std::vector<float> all = Multiply(c, dtype, 1, 0, 600);
      for (int32_t tokens : {1, 2, 3, 7, 8, 9, 16, 31, 32, 33, 64, 100, 257, 513}) {
        for (int threads : {1, 2}) {
          const int32_t first = 600 - tokens;
          const std::vector<float> some = Multiply(c, dtype, threads, first, tokens);
          EXPECT_EQ(
              std::memcmp(some.data(), all.data() + first * c.rows, some.size() * sizeof(float)), 0)
              << tokens << " tokens, " << threads << " threads, " << c.rows << " x " << c.cols;
        }
      }
    }
  }
}

/// A source with block codes, and the fp32 weights that they stand for.
RowSource CodedSource(int64_t rows, int64_t cols, int bits) {
  const auto code = [bits](int64_t row, int64_t col) {
    const auto value = static_cast<int32_t>(CounterRng(21).Below(row * 65536 + col, 256)) - 128;
    return static_cast<int8_t>(bits == 4 ? value & 15 : std::max(value, -127));
  };
  // fp16 bits: scales from 2^-8 up in steps that use the whole mantissa, offsets of either sign.
  const auto scale = [](int64_t row, int64_t block) {
    return static_cast<uint16_t>(0x1c00 + (row * 37 + block * 11) % 1500);
  };
  const auto offset = [bits](int64_t row, int64_t block) {
    if (bits == 8) return uint16_t{0};
    return static_cast<uint16_t>(0xa800 + (row * 13 + block * 29) % 1500);
  };
  const auto half = [](uint16_t value) {
    const float magnitude =
        std::ldexp(1.0F + static_cast<float>(value & 0x3ff) / 1024.0F, ((value >> 10) & 31) - 15);
    return (value & 0x7fff) == 0 ? 0.0F : (value >> 15) != 0 ? -magnitude : magnitude;
  };
  RowSource source{.rows = rows,
                   .cols = cols,
                   .read =
                       [=](int64_t first, int64_t count, float* out) {
                         for (int64_t i = 0; i < count * cols; ++i) {
                           const int64_t row = first + i / cols;
                           const int64_t col = i % cols;
                           out[i] =
                               half(scale(row, col / 32)) * static_cast<float>(code(row, col)) +
                               half(offset(row, col / 32));
                         }
                       },
                   .code_bits = bits,
                   .read_codes = nullptr};
  source.read_codes = [=](int64_t first, int64_t count, int8_t* codes, uint16_t* scales,
                          uint16_t* offsets) {
    for (int64_t i = 0; i < count * cols; ++i) codes[i] = code(first + i / cols, i % cols);
    for (int64_t i = 0; i < count * (cols / 32); ++i) {
      scales[i] = scale(first + i / (cols / 32), i % (cols / 32));
      offsets[i] = offset(first + i / (cols / 32), i % (cols / 32));
    }
  };
  return source;
}

TEST(LinearTest, QuantisedCopyIsReadByFewTokensAndGivesTheSameBits) {
  const CpuKernels& kernels = KernelsFor(DetectCpuLevel());
  if (kernels.compact_tokens == 0) GTEST_SKIP() << "this processor has no bf16 products";
  for (const auto& [bits, cols] : {std::pair{4, 576}, {4, 1536}, {8, 576}, {8, 2048}}) {
    ThreadPool pool(2);
    LinearEngine engine(DType::kBf16, LinearLayers::kLibrary, WeightCopies::kKeep, kernels, pool);
    LinearEngine plain(DType::kBf16, LinearLayers::kLibrary, WeightCopies::kBf16, kernels, pool);
    const RowSource source = CodedSource(240, cols, bits);
    const auto with_copy = engine.Pack(source, 96);
    const auto without = plain.Pack(source, 96);
    // Dropping the copy would be safe, and slow: this processor is known to agree.
    EXPECT_LT(with_copy->compact_bytes(), with_copy->bytes()) << bits << " bits, " << cols;
    EXPECT_EQ(without->compact_bytes(), without->bytes());
    for (int32_t tokens = 1; tokens <= kernels.compact_tokens; ++tokens) {
      const std::vector<float> compact =
          Product(engine, *with_copy, source.rows, DType::kBf16, 0, tokens);
      const std::vector<float> bf16 =
          Product(plain, *without, source.rows, DType::kBf16, 0, tokens);
      ASSERT_EQ(std::memcmp(compact.data(), bf16.data(), bf16.size() * sizeof(float)), 0)
          << tokens << " tokens, " << bits << " bits, " << cols << " columns";
    }
  }
}

/// What int8 layers may err by, from theory: an input is off by up to half a step of its block,
/// each value in between as likely.
TEST(LinearTest, Int8ErrsByTheRoundingOfItsInputsAndKeepsBits) {
  constexpr int32_t kTokens = 41;
  const CpuKernels& kernels = KernelsFor(DetectCpuLevel());
  for (const auto& [bits, cols] : {std::pair{4, 576}, {8, 1536}}) {
    for (const DType dtype : TypesHere()) {
      ThreadPool pool(2);
      LinearEngine engine(dtype, LinearLayers::kInt8, WeightCopies::kKeep, kernels, pool);
      const RowSource source = CodedSource(240, cols, bits);
      const auto weight = engine.Pack(source, 96);
      ASSERT_TRUE(weight->int8());
      EXPECT_EQ(weight->bytes(), weight->compact_bytes());
      std::vector<float> plain(source.rows * cols);
      source.read(0, source.rows, plain.data());
      const std::vector<float> all = Product(engine, *weight, source.rows, dtype, 0, kTokens);
      double square_errors = 0;
      double expected = 0;
      for (int32_t token = 0; token < kTokens; ++token) {
        std::vector<double> steps(cols / kInt8Block);
        for (int64_t col = 0; col < cols; ++col) {
          double& step = steps[col / kInt8Block];
          step = std::max(step, std::abs(double{Input(token, col)}) / 127);
        }
        for (int64_t row = 0; row < source.rows; ++row) {
          double exact = 0;
          for (int64_t col = 0; col < cols; ++col) {
            const double factor = plain[row * cols + col];
            const double step = steps[col / kInt8Block];
            exact += factor * Input(token, col);
            expected += factor * factor * step * step / 12;
          }
          const double error = all[token * source.rows + row] - exact;
          square_errors += error * error;
        }
      }
      EXPECT_TRUE(square_errors > 0.8 * expected && square_errors < 1.2 * expected)
          << square_errors << ", " << expected << " expected";
      for (const int32_t tokens : {1, 2, 3, 15, 16, 17, 33}) {
        const int32_t first = kTokens - tokens;
        const std::vector<float> some = Product(engine, *weight, source.rows, dtype, first, tokens);
        EXPECT_EQ(std::memcmp(some.data(), &all[first * source.rows], some.size() * sizeof(float)),
                  0)
            << tokens << " tokens";
      }
    }
  }
}

TEST(LinearTest, Int8LeavesWeightsWithoutBlocksToTheLibrary) {
  ThreadPool pool(1);
  LinearEngine engine(DType::kF32, LinearLayers::kInt8, WeightCopies::kKeep,
                      KernelsFor(DetectCpuLevel()), pool);
  RowSource source = CodedSource(96, 64, 4);
  source.code_bits = 0;
  source.read_codes = nullptr;
  EXPECT_FALSE(engine.Pack(source, 96)->int8());
}

}  // namespace
}  // namespace decant
