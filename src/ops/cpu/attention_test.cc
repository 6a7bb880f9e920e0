#include "ops/cpu/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "base/narrow.h"
#include "base/random.h"
#include "ops/cpu/oracle_ops.h"

namespace decant {
namespace {

/// What stands in block tables past a row's pages; reading it would fault.
constexpr int32_t kPoisonPage = 2147480000;

struct RowLengths {
  int32_t query_len;
  int32_t context_len;
};

std::vector<CpuLevel> LevelsHere() {
  std::vector<CpuLevel> levels;
  for (CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kAvx2, CpuLevel::kAvx512,
                         CpuLevel::kAvx512Bf16, CpuLevel::kAmx}) {
    if (level <= DetectCpuLevel()) levels.push_back(level);
  }
  return levels;
}

/// Random rows in a cache whose every other slot is NaN. Keys, values and queries are functions of
/// request and position, so that a row is the same in any batch.
class AttentionBatch {
 public:
  AttentionBatch(const DecoderShape& shape, int32_t page_size, std::vector<RowLengths> lengths,
                 std::vector<uint64_t> requests)
      : shape_(shape), lengths_(std::move(lengths)), requests_(std::move(requests)) {
    int32_t total_pages = 3;
    for (const RowLengths& row : lengths_) total_pages += CeilDiv(row.context_len, page_size);
    cache_ = CpuKvCache(1, shape.kv_heads, shape.head_dim, total_pages, page_size);
    std::vector<int32_t> free_pages(total_pages);
    for (int32_t page = 0; page < total_pages; ++page) {
      cache_.Poison(page);
      free_pages[page] = page;
    }
    const CounterRng shuffle(total_pages);
    for (int32_t i = total_pages - 1; i > 0; --i) {
      std::swap(free_pages[i], free_pages[shuffle.Below(i, i + 1)]);
    }
    tables_.resize(lengths_.size());
    for (size_t r = 0; r < lengths_.size(); ++r) {
      const RowLengths& row = lengths_[r];
      for (int32_t i = 0; i < CeilDiv(row.context_len, page_size); ++i) {
        tables_[r].push_back(free_pages.back());
        free_pages.pop_back();
      }
      for (int32_t t = 0; t < row.context_len; ++t) {
        for (int32_t head = 0; head < shape.kv_heads; ++head) {
          cache_.AppendK(0, tables_[r][t / page_size], t % page_size, head,
                         Row(r, t, head, 1).data());
          cache_.AppendV(0, tables_[r][t / page_size], t % page_size, head,
                         Row(r, t, head, 2).data());
        }
      }
      tables_[r].insert(tables_[r].end(), 2, kPoisonPage);
      batch_rows_.push_back({.query_start = tokens_,
                             .query_len = row.query_len,
                             .context_len = row.context_len,
                             .pages = tables_[r]});
      for (int32_t i = 0; i < row.query_len; ++i) {
        token_rows_.push_back(static_cast<int32_t>(r));
        positions_.push_back(row.context_len - row.query_len + i);
      }
      tokens_ += row.query_len;
    }
    ids_.resize(tokens_);
    batch_ = {
        .token_ids = ids_, .positions = positions_, .token_rows = token_rows_, .rows = batch_rows_};
    const int64_t width = int64_t{shape.heads} * shape.head_dim;
    queries_ = HostBuffer(tokens_ * width * sizeof(Bf16));
    for (int32_t token = 0; token < tokens_; ++token) {
      for (int32_t head = 0; head < shape.heads; ++head) {
        const std::vector<Bf16> q = Row(token_rows_[token], positions_[token], head, 0);
        std::copy(q.begin(), q.end(),
                  queries_.As<Bf16>().data() + token * width + int64_t{head} * shape.head_dim);
      }
    }
  }

