// FlashAttention's decode kernel against plain loops. The reference in fp64 says what is right; the
// same computation with scores, weights and result rounded to the kernel's type says how much error
// that type costs; the kernel may have twice as much.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "ops/cuda/device.h"
#include "ops/cuda/flash_attention.h"
#include "ops/cuda/testing/device_array.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

namespace decant {
namespace {

constexpr int32_t kPoisonPage = 2147480000;
constexpr uint16_t kPoisonElement = 0x7fff;  // NaN in fp16 and in bf16
constexpr size_t kGuardBytes = 4096;

enum class PageLayout { kHeadsOutside, kSlotsOutside };  // [kv_heads, slots, dim], [slots, ...]

struct Case {
  CudaType type = CudaType::kF16;
  int32_t head_dim = 128;
  int32_t kv_heads = 2;
  int32_t group = 1;
  int32_t page_size = 256;
  PageLayout layout = PageLayout::kHeadsOutside;
  std::vector<int32_t> context_lens = {1,   2,   63,  64,  65,  0,    127,  128,
                                       129, 255, 256, 257, 511, 1025, 4097, 6000};
  int32_t queries = 1;  ///< Of each row, its newest positions.

  int32_t rows() const { return static_cast<int32_t>(context_lens.size()); }
  int32_t heads() const { return kv_heads * group; }
  int32_t tokens() const { return rows() * queries; }
  int32_t width() const { return heads() * head_dim; }
  /// Positions that a token sees.
  int32_t sees(int32_t token) const {
    return context_lens[token / queries] - queries + token % queries + 1;
  }
  int32_t pages_of(int32_t row) const { return (context_lens[row] + page_size - 1) / page_size; }
  int64_t slot_stride() const {
    return layout == PageLayout::kHeadsOutside ? head_dim : int64_t{kv_heads} * head_dim;
  }
  int64_t head_stride() const {
    return layout == PageLayout::kHeadsOutside ? int64_t{page_size} * head_dim : head_dim;
  }
  int64_t page_stride() const { return int64_t{page_size} * kv_heads * head_dim; }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << (c.type == CudaType::kF16 ? "fp16" : "bf16") << " head_dim " << c.head_dim << " group "
       << c.group << " page " << c.page_size << " queries " << c.queries;
}

float Decode(CudaType type, uint16_t bits) {
  return type == CudaType::kF16 ? ToFloat(F16{bits}) : ToFloat(Bf16{bits});
}
uint16_t Encode(CudaType type, float value) {
  return type == CudaType::kF16 ? ToF16(value).bits : ToBf16(value).bits;
}
float Round(CudaType type, float value) { return Decode(type, Encode(type, value)); }

/// Queries, and a cache whose pages lie in shuffled order; what no row may read is NaN.
struct Problem {
  explicit Problem(const Case& test_case) : c(test_case) {
    table_pages = 1;
    int32_t used = 0;
    for (int32_t row = 0; row < c.rows(); ++row) {
      table_pages = std::max(table_pages, c.pages_of(row));
      used += c.pages_of(row);
    }
    table_pages += 1;  // an entry that no row uses
    pages = used + 3;  // pages that no row uses

    std::vector<int32_t> order(pages);
    std::iota(order.begin(), order.end(), 0);
    for (int32_t i = pages - 1; i > 0; --i) std::swap(order[i], order[rng.Below(draw++, i + 1)]);

    block_tables.assign(static_cast<size_t>(c.rows()) * table_pages, kPoisonPage);
    k.assign(pages * c.page_stride(), kPoisonElement);
    v = k;
    queries.resize(static_cast<size_t>(c.tokens()) * c.width());
    for (uint16_t& query : queries) query = Element(2.0F);
    int32_t next = 0;
    for (int32_t row = 0; row < c.rows(); ++row) {
      for (int32_t page = 0; page < c.pages_of(row); ++page) {
        block_tables[row * table_pages + page] = order[next++];
      }
      for (int32_t position = 0; position < c.context_lens[row]; ++position) {
        for (int32_t head = 0; head < c.kv_heads; ++head) {
          const int64_t at = At(row, position, head);
          for (int32_t dim = 0; dim < c.head_dim; ++dim) {
            k[at + dim] = Element(1.0F);
            v[at + dim] = Element(1.0F);
          }
        }
      }
    }
  }

  uint16_t Element(float range) {
    return Encode(c.type, (static_cast<float>(rng.Uniform(draw++)) * 2 - 1) * range);
  }

  int64_t At(int32_t row, int32_t position, int32_t head) const {
    const int64_t page = block_tables[row * table_pages + position / c.page_size];
    return page * c.page_stride() + position % c.page_size * c.slot_stride() +
           head * c.head_stride();
  }

  float scale() const { return 1.0F / std::sqrt(static_cast<float>(c.head_dim)); }

