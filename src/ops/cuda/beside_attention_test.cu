// Decode attention that runs beside prompt attention, as in a step that has both, against the same
// kernels one after the other: the same bits, direct and in a graph, between a kernel that brings
// the queries late and one that takes the results as soon as it may.
#include <gtest/gtest.h>

#include <string>

#include "ops/cuda/launch.cuh"
#include "ops/cuda/ranged_prompt_problem.cuh"
#include "ops/cuda/split_attention.h"
#include "ops/cuda/testing/small_tests.h"

namespace decant::ranged_prompt_test {
namespace {

/// More than there are counters of claims, so that each is used again.
int Layers() { return SmallTests() ? 3 : kSplitClaims + 6; }
constexpr AttentionShape kShape{.heads = 12, .kv_heads = 2, .head_dim = 128};
constexpr int64_t kWidth = int64_t{kShape.heads} * kShape.head_dim;
constexpr int32_t kPageSize = 64;

/// Lets later kernels start at once, and writes the queries, and NaN to where results go, only when
/// those have had time to read what lies there.
__global__ void BringQueries(const uint16_t* from, uint16_t* queries, uint16_t* attended,
                             int64_t count) {
  constexpr int64_t kLateClocks = 15'000;
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  const int64_t begin = clock64();
  while (clock64() - begin < kLateClocks) {
  }
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    queries[i] = from[i];
    attended[i] = 0xffff;
  }
}

__global__ void TakeAttended(const uint16_t* attended, uint16_t* to, int64_t count) {
  WaitForEarlierKernels();
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    to[i] = attended[i];
  }
}

struct Step {
  std::string name;
  std::vector<int32_t> decodes;  ///< positions of each
  std::vector<Chunk> chunks;

  /// As decode rows are: a token each, first in the step.
  std::vector<Chunk> Rows() const {
    std::vector<Chunk> all;
    for (const int32_t length : decodes) all.push_back({.tokens = 1, .history = length - 1});
    all.insert(all.end(), chunks.begin(), chunks.end());
    return all;
  }
};

std::vector<int32_t> Lengths(const Step& step) {
  std::vector<int32_t> lengths;
  for (const Chunk& row : step.Rows()) lengths.push_back(row.tokens + row.history);
  return lengths;
}

enum class Order { kBeside, kAfter };

/// A step on the device; every layer has other queries and the same cache.
class Problem {
 public:
  Problem(const Step& step, const CudaDeviceInfo& device)
      : rows_(MakeRows(step.Rows())),
        tables_(Lengths(step), kPageSize, 5),
        contexts_(Lengths(step)),
        pool_(kShape, kPageSize, tables_.pages),
        count_(TokensOf(step.Rows()) * kWidth),
        given_(count_ * Layers()),
        queries_(count_),
        attended_(count_),
        taken_(count_ * Layers()),
        runner_(CudaType::kF16, {.shape = kShape,
                                 .multiprocessors = device.multiprocessors,
                                 .max_tokens = TokensOf(step.Rows()),
                                 .max_rows = static_cast<int32_t>(rows_.size())}),
        split_(MakeSplit(step, device)) {
    FillUniform<<<1024, 256>>>(static_cast<__half*>(pool_.view().k), pool_.bytes() / 2, 1.0F, 3);
    FillUniform<<<1024, 256>>>(reinterpret_cast<__half*>(given_.data()), given_.size(), 2.0F, 4);
    Require(cudaStreamCreate(&stream_), "a stream");
    step_.rows = static_cast<int32_t>(rows_.size());
    step_.tokens = TokensOf(step.Rows());
    step_.decode_rows = static_cast<int32_t>(step.decodes.size());
    step_.table_stride = tables_.stride;
    step_.context_lens = contexts_.data();
    step_.block_tables = tables_.device.data();
  }
  ~Problem() { cudaStreamDestroy(stream_); }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  SplitDecode& split() { return split_; }

  void Plan(const PromptPlanChoices& choices = {}) {
    runner_.Plan(rows_, tables_.device.data(), tables_.stride, choices);
    Require(cudaDeviceSynchronize(), "planning");
  }

  /// All layers by the plan made last; what each attended.
  std::vector<uint16_t> Run(Order order) {
    taken_.Fill(0);
    Require(cudaDeviceSynchronize(), "clearing results");
    Queue(order);
    return Take();
  }

  /// The same recorded once and launched `launches` times, one right after the other.
  std::vector<uint16_t> RunGraph(Order order, int launches) {
    taken_.Fill(0);
    Require(cudaDeviceSynchronize(), "clearing results");
    cudaGraph_t recorded = nullptr;
    cudaGraphExec_t graph = nullptr;
    Require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording");
    Queue(order);
    Require(cudaStreamEndCapture(stream_, &recorded), "recording");
    Require(cudaGraphInstantiate(&graph, recorded, 0), "recording");
    Require(cudaGraphDestroy(recorded), "recording");
    for (int i = 0; i < launches; ++i) Require(cudaGraphLaunch(graph, stream_), "a graph");
    std::vector<uint16_t> result = Take();
    Require(cudaGraphExecDestroy(graph), "the end");
    return result;
  }

