// The decode kernel `split` against plain loops, and against itself in other company. The reference
// in fp64 says what is right; the same computation with scores, weights and result rounded to the
// kernel's type says how much error that type costs; the kernel may have twice as much.
//
// --gtest_filter='*Small*' is a subset for compute-sanitizer.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/narrow.h"
#include "base/random.h"
#include "ops/cuda/cache_layout.h"
#include "ops/cuda/device.h"
#include "ops/cuda/split_attention.h"
#include "ops/cuda/testing/device_array.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

namespace decant {
namespace {

constexpr int32_t kPoisonPage = 2147480000;
constexpr uint16_t kPoisonElement = 0x7fff;  // NaN in fp16 and in bf16
constexpr int32_t kSpareEntries = 3;         // of a block table
constexpr int32_t kSparePages = 5;

struct Shape {
  CudaType type = CudaType::kF16;
  int32_t head_dim = 128;
  int32_t kv_heads = 2;
  int32_t group = 6;

  int32_t heads() const { return kv_heads * group; }
  int32_t width() const { return heads() * head_dim; }
  AttentionShape attention() const {
    return {.heads = heads(), .kv_heads = kv_heads, .head_dim = head_dim};
  }
};

void PrintTo(const Shape& s, std::ostream* out) {
  *out << (s.type == CudaType::kF16 ? "fp16" : "bf16") << " head_dim " << s.head_dim << " kv heads "
       << s.kv_heads << " group " << s.group;
}

float Decode(CudaType type, uint16_t bits) {
  return type == CudaType::kF16 ? ToFloat(F16{bits}) : ToFloat(Bf16{bits});
}
uint16_t Encode(CudaType type, float value) {
  return type == CudaType::kF16 ? ToF16(value).bits : ToBf16(value).bits;
}
float Round(CudaType type, float value) { return Decode(type, Encode(type, value)); }

/// Runs body(i) for i in [0, count) on all processors.
template <typename Body>
void ParallelFor(int32_t count, Body&& body) {
  const auto threads = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> pool;
  for (int32_t t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      for (int32_t i = t; i < count; i += threads) body(i);
    });
  }
  for (std::thread& thread : pool) thread.join();
}

/// Rows with their queries, keys and values; whatever their pages, their numbers are the same.
struct Rows {
  Rows(const Shape& of, std::vector<int32_t> context_lens, uint64_t seed)
      : shape(of), lengths(std::move(context_lens)), keys(count()), values(count()) {
    queries.resize(static_cast<size_t>(count()) * shape.width());
    const CounterRng rng(seed);
    for (size_t i = 0; i < queries.size(); ++i) queries[i] = Element(rng, i, 2.0F);
    ParallelFor(count(), [&](int32_t row) {
      const size_t size = static_cast<size_t>(lengths[row]) * shape.kv_heads * shape.head_dim;
      const CounterRng of_row(rng.Bits((uint64_t{1} << 40) + row));
      for (auto* part : {&keys[row], &values[row]}) {
        part->resize(size);
        const uint64_t first = part == &keys[row] ? 0 : uint64_t{1} << 32;
        for (size_t i = 0; i < size; ++i) (*part)[i] = Element(of_row, first + i, 1.0F);
      }
    });
  }

  int32_t count() const { return static_cast<int32_t>(lengths.size()); }

  uint16_t Element(const CounterRng& rng, uint64_t i, float range) const {
    return Encode(shape.type, (static_cast<float>(rng.Uniform(i)) * 2 - 1) * range);
  }

  Shape shape;
  std::vector<int32_t> lengths;
  std::vector<uint16_t> queries;              ///< [rows, heads, head_dim]
  std::vector<std::vector<uint16_t>> keys;    ///< of a row: [positions, kv_heads, head_dim]
  std::vector<std::vector<uint16_t>> values;  ///< likewise
};

struct References {
  std::vector<double> exact;
  std::vector<float> rounded;  ///< Scores, weights and result rounded to the kernel's type.
};