  const Case& c;
  CounterRng rng{20};
  uint64_t draw = 0;
  int32_t table_pages = 0;
  int32_t pages = 0;
  std::vector<int32_t> block_tables;
  std::vector<uint16_t> queries, k, v;
};

struct References {
  std::vector<double> exact;
  std::vector<float> rounded;  ///< Scores, weights and result rounded to the kernel's type.
};

References Attend(const Problem& p) {
  const Case& c = p.c;
  References result;
  result.exact.assign(static_cast<size_t>(c.tokens()) * c.width(), 0);
  result.rounded.assign(result.exact.size(), 0);
  for (int32_t token = 0; token < c.tokens(); ++token) {
    const int32_t row = token / c.queries;
    const int32_t length = c.sees(token);
    if (length == 0) continue;
    for (int32_t kv_head = 0; kv_head < c.kv_heads; ++kv_head) {
      std::vector<float> keys(static_cast<size_t>(length) * c.head_dim);
      std::vector<float> values(keys.size());
      for (int32_t position = 0; position < length; ++position) {
        const int64_t at = p.At(row, position, kv_head);
        for (int32_t dim = 0; dim < c.head_dim; ++dim) {
          keys[position * c.head_dim + dim] = Decode(c.type, p.k[at + dim]);
          values[position * c.head_dim + dim] = Decode(c.type, p.v[at + dim]);
        }
      }
      for (int32_t member = 0; member < c.group; ++member) {
        const size_t out =
            static_cast<size_t>(token) * c.width() + (kv_head * c.group + member) * c.head_dim;
        std::vector<float> query(c.head_dim);
        for (int32_t dim = 0; dim < c.head_dim; ++dim) {
          query[dim] = Decode(c.type, p.queries[out + dim]);
        }
        std::vector<double> scores(length);
        std::vector<float> rounded(length);
        for (int32_t position = 0; position < length; ++position) {
          double score = 0;
          for (int32_t dim = 0; dim < c.head_dim; ++dim) {
            score += double{query[dim]} * keys[position * c.head_dim + dim];
          }
          scores[position] = score * p.scale();
          rounded[position] = Round(c.type, static_cast<float>(scores[position]));
        }
        const double max = *std::max_element(scores.begin(), scores.end());
        const float rounded_max = *std::max_element(rounded.begin(), rounded.end());
        double sum = 0;
        float rounded_sum = 0;
        for (int32_t position = 0; position < length; ++position) {
          sum += scores[position] = std::exp(scores[position] - max);
          rounded_sum += rounded[position] = std::exp(rounded[position] - rounded_max);
        }
        std::vector<double> attended(c.head_dim, 0);
        std::vector<float> rounded_attended(c.head_dim, 0);
        for (int32_t position = 0; position < length; ++position) {
          const float weight = Round(c.type, rounded[position] / rounded_sum);
          for (int32_t dim = 0; dim < c.head_dim; ++dim) {
            const float value = values[position * c.head_dim + dim];
            attended[dim] += scores[position] * value;
            rounded_attended[dim] += weight * value;
          }
        }
        for (int32_t dim = 0; dim < c.head_dim; ++dim) {
          result.exact[out + dim] = attended[dim] / sum;
          result.rounded[out + dim] = Round(c.type, rounded_attended[dim]);
        }
      }
    }
  }
  return result;
}

/// Each token's largest |values - exact|; infinite if a value is NaN.
template <typename T>
std::vector<double> LargestErrors(const Case& c, const std::vector<T>& values,
                                  const std::vector<double>& exact) {
  std::vector<double> largest(c.tokens(), 0);
  for (size_t i = 0; i < exact.size(); ++i) {
    double& of_row = largest[i / c.width()];
    const double error = std::abs(static_cast<double>(values[i]) - exact[i]);
    if (!(error <= of_row)) {
      of_row = std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
    }
  }
  return largest;
}

using DeviceMemory = DeviceArray<void>;

DeviceMemory Allocate(size_t bytes) {
  void* memory = nullptr;
  Require(cudaMalloc(&memory, bytes));
  return DeviceMemory(memory);
}

template <typename T>
DeviceMemory Upload(const std::vector<T>& values) {
  DeviceMemory memory = Allocate(values.size() * sizeof(T));
  Require(CopyToDevice(memory.get(), values.data(), values.size() * sizeof(T)));
  return memory;
}

class FlashAttentionTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "no CUDA device here";
    }
    const Status available = FlashAttentionAvailable();
    if (!available.ok()) GTEST_SKIP() << available.message();
  }

  /// One run on memory that is NaN all over; [rows, heads, head_dim].
  static void Run(const Problem& p, int32_t multiprocessors, int32_t* splits,
                  std::vector<uint16_t>* attended) {
    const Case& c = p.c;
    const Expected<FlashDecode> plan = FlashDecode::Plan({.type = c.type,
                                                          .rows = c.rows(),
                                                          .heads = c.heads(),
                                                          .kv_heads = c.kv_heads,
                                                          .head_dim = c.head_dim,
                                                          .page_size = c.page_size,
                                                          .table_pages = p.table_pages,
                                                          .multiprocessors = multiprocessors,
                                                          .queries = c.queries});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    *splits = plan->splits();

    const int64_t out_stride = c.width() + 8;
    std::vector<uint16_t> out(c.tokens() * out_stride, kPoisonElement);
    const DeviceMemory device_out = Upload(out);
    const DeviceMemory queries = Upload(p.queries);
    const DeviceMemory k = Upload(p.k);
    const DeviceMemory v = Upload(p.v);
    const DeviceMemory block_tables = Upload(p.block_tables);
    const DeviceMemory context_lens = Upload(c.context_lens);
    std::vector<uint8_t> workspace(plan->workspace_bytes() + kGuardBytes, 0xff);  // NaN as fp32
    const DeviceMemory device_workspace = Upload(workspace);

    const Status status = plan->Run({.queries = queries.get(),
                                     .query_stride = c.width(),
                                     .attended = device_out.get(),
                                     .attended_stride = out_stride,
                                     .k = k.get(),
                                     .v = v.get(),
                                     .page_stride = c.page_stride(),
                                     .slot_stride = c.slot_stride(),
                                     .head_stride = c.head_stride(),
                                     .block_tables = static_cast<int32_t*>(block_tables.get()),
                                     .table_stride = p.table_pages,
                                     .context_lens = static_cast<int32_t*>(context_lens.get()),
                                     .workspace = device_workspace.get(),
                                     .scale = p.scale()},
                                    nullptr);
    ASSERT_TRUE(status.ok()) << status.message();
    Require(cudaDeviceSynchronize());
    Require(cudaMemcpy(out.data(), device_out.get(), out.size() * sizeof(uint16_t),
                       cudaMemcpyDeviceToHost));
    Require(cudaMemcpy(workspace.data(), device_workspace.get(), workspace.size(),
                       cudaMemcpyDeviceToHost));

    EXPECT_TRUE(std::all_of(workspace.end() - kGuardBytes, workspace.end(), [](uint8_t byte) {
      return byte == 0xff;
    })) << "written past the workspace";
    attended->clear();
    for (int32_t token = 0; token < c.tokens(); ++token) {
      const auto begin = out.begin() + token * out_stride;
      attended->insert(attended->end(), begin, begin + c.width());
      EXPECT_TRUE(std::all_of(begin + c.width(), begin + out_stride,
                              [](uint16_t element) { return element == kPoisonElement; }))
          << "written between tokens, after token " << token;
    }
  }
};