  /// [tokens, heads * head_dim] in fp32.
  std::vector<float> Run(DecodeKernel kernel, CpuLevel level, int threads) {
    ThreadPool pool(threads);
    CpuAttention attention(shape_, kernel, KernelsFor(level), pool);
    const int64_t width = int64_t{shape_.heads} * shape_.head_dim;
    std::vector<float> out(tokens_ * width, std::nanf(""));
    attention.Plan(batch_, cache_);
    // Twice, as two layers do: the arrival counters go on counting.
    for (int repeat = 0; repeat < 2; ++repeat) {
      attention.Run(
          0, cache_,
          {.data = queries_.data(), .dtype = DType::kBf16, .rows = tokens_, .cols = width},
          {.data = reinterpret_cast<std::byte*>(out.data()),
           .dtype = DType::kF32,
           .rows = tokens_,
           .cols = width});
    }
    return out;
  }

  /// The same by definition: in fp32, or with weights rounded to bf16 as the kernels do.
  std::vector<float> ByDefinition(bool bf16_weights) const {
    std::vector<float> all;
    for (int32_t token = 0; token < tokens_; ++token) {
      for (int32_t head = 0; head < shape_.heads; ++head) {
        const int32_t r = token_rows_[token];
        const int32_t kv_head = head / shape_.group();
        const int32_t keys = positions_[token] + 1;
        std::vector<std::vector<float>> k(keys);
        std::vector<std::vector<float>> v(keys);
        for (int32_t t = 0; t < keys; ++t) {
          k[t] = Floats(Row(r, t, kv_head, 1));
          v[t] = Floats(Row(r, t, kv_head, 2));
        }
        const std::vector<float> q = Floats(Row(r, positions_[token], head, 0));
        const std::vector<float> out = bf16_weights
                                           ? Rounded(q, k, v)
                                           : AttendByDefinition(
                                                 q, keys, [&](int32_t t) { return k[t].data(); },
                                                 [&](int32_t t) { return v[t].data(); });
        all.insert(all.end(), out.begin(), out.end());
      }
    }
    return all;
  }

 private:
  static std::vector<float> Floats(const std::vector<Bf16>& values) {
    std::vector<float> floats(values.size());
    std::transform(values.begin(), values.end(), floats.begin(),
                   [](Bf16 value) { return ToFloat(value); });
    return floats;
  }

  static std::vector<float> Rounded(const std::vector<float>& q,
                                    const std::vector<std::vector<float>>& k,
                                    const std::vector<std::vector<float>>& v) {
    std::vector<double> scores;
    double max = -INFINITY;
    for (const std::vector<float>& key : k) {
      double score = 0;
      for (size_t d = 0; d < q.size(); ++d) score += double{q[d]} * key[d];
      scores.push_back(score / std::sqrt(static_cast<double>(q.size())));
      max = std::max(max, scores.back());
    }
    double total = 0;
    std::vector<float> out(q.size());
    for (double& score : scores) {
      score = std::exp(score - max);
      total += score;
    }
    for (size_t d = 0; d < q.size(); ++d) {
      double sum = 0;
      for (size_t t = 0; t < k.size(); ++t) {
        sum += double{ToFloat(ToBf16(static_cast<float>(scores[t])))} * v[t][d];
      }
      out[d] = static_cast<float>(sum / total);
    }
    return out;
  }

  /// kind 0: query, 1: key, 2: value.
  std::vector<Bf16> Row(size_t r, int32_t position, int32_t head, int kind) const {
    const CounterRng rng(requests_[r] * 3 + kind);
    std::vector<Bf16> values(shape_.head_dim);
    for (int32_t d = 0; d < shape_.head_dim; ++d) {
      const uint64_t counter = (static_cast<uint64_t>(position) * 64 + head) * 256 + d;
      values[d] = ToBf16(static_cast<float>(rng.Uniform(counter) * 4 - 2));
    }
    return values;
  }

  DecoderShape shape_;
  std::vector<RowLengths> lengths_;
  std::vector<uint64_t> requests_;
  CpuKvCache cache_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<BatchRow> batch_rows_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> token_rows_;
  StepBatch batch_;
  HostBuffer queries_;
  int32_t tokens_ = 0;
};

double MaxError(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = std::abs(double{a[i]} - b[i]);
    if (!(error <= worst)) worst = error;  // NaN stays
  }
  return worst;
}

