// The ranged prompt kernel against plain loops: every query against a reference on the device,
// which is checked against one on the host. The reference says what is right; the same computation
// with scores, weights and result rounded to the kernel's type says how much error that type costs;
// the kernel may have twice as much. And its bits: the same whatever the plan, however a prompt is
// cut, whatever else is in the step, at any page size.
//
// --short: a part of the cases, for compute-sanitizer.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <ostream>
#include <string>
#include <string_view>

#include "ops/cuda/ranged_prompt_problem.cuh"
#include "tensor/bf16.h"
#include "tensor/f16.h"

namespace decant::ranged_prompt_test {
namespace {

bool g_short = false;  ///< --short

constexpr int kReferenceThreads = 128;

/// Scores, exponentials and sums of one (token, head) a block; weights in fp32, sums in fp64.
/// attended and rounded: [tokens, heads, head_dim], exact and with scores, weights and result
/// rounded to T.
template <typename T>
__global__ void Reference(const T* queries, const T* plain, int32_t history, AttentionShape shape,
                          float* scratch, float* attended, float* rounded) {
  const int32_t token = blockIdx.x;
  const int32_t head = blockIdx.y;
  const int32_t keys = history + token + 1;
  const int32_t group = shape.heads / shape.kv_heads;
  const int32_t dims = shape.head_dim;
  const int64_t key_stride = int64_t{shape.kv_heads} * 2 * dims;
  const T* k = plain + int64_t{head / group} * 2 * dims;
  const T* query = queries + (int64_t{token} * shape.heads + head) * dims;
  float* scores = scratch + (int64_t{token} * shape.heads + head) * 2 * (history + gridDim.x);
  float* rounded_scores = scores + history + gridDim.x;
  const float scale = rsqrtf(static_cast<float>(dims));
  for (int32_t key = threadIdx.x; key < keys; key += kReferenceThreads) {
    double score = 0;
    for (int32_t dim = 0; dim < dims; ++dim) {
      score += static_cast<double>(Element<T>::To(query[dim])) *
               static_cast<double>(Element<T>::To(k[key * key_stride + dim]));
    }
    scores[key] = static_cast<float>(score) * scale;
    rounded_scores[key] = Element<T>::To(Element<T>::From(scores[key]));
  }
  __syncthreads();
  float max = scores[0];
  float rounded_max = rounded_scores[0];
  for (int32_t key = 1; key < keys; ++key) {
    max = fmaxf(max, scores[key]);
    rounded_max = fmaxf(rounded_max, rounded_scores[key]);
  }
  __syncthreads();
  for (int32_t key = threadIdx.x; key < keys; key += kReferenceThreads) {
    scores[key] = expf(scores[key] - max);
    rounded_scores[key] = expf(rounded_scores[key] - rounded_max);
  }
  __syncthreads();
  if (threadIdx.x >= dims) return;
  double sum = 0;
  double rounded_sum = 0;
  for (int32_t key = 0; key < keys; ++key) {
    sum += scores[key];
    rounded_sum += rounded_scores[key];
  }
  const T* v = k + dims + threadIdx.x;
  double value = 0;
  double rounded_value = 0;
  for (int32_t key = 0; key < keys; ++key) {
    const double at_key = static_cast<double>(Element<T>::To(v[key * key_stride]));
    value += scores[key] * at_key;
    const float weight = rounded_scores[key] / static_cast<float>(rounded_sum);
    rounded_value += static_cast<double>(Element<T>::To(Element<T>::From(weight))) * at_key;
  }
  const int64_t at = (int64_t{token} * shape.heads + head) * dims + threadIdx.x;
  attended[at] = static_cast<float>(value / sum);
  rounded[at] = Element<T>::To(Element<T>::From(static_cast<float>(rounded_value)));
}

struct Case {
  CudaType type = CudaType::kF16;
  int32_t head_dim = 128;
  int32_t kv_heads = 2;
  int32_t group = 6;
  int32_t page_size = 64;
  std::vector<Chunk> chunks = {};