 private:
  static constexpr int kBlocks = 64;
  static constexpr int kThreads = 256;

  static SplitDecode MakeSplit(const Step& step, const CudaDeviceInfo& device) {
    SplitLimits limits{.page_size = kPageSize,
                       .max_rows = static_cast<int32_t>(step.decodes.size())};
    for (const int32_t length : step.decodes) {
      limits.max_context = std::max(limits.max_context, length);
      limits.max_positions += length;
    }
    return SplitDecode::Create(CudaType::kF16, kShape, limits, device).value();
  }

  void Queue(Order order) {
    EXPECT_TRUE(split_.Plan(step_, stream_).ok());
    for (int layer = 0; layer < Layers(); ++layer) {
      const int64_t at = layer * count_;
      LaunchOverlapped(BringQueries, kBlocks, kThreads, 0, stream_, given_.data() + at,
                       queries_.data(), attended_.data(), count_);
      runner_.Launch(pool_.view(), queries_.data(), attended_.data(), stream_);
      const Status decoded =
          order == Order::kBeside
              ? split_.RunBeside(pool_.view(), queries_.data(), attended_.data(), stream_)
              : split_.Run(pool_.view(), queries_.data(), attended_.data(), stream_);
      EXPECT_TRUE(decoded.ok()) << decoded.message();
      LaunchOverlapped(TakeAttended, kBlocks, kThreads, 0, stream_, attended_.data(),
                       taken_.data() + at, count_);
    }
  }

  std::vector<uint16_t> Take() {
    Require(cudaStreamSynchronize(stream_), "a step");
    return taken_.Get();
  }

  std::vector<BatchRow> rows_;
  Tables tables_;
  Memory<int32_t> contexts_;
  Pool pool_;
  int64_t count_;           ///< elements of a layer's queries
  Memory<uint16_t> given_;  ///< [layers, count]
  Memory<uint16_t> queries_;
  Memory<uint16_t> attended_;
  Memory<uint16_t> taken_;  ///< [layers, count]
  Runner runner_;
  SplitDecode split_;
  StepArrays step_;
  cudaStream_t stream_ = nullptr;
};

/// Where the first difference is, or "none".
std::string FirstDifference(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  if (a.size() != b.size()) return "sizes";
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  if (at == std::ssize(a)) return "none";
  const int64_t tokens = std::ssize(a) / kWidth / Layers();
  return "layer " + std::to_string(at / kWidth / tokens) + ", token " +
         std::to_string(at / kWidth % tokens) + " of " + std::to_string(tokens) + ", element " +
         std::to_string(at % kWidth);
}

std::vector<Step> Steps() {
  std::vector<int32_t> mixed;
  for (int32_t i = 0; i < 32; ++i) mixed.push_back(40 + i * 967 % 4200);
  return {{.name = "OneAndOne", .decodes = {300}, .chunks = {{.tokens = 512, .history = 0}}},
          {.name = "LongChunk", .decodes = mixed, .chunks = {{.tokens = 512, .history = 3584}}},
          {.name = "ManyTiles",
           .decodes = mixed,
           .chunks = {{.tokens = 1024, .history = 1024}, {.tokens = 300, .history = 77}}},
          {.name = "LittlePrompt", .decodes = mixed, .chunks = {{.tokens = 2, .history = 63}}},
          {.name = "FewerItemsThanBlocks",
           .decodes = {1, 2, 257, 64},
           .chunks = {{.tokens = 300, .history = 7700}}}};
}

class BesideAttentionTest : public testing::TestWithParam<Step> {
 protected:
  void SetUp() override {
    const Expected<CudaDeviceInfo> device = OpenCudaDevice(0);
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = *device;
    int major = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
    if (major != 9) GTEST_SKIP() << "prompt attention wants compute capability 9.0";
  }

  CudaDeviceInfo device_;
};

TEST_P(BesideAttentionTest, ChangesNoBit) {
  Problem problem(GetParam(), device_);
  problem.Plan();
  const std::vector<uint16_t> expected = problem.Run(Order::kAfter);
  const int32_t grid = problem.split().blocks().grid;
  for (const int32_t blocks : {grid, grid / 2, 7}) {
    problem.split().UseGrid(blocks);
    const std::string what = "a grid of " + std::to_string(blocks);
    for (int repeat = 0; repeat < 3; ++repeat) {
      ASSERT_EQ(FirstDifference(expected, problem.Run(Order::kBeside)), "none") << what;
    }
    ASSERT_EQ(FirstDifference(expected, problem.RunGraph(Order::kBeside, 3)), "none") << what;
    // What was claimed beside leaves the counters as other launches want them.
    ASSERT_EQ(FirstDifference(expected, problem.Run(Order::kAfter)), "none") << what;
  }
}

std::string NameOf(const testing::TestParamInfo<Step>& step) { return step.param.name; }

INSTANTIATE_TEST_SUITE_P(Steps, BesideAttentionTest, testing::ValuesIn(Steps()), NameOf);

}  // namespace
}  // namespace decant::ranged_prompt_test
