// What gates do to a backend from outside: pages and views in and out, decode kernels exchanged.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/oracle_ops.h"

namespace decant {
namespace {

constexpr int32_t kPages = 5;
constexpr int32_t kContext = 600;

DecoderShape Shape() {
  DecoderShape shape;
  shape.layers = 2;
  shape.hidden = 64;
  shape.heads = 6;
  shape.kv_heads = 2;
  shape.head_dim = 32;
  shape.intermediate = 64;
  shape.vocab = 64;
  shape.max_positions = 1024;
  shape.rope_frequencies.assign(16, 1.0F);
  return shape;
}

CpuOpsOptions CpuOptions(DecodeKernel kernel) {
  return {
      .shape = Shape(), .decode_kernel = kernel, .threads = 2, .max_tokens = 8, .max_samples = 1};
}

std::vector<float> Random(size_t count, uint64_t key) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    // Exact in bf16.
    values[i] = static_cast<float>(CounterRng(key).Below(i, 255)) / 64.0F - 2.0F;
  }
  return values;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

void ExpectPagesComeBack(Ops& ops, int32_t page_size) {
  ASSERT_TRUE(ops.AllocateCache(kPages, page_size).ok());
  const size_t size = static_cast<size_t>(page_size) * Shape().kv_heads * Shape().head_dim;
  for (int32_t layer = 0; layer < Shape().layers; ++layer) {
    for (int32_t page = 0; page < kPages; ++page) {
      const uint64_t key = layer * 100 + page * 2;
      ops.WritePage(layer, page, Random(size, key), Random(size, key + 1));
    }
  }
  ops.PoisonPage(3);
  std::vector<float> keys(size);
  std::vector<float> values(size);
  for (int32_t layer = 0; layer < Shape().layers; ++layer) {
    for (int32_t page = 0; page < kPages; ++page) {
      ops.ReadPage(layer, page, keys, values);
      if (page == 3) {
        for (float value : keys) ASSERT_TRUE(std::isnan(value));
        for (float value : values) ASSERT_TRUE(std::isnan(value));
        continue;
      }
      const uint64_t key = layer * 100 + page * 2;
      EXPECT_TRUE(SameBits(keys, Random(size, key))) << layer << ", " << page;
      EXPECT_TRUE(SameBits(values, Random(size, key + 1))) << layer << ", " << page;
    }
  }
  keys[7] = std::numeric_limits<float>::quiet_NaN();
  ops.WritePage(1, 0, keys, values);
  ops.ReadPage(1, 0, keys, values);
  EXPECT_TRUE(std::isnan(keys[7]));
  EXPECT_FALSE(std::isnan(keys[6]));
}

TEST(PageAccessTest, PagesComeBackAsTheyWereWritten) {
  for (int32_t page_size : {1, 16, 24, 64}) {
    CpuOps cpu(CpuOptions(DecodeKernel::kSplit));
    ExpectPagesComeBack(cpu, page_size);
    OracleOps oracle(Shape(), 8);
    ExpectPagesComeBack(oracle, page_size);
  }
}

/// One decode token over a history of random pages; a step can change its kernel.
class DecodeStep {
 public:
  DecodeStep(Ops& ops, int32_t page_size) : ops_(ops) {
    EXPECT_TRUE(ops.AllocateCache(kContext / page_size + 1, page_size).ok());
    const size_t size = static_cast<size_t>(page_size) * Shape().kv_heads * Shape().head_dim;
    for (int32_t page = 0; page * page_size < kContext; ++page) {
      ops.WritePage(0, page, Random(size, page * 2), Random(size, page * 2 + 1));
      pages_.push_back(page);
    }
    row_ = {.query_start = 0, .query_len = 1, .context_len = kContext, .pages = pages_};
    ops.BeginStep(batch_);
    ops.Upload(Random(ops.queries().cols, 99), ops.queries());
  }

  std::vector<float> Attend() {
    ops_.Attention(0, ops_.queries(), ops_.attended());
    std::vector<float> out(ops_.attended().cols);
    ops_.Download(ops_.attended(), out);
    return out;
  }

 private:
  Ops& ops_;
  std::vector<int32_t> pages_;
  int32_t token_ = 0;
  int32_t position_ = kContext - 1;
  int32_t token_row_ = 0;
  BatchRow row_;
  StepBatch batch_{.token_ids = {&token_, 1},
                   .positions = {&position_, 1},
                   .token_rows = {&token_row_, 1},
                   .rows = {&row_, 1}};
};

TEST(PageAccessTest, AStepCanChangeItsDecodeKernel) {
  CpuOps rows(CpuOptions(DecodeKernel::kRows));
  CpuOps split(CpuOptions(DecodeKernel::kSplit));
  DecodeStep rows_step(rows, 64);
  DecodeStep split_step(split, 64);
  const std::vector<float> by_rows = rows_step.Attend();
  const std::vector<float> by_split = split_step.Attend();
  OracleOps oracle(Shape(), 8);
  const std::vector<float> exact = DecodeStep(oracle, 64).Attend();
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(by_rows[i], exact[i], 0.01F);
    EXPECT_NEAR(by_split[i], exact[i], 0.01F);
  }

  ASSERT_TRUE(rows.UseDecodeKernel(DecodeKernel::kSplit).ok());
  EXPECT_EQ(rows.decode_kernel(), DecodeKernel::kSplit);
  EXPECT_TRUE(SameBits(rows_step.Attend(), by_split));
  ASSERT_TRUE(rows.UseDecodeKernel(DecodeKernel::kRows).ok());
  EXPECT_TRUE(SameBits(rows_step.Attend(), by_rows));
}

}  // namespace
}  // namespace decant