  AttentionShape shape() const {
    return {.heads = kv_heads * group, .kv_heads = kv_heads, .head_dim = head_dim};
  }
  int64_t width() const { return int64_t{kv_heads} * group * head_dim; }
  int64_t plain_width() const { return int64_t{kv_heads} * 2 * head_dim; }
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << (c.type == CudaType::kF16 ? "fp16" : "bf16") << " head_dim " << c.head_dim << " group "
       << c.group << " page " << c.page_size << ":";
  for (const Chunk& chunk : c.chunks) *out << " " << chunk.tokens << "@" << chunk.history;
}

float Decode(CudaType type, uint16_t bits) {
  return type == CudaType::kF16 ? ToFloat(F16{bits}) : ToFloat(Bf16{bits});
}

/// Random queries, keys and values of requests, in plain form on the device.
struct Requests {
  Requests(const Case& c, std::span<const int32_t> lengths) {
    uint64_t seed = 17;
    for (const int32_t length : lengths) {
      queries.emplace_back(length * c.width());
      plain.emplace_back(length * c.plain_width());
      WithType(c.type, [&](auto element) {
        using T = decltype(element);
        FillUniform<<<128, 256>>>(reinterpret_cast<T*>(queries.back().data()),
                                  queries.back().size(), 2.0F, ++seed);
        FillUniform<<<128, 256>>>(reinterpret_cast<T*>(plain.back().data()), plain.back().size(),
                                  1.5F, ++seed);
      });
    }
    Require(cudaGetLastError(), "filling");
  }
  void Append(const Case& c, size_t request, const int32_t* table, int32_t first, int32_t count,
              const CachePages& pages) const {
    WithType(c.type, [&](auto element) {
      using T = decltype(element);
      AppendTokens<<<128, 128>>>(reinterpret_cast<const T*>(plain[request].data()), table, first,
                                 count, c.kv_heads, c.head_dim, pages);
    });
    Require(cudaGetLastError(), "appending");
  }
  std::vector<Memory<uint16_t>> queries;  ///< [length, heads, head_dim] each
  std::vector<Memory<uint16_t>> plain;    ///< [length, kv_heads, 2, head_dim] each
};

/// The exact result of one query on the host.
std::vector<double> Attend(const Case& c, std::span<const uint16_t> query,
                           std::span<const uint16_t> plain, int32_t kv_head, int32_t keys) {
  std::vector<double> scores(keys);
  const auto at = [&](int32_t key, int32_t which, int32_t dim) {
    return double{
        Decode(c.type, plain[key * c.plain_width() + (kv_head * 2 + which) * c.head_dim + dim])};
  };
  std::vector<double> of_query(c.head_dim);
  for (int32_t dim = 0; dim < c.head_dim; ++dim) of_query[dim] = Decode(c.type, query[dim]);
  for (int32_t key = 0; key < keys; ++key) {
    for (int32_t dim = 0; dim < c.head_dim; ++dim) scores[key] += of_query[dim] * at(key, 0, dim);
    scores[key] /= std::sqrt(double{static_cast<double>(c.head_dim)});
  }
  const double max = *std::ranges::max_element(scores);
  double sum = 0;
  std::vector<double> attended(c.head_dim, 0);
  for (int32_t key = 0; key < keys; ++key) {
    const double weight = std::exp(scores[key] - max);
    sum += weight;
    for (int32_t dim = 0; dim < c.head_dim; ++dim) attended[dim] += weight * at(key, 1, dim);
  }
  for (double& value : attended) value /= sum;
  return attended;
}

class RangedPromptTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string reason = Unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  }

 public:
  static std::string Unavailable() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return "no CUDA device here";
    const Expected<RangedPrompt> prompt =
        RangedPrompt::Create(CudaType::kF16,
                             {.shape = {.heads = 1, .kv_heads = 1, .head_dim = 64},
                              .multiprocessors = 1,
                              .max_tokens = 1,
                              .max_rows = 1},
                             0);
    return prompt.ok() ? "" : prompt.status().message();
  }

  static int32_t Multiprocessors() {
    int count = 0;
    Require(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "asking a device");
    return count;
  }
};