DecoderShape Shape(int32_t group, int32_t kv_heads, int32_t head_dim) {
  DecoderShape shape;
  shape.layers = 1;
  shape.heads = group * kv_heads;
  shape.kv_heads = kv_heads;
  shape.head_dim = head_dim;
  return shape;
}

TEST(AttentionTest, ErrsAtMostTwiceAsMuchAsRoundingAlone) {
  const std::vector<RowLengths> lengths = {{1, 1},    {1, 2},    {1, 63},  {1, 64},   {1, 65},
                                           {1, 127},  {1, 257},  {1, 513}, {1, 1025}, {5, 5},
                                           {33, 300}, {17, 513}, {2, 17}};
  std::vector<uint64_t> requests;
  for (size_t i = 0; i < lengths.size(); ++i) requests.push_back(100 + i);
  for (int32_t group : {1, 2, 3, 6, 7, 8, 16}) {
    const int32_t head_dim = group % 2 == 0 ? 128 : 64;
    const DecoderShape shape = Shape(group, 2, head_dim);
    for (int32_t page_size : {1, 16, 24, 64, 256}) {
      // Every page size with one group, and every group with one page size.
      if (group != 3 && page_size != 64) continue;
      AttentionBatch batch(shape, page_size, lengths, requests);
      const std::vector<float> exact = batch.ByDefinition(false);
      const double rounding = MaxError(batch.ByDefinition(true), exact);
      ASSERT_GT(rounding, 0);
      for (CpuLevel level : LevelsHere()) {
        for (DecodeKernel kernel : {DecodeKernel::kRows, DecodeKernel::kSplit}) {
          const double error = MaxError(batch.Run(kernel, level, 2), exact);
          EXPECT_TRUE(error <= 2 * rounding)
              << error << " against " << rounding << ": group " << group << ", page " << page_size
              << ", " << DecodeKernelName(kernel) << ", " << CpuLevelName(level);
        }
      }
    }
  }
}

TEST(AttentionTest, BitsDependOnTheRowOnly) {
  const DecoderShape shape = Shape(3, 2, 64);
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  for (CpuLevel level : LevelsHere()) {
    // Row 7's positions 0 to 699, cut in every way below, alone and with others, at any page size
    // and thread count.
    std::map<int32_t, std::vector<float>> reference;
    const auto check = [&](AttentionBatch batch, int32_t first_token, RowLengths row, int threads) {
      const std::vector<float> out = batch.Run(DecodeKernel::kSplit, level, threads);
      for (int32_t i = 0; i < row.query_len; ++i) {
        const int32_t position = row.context_len - row.query_len + i;
        const auto begin = out.begin() + (first_token + i) * width;
        const std::vector<float> bits(begin, begin + width);
        const auto [known, added] = reference.try_emplace(position, bits);
        ASSERT_EQ(std::memcmp(known->second.data(), bits.data(), width * sizeof(float)), 0)
            << "position " << position << " of a chunk of " << row.query_len << ", "
            << CpuLevelName(level);
      }
    };
    check(AttentionBatch(shape, 64, {{700, 700}}, {7}), 0, {700, 700}, 1);
    check(AttentionBatch(shape, 256, {{188, 700}}, {7}), 0, {188, 700}, 2);
    check(AttentionBatch(shape, 16, {{7, 700}}, {7}), 0, {7, 700}, 2);
    check(AttentionBatch(shape, 1, {{64, 320}}, {7}), 0, {64, 320}, 2);
    for (int32_t position : {0, 15, 16, 254, 255, 256, 511, 512, 699}) {
      check(AttentionBatch(shape, 64, {{1, position + 1}}, {7}), 0, {1, position + 1}, 3);
      check(AttentionBatch(shape, 64, {{9, 600}, {1, position + 1}, {1, 77}}, {3, 7, 5}), 9,
            {1, position + 1}, 2);
    }
  }
}

}  // namespace
}  // namespace decant