void AttendHead(const Rows& rows, int32_t row, int32_t head, References& result) {
  const Shape& s = rows.shape;
  const int32_t length = rows.lengths[row];
  const int32_t kv_head = head / s.group;
  const size_t out = (static_cast<size_t>(row) * s.heads() + head) * s.head_dim;
  const auto at = [&](int32_t position) {
    return (static_cast<size_t>(position) * s.kv_heads + kv_head) * s.head_dim;
  };
  std::vector<float> query(s.head_dim);
  for (int32_t d = 0; d < s.head_dim; ++d) query[d] = Decode(s.type, rows.queries[out + d]);
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim));
  std::vector<double> scores(length);
  std::vector<float> rounded(length);
  for (int32_t p = 0; p < length; ++p) {
    const uint16_t* key = rows.keys[row].data() + at(p);
    double score = 0;
    for (int32_t d = 0; d < s.head_dim; ++d) score += double{query[d]} * Decode(s.type, key[d]);
    scores[p] = score * scale;
    rounded[p] = Round(s.type, static_cast<float>(scores[p]));
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  const float rounded_max = *std::max_element(rounded.begin(), rounded.end());
  double sum = 0;
  float rounded_sum = 0;
  for (int32_t p = 0; p < length; ++p) {
    sum += scores[p] = std::exp(scores[p] - max);
    rounded_sum += rounded[p] = std::exp(rounded[p] - rounded_max);
  }
  std::vector<double> attended(s.head_dim, 0);
  std::vector<float> rounded_attended(s.head_dim, 0);
  for (int32_t p = 0; p < length; ++p) {
    const uint16_t* value = rows.values[row].data() + at(p);
    const float weight = Round(s.type, rounded[p] / rounded_sum);
    for (int32_t d = 0; d < s.head_dim; ++d) {
      const float v = Decode(s.type, value[d]);
      attended[d] += scores[p] * v;
      rounded_attended[d] += weight * v;
    }
  }
  for (int32_t d = 0; d < s.head_dim; ++d) {
    result.exact[out + d] = attended[d] / sum;
    result.rounded[out + d] = Round(s.type, rounded_attended[d]);
  }
}

References Attend(const Rows& rows) {
  References result;
  result.exact.resize(rows.queries.size());
  result.rounded.resize(rows.queries.size());
  ParallelFor(rows.count() * rows.shape.heads(), [&](int32_t i) {
    AttendHead(rows, i / rows.shape.heads(), i % rows.shape.heads(), result);
  });
  return result;
}

using DeviceMemory = DeviceArray<void>;

template <typename T>
DeviceMemory Upload(const std::vector<T>& values) {
  void* memory = nullptr;
  Require(cudaMalloc(&memory, values.size() * sizeof(T)));
  Require(CopyToDevice(memory, values.data(), values.size() * sizeof(T)));
  return DeviceMemory(memory);
}

/// The rows' keys and values in pages of a tiled cache, in shuffled order; all else is NaN.
class Cache {
 public:
  Cache(const Rows& rows, int32_t page_size) : rows_(rows), page_size_(page_size) {
    const Shape& s = rows.shape;
    int32_t pages = kSparePages;
    for (const int32_t length : rows.lengths) pages += CeilDiv(length, page_size);
    std::vector<int32_t> order(pages);
    std::iota(order.begin(), order.end(), 0);
    const CounterRng rng(20);
    for (int32_t i = pages - 1; i > 0; --i) std::swap(order[i], order[rng.Below(i, i + 1)]);
    int32_t next = 0;
    for (const int32_t length : rows.lengths) {
      const int32_t used = CeilDiv(length, page_size);
      pages_.emplace_back(order.begin() + next, order.begin() + next + used);
      next += used;
    }

    const int64_t block = int64_t{page_size} * s.head_dim;
    std::vector<uint16_t> elements(pages * s.kv_heads * 2 * block, kPoisonElement);
    ParallelFor(rows.count(), [&](int32_t row) {
      for (int32_t p = 0; p < rows.lengths[row]; ++p) {
        for (int32_t head = 0; head < s.kv_heads; ++head) {
          const int64_t page = pages_[row][p / page_size];
          uint16_t* k = elements.data() + (page * s.kv_heads + head) * 2 * block;
          const size_t from = (static_cast<size_t>(p) * s.kv_heads + head) * s.head_dim;
          for (int32_t d = 0; d < s.head_dim; ++d) {
            const int32_t at = TiledElement(page_size, s.head_dim, p % page_size, d);
            k[at] = rows.keys[row][from + d];
            k[block + at] = rows.values[row][from + d];
          }
        }
      }
    });
    memory_ = Upload(elements);
    layer_ = {.k = memory_.get(),
              .v = static_cast<uint16_t*>(memory_.get()) + block,
              .page_stride = s.kv_heads * 2 * block,
              .head_stride = 2 * block,
              .page_size = page_size,
              .layout = CacheLayout::kTiled};
  }