/// The first place where two results differ, in words.
std::string FirstDifference(const Case& c, std::span<const uint16_t> left,
                            std::span<const uint16_t> right) {
  size_t count = 0;
  size_t first = left.size();
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i]) continue;
    ++count;
    first = std::min(first, i);
  }
  if (count == 0) return "none";
  return fmt::format("{} of {} elements, the first at token {} head {} dim {}: {} and {}", count,
                     left.size(), first / c.width(), first % c.width() / c.head_dim,
                     first % c.head_dim, Decode(c.type, left[first]), Decode(c.type, right[first]));
}

TEST_P(RangedPromptTest, AgreesWithPlainAttentionWhateverThePlan) {
  const Case& c = GetParam();
  std::vector<int32_t> lengths;
  for (const Chunk& chunk : c.chunks) lengths.push_back(chunk.tokens + chunk.history);
  const int32_t tokens = TokensOf(c.chunks);
  const Requests requests(c, lengths);
  const Tables tables(lengths, c.page_size, 5);
  const Pool pool(c.shape(), c.page_size, tables.pages);
  Memory<uint16_t> queries(tokens * c.width());
  Memory<float> exact(queries.size());
  Memory<float> rounded(queries.size());
  int64_t start = 0;
  for (size_t r = 0; r < c.chunks.size(); ++r) {
    const Chunk& chunk = c.chunks[r];
    requests.Append(c, r, tables.device.data() + r * tables.stride, 0, lengths[r], pool.view());
    const uint16_t* mine = requests.queries[r].data() + chunk.history * c.width();
    Require(cudaMemcpy(queries.data() + start, mine, chunk.tokens * c.width() * 2,
                       cudaMemcpyDeviceToDevice),
            "copying queries");
    WithType(c.type, [&](auto element) {
      using T = decltype(element);
      const Memory<float> scratch(size_t{2} * chunk.tokens * c.shape().heads * lengths[r]);
      const dim3 grid(chunk.tokens, c.shape().heads);
      Reference<<<grid, kReferenceThreads>>>(
          reinterpret_cast<const T*>(mine), reinterpret_cast<const T*>(requests.plain[r].data()),
          chunk.history, c.shape(), scratch.data(), exact.data() + start, rounded.data() + start);
      Require(cudaDeviceSynchronize(), "the reference");
    });
    start += chunk.tokens * c.width();
  }
  const std::vector<float> exact_values = exact.Get();
  const std::vector<float> rounded_values = rounded.Get();

  // The reference itself, at each chunk's first and last query and some between.
  start = 0;
  for (size_t r = 0; r < c.chunks.size(); ++r) {
    const Chunk& chunk = c.chunks[r];
    const std::vector<uint16_t> plain = requests.plain[r].Get();
    const std::vector<uint16_t> all_queries = requests.queries[r].Get();
    for (const int32_t token : {0, chunk.tokens / 3, chunk.tokens - 1}) {
      const int32_t head = (token * 7 + 1) % c.shape().heads;
      const int64_t in_request =
          (int64_t{chunk.history + token} * c.shape().heads + head) * c.head_dim;
      const std::vector<double> attended =
          Attend(c, std::span(all_queries).subspan(in_request, c.head_dim), plain, head / c.group,
                 chunk.history + token + 1);
      const int64_t at = start + (int64_t{token} * c.shape().heads + head) * c.head_dim;
      for (int32_t dim = 0; dim < c.head_dim; ++dim) {
        ASSERT_LE(std::abs(exact_values[at + dim] - attended[dim]), 2e-6)
            << "the reference, chunk " << r << " token " << token << " head " << head;
      }
    }
    start += chunk.tokens * c.width();
  }

  struct Variant {
    std::string name;
    int32_t multiprocessors;
    PromptPlanChoices choices;
  };
  using Cut = PromptPlanChoices::Cut;
  std::vector<Variant> variants = {
      {"default", Multiprocessors(), {}},
      {"narrow", Multiprocessors(), {.tile_rows = kPromptPartRows}},
      {"wide", Multiprocessors(), {.tile_rows = 2 * kPromptPartRows}},
      {"all cut, narrow", Multiprocessors(), {.cut = Cut::kAll, .tile_rows = kPromptPartRows}},
      {"all cut, wide", Multiprocessors(), {.cut = Cut::kAll, .tile_rows = 2 * kPromptPartRows}},
      {"none cut", Multiprocessors(), {.cut = Cut::kNone}},
      {"7 blocks", 7, {}},
      {"101 blocks, all cut", 101, {.cut = Cut::kAll}},
  };
  if (g_short) variants.resize(5);
  const std::vector<BatchRow> rows = MakeRows(c.chunks);
  std::vector<uint16_t> attended;
  for (const Variant& variant : variants) {
    Runner runner(c.type, {.shape = c.shape(),
                           .multiprocessors = variant.multiprocessors,
                           .max_tokens = tokens,
                           .max_rows = static_cast<int32_t>(rows.size())});
    runner.Plan(rows, tables.device.data(), tables.stride, variant.choices);
    const int64_t guard = 4096;
    for (int launch = 0; launch < 3; ++launch) {
      Memory<uint16_t> out(queries.size() + guard);
      out.Fill(0xff);
      runner.Launch(pool.view(), queries.data(), out.data(), nullptr);
      Require(cudaDeviceSynchronize(), variant.name.c_str());
      std::vector<uint16_t> result = out.Get();
      ASSERT_TRUE(std::all_of(result.end() - guard, result.end(),
                              [](uint16_t element) { return element == 0xffff; }))
          << variant.name << ": written past the result";
      result.resize(queries.size());
      if (!attended.empty()) {
        ASSERT_EQ(FirstDifference(c, attended, result), "none")
            << variant.name << ", launch " << launch << ": other bits";
        continue;
      }
      attended = std::move(result);
      double worst = 0;
      for (int32_t token = 0; token < tokens; ++token) {
        double error = 0;
        double allowed = 0;
        for (int64_t i = token * c.width(); i < (token + 1) * c.width(); ++i) {
          const double off = std::abs(double{Decode(c.type, attended[i])} - exact_values[i]);
          error = off <= error ? error : std::isnan(off) ? 1e30 : off;
          allowed = std::max(allowed, 2 * std::abs(double{rounded_values[i]} - exact_values[i]));
        }
        ASSERT_LE(error, allowed) << "token " << token << " of the step";
        worst = std::max(worst, error / (allowed / 2));
      }
      std::cout << "largest error " << worst << " times that of the type; items "
                << runner.counts().items << " merges " << runner.counts().merges << " mergers "
                << runner.counts().mergers << "\n";
    }
  }
}