TEST_P(FlashAttentionTest, AgreesWithPlainAttention) {
  const Case& c = GetParam();
  const Problem problem(c);
  const References references = Attend(problem);
  // Row by row: an error that a short history forgives is a lost key in a long one.
  const std::vector<double> expected = LargestErrors(c, references.rounded, references.exact);
  // Many multiprocessors make the library cut the keys, one makes it not: two kernels.
  for (const int32_t multiprocessors : {132, 1}) {
    int32_t splits = 0;
    std::vector<uint16_t> attended;
    ASSERT_NO_FATAL_FAILURE(Run(problem, multiprocessors, &splits, &attended));
    EXPECT_EQ(splits > 1, multiprocessors > 1);

    std::vector<float> values;
    for (const uint16_t bits : attended) values.push_back(Decode(c.type, bits));
    const std::vector<double> errors = LargestErrors(c, values, references.exact);
    double largest_ratio = 0;
    for (int32_t token = 0; token < c.tokens(); ++token) {
      EXPECT_LE(errors[token], 2 * expected[token])
          << "token that sees " << c.sees(token) << " positions, " << splits << " splits";
      if (expected[token] > 0) {
        largest_ratio = std::max(largest_ratio, errors[token] / expected[token]);
      }
    }
    std::cout << splits << " splits: largest error " << largest_ratio
              << " times that of the type\n";

    std::vector<uint16_t> again;
    ASSERT_NO_FATAL_FAILURE(Run(problem, multiprocessors, &splits, &again));
    EXPECT_EQ(attended, again) << "another run gave other bits";
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const CudaType type : {CudaType::kF16, CudaType::kBf16}) {
    for (const int32_t head_dim : {64, 128}) {
      for (const int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
        cases.push_back({.type = type, .head_dim = head_dim, .group = group});
      }
    }
  }
  cases.push_back({.group = 6, .page_size = 512, .layout = PageLayout::kSlotsOutside});
  cases.push_back({.head_dim = 64, .kv_heads = 5, .group = 3, .layout = PageLayout::kSlotsOutside});
  cases.push_back({.kv_heads = 2, .group = 7, .context_lens = {8000}});  // most splits
  cases.push_back({.kv_heads = 3, .group = 3, .context_lens = {300}});   // 9 results: a lone last
  for (const CudaType type : {CudaType::kF16, CudaType::kBf16}) {
    for (const int32_t head_dim : {64, 128}) {  // prompt chunks, alone and after a history
      cases.push_back({.type = type,
                       .head_dim = head_dim,
                       .group = 6,
                       .context_lens = {70, 513, 1300},
                       .queries = 70});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, FlashAttentionTest, testing::ValuesIn(Cases()));

}  // namespace
}  // namespace decant