  const Rows& rows() const { return rows_; }
  const std::vector<int32_t>& pages(int32_t row) const { return pages_[row]; }
  int32_t page_size() const { return page_size_; }
  const CachePages& layer() const { return layer_; }

 private:
  const Rows& rows_;
  int32_t page_size_;
  std::vector<std::vector<int32_t>> pages_;
  DeviceMemory memory_;
  CachePages layer_;
};

/// Some of a cache's rows as a step in device memory.
struct Step {
  Step(const Cache& cache, const std::vector<int32_t>& picked) {
    const Rows& rows = cache.rows();
    const auto width = static_cast<size_t>(rows.shape.width());
    arrays.rows = arrays.decode_rows = arrays.tokens = static_cast<int32_t>(picked.size());
    std::vector<int32_t> contexts;
    std::vector<uint16_t> wanted;
    for (const int32_t row : picked) {
      contexts.push_back(rows.lengths[row]);
      arrays.table_stride = std::max(arrays.table_stride,
                                     static_cast<int32_t>(cache.pages(row).size()) + kSpareEntries);
      wanted.insert(wanted.end(), rows.queries.begin() + row * width,
                    rows.queries.begin() + (row + 1) * width);
    }
    std::vector<int32_t> tables(picked.size() * arrays.table_stride, kPoisonPage);
    for (size_t i = 0; i < picked.size(); ++i) {
      std::ranges::copy(cache.pages(picked[i]), tables.begin() + i * arrays.table_stride);
    }
    context_lens = Upload(contexts);
    block_tables = Upload(tables);
    queries = Upload(wanted);
    attended = Upload(std::vector<uint16_t>(wanted.size() + kGuard, kPoisonElement));
    arrays.context_lens = static_cast<int32_t*>(context_lens.get());
    arrays.block_tables = static_cast<int32_t*>(block_tables.get());
    size = wanted.size();
  }

  /// Waits, and gives [rows, heads, head_dim]; the memory is NaN again then.
  std::vector<uint16_t> Take() {
    Require(cudaDeviceSynchronize());
    std::vector<uint16_t> out(size + kGuard);
    const size_t bytes = out.size() * sizeof(uint16_t);
    Require(cudaMemcpy(out.data(), attended.get(), bytes, cudaMemcpyDeviceToHost));
    EXPECT_TRUE(std::all_of(out.begin() + size, out.end(), [](uint16_t element) {
      return element == kPoisonElement;
    })) << "written past the rows";
    const std::vector<uint16_t> nothing(out.size(), kPoisonElement);
    Require(CopyToDevice(attended.get(), nothing.data(), bytes));
    out.resize(size);
    return out;
  }

  static constexpr size_t kGuard = 4096;
  StepArrays arrays;
  size_t size = 0;
  DeviceMemory context_lens, block_tables, queries, attended;
};