std::vector<Case> Cases() {
  if (g_short) {
    return {{.chunks = {{40, 600}, {70, 0}}},
            {.type = CudaType::kBf16,
             .head_dim = 64,
             .group = 7,
             .page_size = 48,
             .chunks = {{33, 1000}, {2, 63}}}};
  }
  const std::vector<Chunk> mixed = {{2, 63},    {3, 64},    {65, 511}, {63, 1},
                                    {129, 127}, {43, 1000}, {7, 2047}, {2, 512}};
  std::vector<Case> cases;
  for (const std::vector<Chunk>& chunks : std::vector<std::vector<Chunk>>{
           {{512, 0}},
           {{512, 3584}},
           {{2, 8000}},
           {{300, 7700}},
           {{2048, 0}},
           {{256, 0}, {256, 0}},
           {{64, 0}, {64, 0}, {64, 0}, {64, 0}, {64, 0}, {64, 0}, {64, 0}, {64, 0}},
           {{700, 900}, {5, 4091}},
           mixed}) {
    cases.push_back({.chunks = chunks});
  }
  for (const CudaType type : {CudaType::kF16, CudaType::kBf16}) {
    for (const int32_t head_dim : {64, 128}) {
      for (const int32_t group : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
        cases.push_back({.type = type, .head_dim = head_dim, .group = group, .chunks = mixed});
      }
      for (const int32_t page_size : {16, 48, 64, 80, 128, 256}) {
        cases.push_back(
            {.type = type, .head_dim = head_dim, .page_size = page_size, .chunks = mixed});
      }
    }
  }
  cases.push_back({.kv_heads = 8, .group = 4, .chunks = {{512, 1024}, {100, 50}}});
  cases.push_back({.type = CudaType::kBf16, .kv_heads = 3, .group = 1, .chunks = {{777, 333}}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, RangedPromptTest, testing::ValuesIn(Cases()));

/// One prompt in pieces of `cut` tokens, with `neighbours` other rows in each step.
std::vector<uint16_t> RunCut(const Case& c, Runner& runner, const Requests& requests,
                             std::span<const int32_t> lengths, int32_t cut, int neighbours) {
  const Tables tables(lengths, c.page_size, 11 + cut);
  Pool pool(c.shape(), c.page_size, tables.pages);
  std::vector<uint16_t> result;
  int32_t step = 0;
  for (int32_t done = 0; done < lengths[0]; ++step) {
    struct Part {
      size_t request;
      Chunk chunk;
    };
    std::vector<Part> parts;
    if (neighbours > 0) parts.push_back({1, {2 + step * 53 % 200, step * 37 % 480}});
    parts.push_back({0, {std::min(cut, lengths[0] - done), done}});
    if (neighbours > 1) parts.push_back({2, {lengths[2], 0}});
    std::vector<Chunk> chunks = {};
    std::vector<BatchRow> rows;
    for (const Part& part : parts) chunks.push_back(part.chunk);
    rows = MakeRows(chunks);
    Memory<uint16_t> queries(TokensOf(chunks) * c.width());
    Memory<int32_t> table(std::vector<int32_t>(parts.size() * tables.stride));
    int64_t mine = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      const int32_t* source = tables.device.data() + part.request * tables.stride;
      Require(cudaMemcpy(table.data() + i * tables.stride, source, tables.stride * 4,
                         cudaMemcpyDeviceToDevice),
              "copying a table");
      const int32_t first = part.request == 0 ? done : 0;
      const int32_t end = part.chunk.history + part.chunk.tokens;
      requests.Append(c, part.request, source, first, end - first, pool.view());
      Require(cudaMemcpy(queries.data() + rows[i].query_start * c.width(),
                         requests.queries[part.request].data() + part.chunk.history * c.width(),
                         part.chunk.tokens * c.width() * 2, cudaMemcpyDeviceToDevice),
              "copying queries");
      if (part.request == 0) mine = rows[i].query_start * c.width();
    }
    runner.Plan(rows, table.data(), tables.stride);
    Memory<uint16_t> out(queries.size());
    out.Fill(0xff);
    runner.Launch(pool.view(), queries.data(), out.data(), nullptr);
    Require(cudaDeviceSynchronize(), "a step");
    const std::vector<uint16_t> all = out.Get();
    const int32_t count = std::min(cut, lengths[0] - done);
    result.insert(result.end(), all.begin() + mine, all.begin() + mine + count * c.width());
    done += count;
  }
  return result;
}

TEST(RangedPromptCreateTest, RefusesMoreBlocksThanTheDeviceHolds) {
  if (const std::string reason = RangedPromptTest::Unavailable(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  PromptPlanLimits limits{.shape = Case().shape(),
                          .multiprocessors = RangedPromptTest::Multiprocessors() + 1,
                          .max_tokens = 64,
                          .max_rows = 1};
  EXPECT_EQ(RangedPrompt::Create(CudaType::kF16, limits, 0).status().code(),
            StatusCode::kFailedPrecondition);
  limits.multiprocessors = 1;
  limits.shape.head_dim = 96;
  EXPECT_EQ(RangedPrompt::Create(CudaType::kF16, limits, 0).status().code(),
            StatusCode::kUnimplemented);
}

TEST(RangedPromptBitsTest, DoNotDependOnChunksNeighboursOrPages) {
  if (const std::string reason = RangedPromptTest::Unavailable(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  for (const Case& shape :
       {Case{}, Case{.type = CudaType::kBf16, .head_dim = 64, .kv_heads = 3, .group = 5}}) {
    const std::vector<int32_t> lengths = {g_short ? 300 : 2900, 700, 333};
    Case c = shape;
    const Requests requests(c, lengths);
    Runner runner(c.type, {.shape = c.shape(),
                           .multiprocessors = RangedPromptTest::Multiprocessors(),
                           .max_tokens = 4096,
                           .max_rows = 3});
    std::vector<uint16_t> expected;
    for (const int32_t page_size : {64, 16, 48, 128, 256}) {
      for (const int32_t cut : {2048, 512, 100, 64, 7}) {
        for (const int neighbours : {0, 1, 2}) {
          if (cut == 7 && (neighbours != 1 || page_size != 64)) continue;
          if (g_short && (page_size > 64 || cut < 100)) continue;
          c.page_size = page_size;
          std::vector<uint16_t> result = RunCut(c, runner, requests, lengths, cut, neighbours);
          if (expected.empty()) expected = result;
          ASSERT_EQ(FirstDifference(c, expected, result), "none")
              << "pieces of " << cut << ", " << neighbours << " neighbours, page " << page_size;
        }
      }
    }
  }
}

/// A launch recorded with one plan computes by whatever plan lies in its place.
TEST(RangedPromptGraphTest, ServesOtherPlans) {
  if (const std::string reason = RangedPromptTest::Unavailable(); !reason.empty()) {
    GTEST_SKIP() << reason;
  }
  constexpr int32_t kMaxTokens = 2048;
  const Case c;
  const std::vector<int32_t> lengths = {2900, 700, 333};
  const Requests requests(c, lengths);
  const Tables tables(lengths, c.page_size, 3);
  const Pool pool(c.shape(), c.page_size, tables.pages);
  for (size_t r = 0; r < lengths.size(); ++r) {
    requests.Append(c, r, tables.device.data() + r * tables.stride, 0, lengths[r], pool.view());
  }
  Runner runner(c.type, {.shape = c.shape(),
                         .multiprocessors = RangedPromptTest::Multiprocessors(),
                         .max_tokens = kMaxTokens,
                         .max_rows = 3});
  Memory<uint16_t> queries(kMaxTokens * c.width());
  Memory<uint16_t> out(queries.size());
  cudaStream_t stream = nullptr;
  Require(cudaStreamCreate(&stream), "a stream");
  cudaGraphExec_t graph = nullptr;
  // Of request 0, 1 and 2; a small plan first, which later ones outgrow.
  const std::vector<std::vector<Chunk>> plans = {{{3, 5}, {2, 0}},
                                                 {{2, 2898}, {600, 100}, {333, 0}},
                                                 {{2048, 852}},
                                                 {{2, 0}},
                                                 {{512, 2388}, {512, 0}, {300, 33}}};
  for (const std::vector<Chunk>& chunks : plans) {
    const std::vector<BatchRow> rows = MakeRows(chunks);
    for (size_t r = 0; r < chunks.size(); ++r) {
      Require(cudaMemcpy(queries.data() + rows[r].query_start * c.width(),
                         requests.queries[r].data() + chunks[r].history * c.width(),
                         chunks[r].tokens * c.width() * 2, cudaMemcpyDeviceToDevice),
              "copying queries");
    }
    const auto compute = [&](const auto& launch) {
      runner.Plan(rows, tables.device.data(), tables.stride);
      std::vector<uint16_t> result;
      for (int layer = 0; layer < 3; ++layer) {
        out.Fill(0xff);
        launch();
        Require(cudaStreamSynchronize(stream), "a launch");
        const std::vector<uint16_t> all = out.Get();
        result.insert(result.end(), all.begin(), all.begin() + TokensOf(chunks) * c.width());
      }
      return result;
    };
    const auto direct = [&] { runner.Launch(pool.view(), queries.data(), out.data(), stream); };
    const std::vector<uint16_t> expected = compute(direct);
    if (graph == nullptr) {
      cudaGraph_t recorded = nullptr;
      Require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording");
      direct();
      Require(cudaStreamEndCapture(stream, &recorded), "recording");
      Require(cudaGraphInstantiate(&graph, recorded, 0), "recording");
      Require(cudaGraphDestroy(recorded), "recording");
    }
    const std::vector<uint16_t> result =
        compute([&] { Require(cudaGraphLaunch(graph, stream), "a graph"); });
    ASSERT_EQ(FirstDifference(c, expected, result), "none") << TokensOf(chunks) << " tokens";
  }
  Require(cudaGraphExecDestroy(graph), "the end");
  Require(cudaStreamDestroy(stream), "the end");
}

}  // namespace
}  // namespace decant::ranged_prompt_test

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--short") decant::ranged_prompt_test::g_short = true;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