std::vector<int32_t> AllRows(const Rows& rows) {
  std::vector<int32_t> all(rows.count());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Compares what a step gave for its rows with what `expected` has of them.
void ExpectRows(const Rows& rows, const std::vector<int32_t>& picked,
                const std::vector<uint16_t>& out, const std::vector<uint16_t>& expected,
                const std::string& what) {
  const auto width = static_cast<size_t>(rows.shape.width());
  int32_t told = 0;
  for (size_t i = 0; i < picked.size(); ++i) {
    const uint16_t* mine = out.data() + i * width;
    const uint16_t* theirs = expected.data() + picked[i] * width;
    if (std::memcmp(mine, theirs, width * sizeof(uint16_t)) == 0) continue;
    const size_t at = std::mismatch(mine, mine + width, theirs).first - mine;
    ADD_FAILURE() << what << ": row " << i << " of " << picked.size() << ", "
                  << rows.lengths[picked[i]] << " positions, first differs in head "
                  << at / rows.shape.head_dim << " dim " << at % rows.shape.head_dim << ": "
                  << Decode(rows.shape.type, mine[at]) << ", not "
                  << Decode(rows.shape.type, theirs[at]);
    if (++told == 3) return;
  }
}

class SplitAttentionTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "no CUDA device here";
    }
    const Expected<CudaDeviceInfo> device = OpenCudaDevice(0);
    ASSERT_TRUE(device.ok()) << device.status().message();
    device_ = *device;
  }

  SplitDecode Create(const Cache& cache) {
    const Rows& rows = cache.rows();
    SplitLimits limits{.page_size = cache.page_size(), .max_rows = std::max(rows.count(), 1)};
    for (const int32_t length : rows.lengths) {
      limits.max_context = std::max(limits.max_context, length);
      limits.max_positions += length;
    }
    Expected<SplitDecode> split =
        SplitDecode::Create(rows.shape.type, rows.shape.attention(), limits, device_);
    EXPECT_TRUE(split.ok()) << split.status().message();
    return std::move(split).value();
  }

  /// `launches` launches after one plan, which may overlap; what the last gives.
  static std::vector<uint16_t> Run(SplitDecode& split, const Cache& cache, Step& step,
                                   int launches = 1) {
    EXPECT_TRUE(split.Plan(step.arrays, nullptr).ok());
    for (int i = 0; i < launches; ++i) {
      EXPECT_TRUE(split.Run(cache.layer(), step.queries.get(), step.attended.get(), nullptr).ok());
    }
    return step.Take();
  }

  /// Judges all rows in one step; gives what they are, for comparisons.
  std::vector<uint16_t> Judge(const Cache& cache) {
    const Rows& rows = cache.rows();
    SplitDecode split = Create(cache);
    Step step(cache, AllRows(rows));
    const std::vector<uint16_t> out = Run(split, cache, step);
    const References references = Attend(rows);
    const auto width = static_cast<size_t>(rows.shape.width());
    double largest_ratio = 0;
    int32_t told = 0;
    // Row by row: an error that a short history forgives is a lost key in a long one.
    for (int32_t row = 0; row < rows.count(); ++row) {
      double error = 0;
      double rounding = 0;
      size_t worst = row * width;
      for (size_t i = row * width; i < (row + 1) * width; ++i) {
        const double off = std::abs(Decode(rows.shape.type, out[i]) - references.exact[i]);
        if (!(off <= error)) {
          error = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
          worst = i;
        }
        rounding = std::max(rounding, std::abs(references.rounded[i] - references.exact[i]));
      }
      if (rounding > 0) largest_ratio = std::max(largest_ratio, error / rounding);
      if (error <= 2 * rounding || told++ > 3) continue;
      ADD_FAILURE() << "row " << row << ", " << rows.lengths[row] << " positions, head "
                    << worst % width / rows.shape.head_dim << " dim " << worst % rows.shape.head_dim
                    << ": " << Decode(rows.shape.type, out[worst]) << ", not "
                    << references.exact[worst] << "; rounding costs " << rounding;
    }
    std::cout << testing::PrintToString(rows.shape) << " page " << cache.page_size()
              << ": largest error " << largest_ratio << " times that of the type\n";
    return out;
  }

  CudaDeviceInfo device_;
};

const std::vector<int32_t> kEdges = {1,   2,   63,  64,  65,   127,  128,  129,  255,  256, 257,
                                     511, 512, 513, 768, 1023, 1024, 1025, 4090, 4097, 8000};
const std::vector<int32_t> kFewEdges = {1, 17, 64, 65, 256, 257, 511, 513, 1025, 2300};

/// Lengths as issued requests have them, from a few tokens to thousands.
std::vector<int32_t> MixedLengths(int32_t rows, uint64_t seed) {
  constexpr int32_t kPrompts[] = {16, 64, 256, 1024, 4096};
  const CounterRng rng(seed);
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < rows; ++i) {
    lengths.push_back(kPrompts[rng.Below(2 * i, 5)] +
                      static_cast<int32_t>(rng.Below(2 * i + 1, 161)));
  }
  return lengths;
}

class SplitAttentionShapeTest : public SplitAttentionTest,
                                public testing::WithParamInterface<Shape> {};

TEST_P(SplitAttentionShapeTest, AgreesWithPlainAttention) {
  const Rows rows(GetParam(), GetParam().group == 6 ? kEdges : kFewEdges, 1);
  Judge(Cache(rows, 64));
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const CudaType type : {CudaType::kF16, CudaType::kBf16}) {
    for (const int32_t head_dim : {64, 128}) {
      for (const int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
        shapes.push_back({.type = type, .head_dim = head_dim, .group = group});
      }
    }
  }
  shapes.push_back({.kv_heads = 1});
  shapes.push_back({.head_dim = 64, .kv_heads = 5, .group = 3});
  shapes.push_back({.kv_heads = 8, .group = 4});
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, SplitAttentionShapeTest, testing::ValuesIn(Shapes()));

TEST_F(SplitAttentionTest, APageSizeChangesNoBit) {
  for (const Shape& shape : {Shape(), Shape{.head_dim = 64, .group = 3},
                             Shape{.type = CudaType::kBf16, .kv_heads = 1, .group = 16}}) {
    const Rows rows(shape, kEdges, 2);
    const std::vector<uint16_t> expected = Judge(Cache(rows, 64));
    for (const int32_t page_size : {16, 32, 48, 96, 128, 192, 256, 512}) {
      const Cache cache(rows, page_size);
      SplitDecode split = Create(cache);
      Step step(cache, AllRows(rows));
      ExpectRows(rows, AllRows(rows), Run(split, cache, step), expected,
                 "pages of " + std::to_string(page_size));
    }
  }
}

TEST_F(SplitAttentionTest, NeitherBatchNorGridNorRepeatsChangeABit) {
  for (const int32_t batch : {1, 8, 32, 64, 256}) {
    const Rows rows({}, MixedLengths(batch, batch), 3);
    const Cache cache(rows, 64);
    SplitDecode split = Create(cache);
    const std::vector<int32_t> all = AllRows(rows);
    Step step(cache, all);
    const std::vector<uint16_t> expected = Run(split, cache, step);
    if (batch == 32) EXPECT_EQ(expected, Judge(cache));
    const int32_t grid = split.blocks().grid;
    for (const int32_t blocks : {grid, grid / 2, 7, grid - 1, 1}) {
      split.UseGrid(blocks);
      ExpectRows(rows, all, Run(split, cache, step, 9), expected,
                 "a grid of " + std::to_string(blocks));
    }
    split.UseGrid(grid);
    std::vector<int32_t> others;
    for (int32_t row = batch - 1; row >= 0; row -= 2) others.push_back(row);
    Step some(cache, others);
    ExpectRows(rows, others, Run(split, cache, some), expected, "every other row, backwards");
    for (int32_t row = 0; row < std::min(batch, 32); ++row) {
      Step alone(cache, {row});
      ExpectRows(rows, {row}, Run(split, cache, alone), expected, "a row alone");
    }
  }
}

TEST_F(SplitAttentionTest, StepsOfChangingBatchesLeaveNothingBehind) {
  const Rows rows({.kv_heads = 2, .group = 7}, MixedLengths(48, 5), 4);
  const Cache cache(rows, 64);
  SplitDecode split = Create(cache);
  Step everything(cache, AllRows(rows));
  const std::vector<uint16_t> expected = Run(split, cache, everything);
  const CounterRng rng(6);
  uint64_t draw = 0;
  for (int step_number = 0; step_number < 150; ++step_number) {
    std::vector<int32_t> picked = AllRows(rows);
    for (int32_t i = rows.count() - 1; i > 0; --i) {
      std::swap(picked[i], picked[rng.Below(draw++, i + 1)]);
    }
    picked.resize(1 + rng.Below(draw++, step_number % 3 == 0 ? rows.count() : 6));
    Step step(cache, picked);
    // A plan that nothing runs by, and odd numbers of launches.
    if (step_number % 5 == 0) EXPECT_TRUE(split.Plan(everything.arrays, nullptr).ok());
    ExpectRows(rows, picked, Run(split, cache, step, 1 + static_cast<int>(rng.Below(draw++, 4))),
               expected, "step " + std::to_string(step_number));
    if (HasFailure()) return;
  }
}

/// Plan and launches of several layers recorded once, then run with other rows in the same memory.
TEST_F(SplitAttentionTest, AGraphTakesOtherRows) {
  constexpr int32_t kPoisonContext = 1 << 30;
  const Rows rows({}, MixedLengths(40, 8), 5);
  const Cache cache(rows, 64);
  SplitDecode split = Create(cache);
  const std::vector<int32_t> all = AllRows(rows);
  Step step(cache, all);
  const std::vector<uint16_t> expected = Run(split, cache, step);
  const DeviceMemory counts = Upload(std::vector<StepCounts>(1));
  step.arrays.counts = static_cast<const StepCounts*>(counts.get());
  cudaStream_t stream = nullptr;
  Require(cudaStreamCreate(&stream));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_TRUE(split.Plan(step.arrays, stream).ok());
  for (int layer = 0; layer < 5; ++layer) {
    EXPECT_TRUE(split.Run(cache.layer(), step.queries.get(), step.attended.get(), stream).ok());
  }
  Require(cudaStreamEndCapture(stream, &graph));
  Require(cudaGraphInstantiate(&executable, graph, 0));
  const int32_t pages = step.arrays.table_stride;
  for (int shift = 0; shift < 8; ++shift) {
    // Rows in another order, in the same arrays, and fewer each time; behind them is poison.
    std::vector<int32_t> picked = all;
    std::rotate(picked.begin(), picked.begin() + shift * 5, picked.end());
    picked.resize(all.size() - shift * 5);
    std::vector<int32_t> contexts;
    std::vector<int32_t> tables(all.size() * pages, kPoisonPage);
    std::vector<uint16_t> queries;
    const auto width = static_cast<size_t>(rows.shape.width());
    for (size_t i = 0; i < picked.size(); ++i) {
      contexts.push_back(rows.lengths[picked[i]]);
      std::ranges::copy(cache.pages(picked[i]), tables.begin() + i * pages);
      queries.insert(queries.end(), rows.queries.begin() + picked[i] * width,
                     rows.queries.begin() + (picked[i] + 1) * width);
    }
    const auto put = [](const DeviceMemory& to, const auto& from) {
      Require(CopyToDevice(to.get(), from.data(), from.size() * sizeof(from[0])));
    };
    contexts.resize(all.size(), kPoisonContext);
    put(step.context_lens, contexts);
    put(counts, std::vector<StepCounts>{{.decode_rows = static_cast<int32_t>(picked.size())}});
    put(step.block_tables, tables);
    put(step.queries, queries);
    for (int repeat = 0; repeat < 3; ++repeat) Require(cudaGraphLaunch(executable, stream));
    ExpectRows(rows, picked, step.Take(), expected, "graph, shift " + std::to_string(shift));
  }
  Require(cudaGraphExecDestroy(executable));
  Require(cudaGraphDestroy(graph));
  Require(cudaStreamDestroy(stream));
}

/// For compute-sanitizer, which makes everything slower by far.
TEST_F(SplitAttentionTest, SmallCases) {
  for (const Shape& shape :
       {Shape(), Shape{.type = CudaType::kBf16, .head_dim = 64, .kv_heads = 1, .group = 16}}) {
    const Rows rows(shape, {1, 65, 300, 513, 1100}, 7);
    for (const int32_t page_size : {16, 64}) {
      const Cache cache(rows, page_size);
      const std::vector<uint16_t> expected = Judge(cache);
      SplitDecode split = Create(cache);
      split.UseGrid(12);
      Step step(cache, AllRows(rows));
      ExpectRows(rows, AllRows(rows), Run(split, cache, step, 3), expected, "a grid of 12");
    }
  }
}

}  // namespace
}  // namespace decant
