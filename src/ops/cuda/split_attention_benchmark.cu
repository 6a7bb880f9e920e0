// Times the decode kernel `split`: microseconds a layer over 28 layers in one graph, each layer
// with its own cache, beside the time that reading K and V once takes at 4.3 TB/s.
//
// split_attention_benchmark [heads kv_heads head_dim page_size]; by default 12 2 128 64.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/narrow.h"
#include "base/random.h"
#include "ops/cuda/device.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/split_attention.h"
#include "ops/ops.h"

namespace decant {
namespace {

constexpr int kLayers = 28;
constexpr double kBytesPerSecond = 4.3e12;

struct Case {
  std::string name;
  std::vector<int32_t> lengths;
};

/// The draws of python's r = random.Random(seed);
/// [r.choice([16, 64, 256, 1024, 4096]) + r.randint(0, 160) for _ in range(b)].
std::vector<Case> Cases() {
  const std::vector<int32_t> seed0 = {
      1131, 82,   4220, 1101, 1115, 4151, 4131, 291,  174, 392, 4133, 281, 100,  1167, 106, 1104,
      4148, 4218, 1157, 271,  4099, 118,  172,  1109, 147, 64,  4152, 100, 4210, 36,   386, 1051,
      397,  287,  4181, 4148, 4236, 4169, 1047, 4194, 403, 138, 112,  72,  4162, 1041, 49,  73,
      154,  1158, 389,  119,  4203, 4166, 1150, 277,  412, 140, 4181, 126, 85,   72,   299, 365};
  const std::vector<int32_t> seed1 = {209,  81, 142,  1144, 1077, 140,  115,  1179, 130,  314, 4122,
                                      263,  22, 4098, 1079, 1031, 4152, 1150, 4155, 315,  181, 261,
                                      1166, 63, 286,  384,  1153, 141,  406,  1153, 1174, 138};
  const auto first = [&](int count) {
    return std::vector<int32_t>(seed0.begin(), seed0.begin() + count);
  };
  return {{"b32 mixed s0", first(32)},
          {"b32 mixed s1", seed1},
          {"b64 mixed s0", first(64)},
          {"b8 mixed s0", first(8)},
          {"b32 x 1024", std::vector<int32_t>(32, 1024)},
          {"b32 x 4096", std::vector<int32_t>(32, 4096)},
          {"b1 4096", {4096}}};
}

void Require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}
void Require(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T* Upload(const std::vector<T>& values) {
  T* memory = nullptr;
  Require(cudaMalloc(&memory, values.size() * sizeof(T)));
  Require(CopyToDevice(memory, values.data(), values.size() * sizeof(T)));
  return memory;
}

__global__ void FillKernel(RandomRows random, int64_t count, __half* out) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    out[i] = Element<__half>::From(random.Value(static_cast<uint64_t>(i)));
  }
}

void Fill(const RandomRows& random, int64_t count, void* out) {
  FillKernel<<<2048, 256>>>(random, count, static_cast<__half*>(out));
  Require(cudaDeviceSynchronize());
}

/// Stands for the kernel before: all multiprocessors busy for about 3 us.
__global__ void BusyKernel() {
  LetLaterKernelsStart();
  WaitForEarlierKernels();
  constexpr int64_t kClocks = 5000;
  const int64_t begin = clock64();
  while (clock64() - begin < kClocks) {
  }
}

/// Microseconds that what `body` queues takes as a graph: the median of some launches.
double Time(cudaStream_t stream, const std::function<void()>& body) {
  constexpr int kRepeats = 25;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaEvent_t begin;
  cudaEvent_t end;
  Require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  body();
  Require(cudaStreamEndCapture(stream, &graph));
  Require(cudaGraphInstantiate(&executable, graph, 0));
  Require(cudaEventCreate(&begin));
  Require(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < kRepeats + 3; ++i) {
    Require(cudaEventRecord(begin, stream));
    Require(cudaGraphLaunch(executable, stream));
    Require(cudaEventRecord(end, stream));
    Require(cudaEventSynchronize(end));
    float milliseconds = 0;
    Require(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i >= 3) times.push_back(milliseconds * 1000);
  }
  std::ranges::sort(times);
  Require(cudaGraphExecDestroy(executable));
  Require(cudaGraphDestroy(graph));
  Require(cudaEventDestroy(begin));
  Require(cudaEventDestroy(end));
  return times[times.size() / 2];
}

void Bench(const AttentionShape& shape, int32_t page_size) {
  Expected<CudaDeviceInfo> device = OpenCudaDevice(0);
  Require(device.status());
  cudaStream_t stream = nullptr;
  Require(cudaStreamCreate(&stream));
  constexpr size_t kPoolBytes = size_t{6} << 30;
  std::byte* pool = nullptr;
  Require(cudaMalloc(&pool, kPoolBytes));
  Fill({.seed = 1, .limit = 1}, kPoolBytes / 2, pool);
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  const std::vector<uint16_t> no_queries(64 * width * kLayers, 0);
  uint16_t* queries = Upload(no_queries);
  uint16_t* attended = Upload(no_queries);
  Fill({.seed = 2, .limit = 2}, static_cast<int64_t>(no_queries.size()), queries);
  std::printf("%s; heads %d, kv heads %d, head_dim %d, pages of %d; us a layer\n",
              device->name.c_str(), shape.heads, shape.kv_heads, shape.head_dim, page_size);
  std::printf("%-13s %7s %6s | %7s %5s | %7s %5s | %7s %7s | %6s\n", "case", "tokens", "floor",
              "no PDL", "ratio", "PDL", "ratio", "behind", "b. PDL", "plan");
  for (const Case& timed : Cases()) {
    SplitLimits limits{.page_size = page_size,
                       .max_rows = static_cast<int32_t>(timed.lengths.size())};
    int32_t pages = 0;
    for (const int32_t length : timed.lengths) {
      pages += CeilDiv(length, page_size);
      limits.max_context = std::max(limits.max_context, length);
      limits.max_positions += length;
    }
    const int32_t stride = CeilDiv(limits.max_context, page_size);
    std::vector<int32_t> order(pages);
    std::iota(order.begin(), order.end(), 0);
    for (int32_t i = pages - 1; i > 0; --i)
      std::swap(order[i], order[CounterRng(3).Below(i, i + 1)]);
    std::vector<int32_t> tables(timed.lengths.size() * stride, 0);
    int32_t next = 0;
    for (size_t row = 0; row < timed.lengths.size(); ++row) {
      for (int32_t i = 0; i * page_size < timed.lengths[row]; ++i) {
        tables[row * stride + i] = order[next++];
      }
    }
    StepArrays step;
    step.tokens = step.rows = step.decode_rows = limits.max_rows;
    step.table_stride = stride;
    int32_t* context_lens = Upload(timed.lengths);
    int32_t* block_tables = Upload(tables);
    step.context_lens = context_lens;
    step.block_tables = block_tables;

    const int64_t block = int64_t{page_size} * shape.head_dim;
    const int64_t layer_bytes = pages * shape.kv_heads * 2 * block * 2;
    if (layer_bytes * kLayers > static_cast<int64_t>(kPoolBytes)) {
      std::printf("%-13s does not fit\n", timed.name.c_str());
      continue;
    }
    Expected<SplitDecode> split = SplitDecode::Create(CudaType::kF16, shape, limits, *device);
    Require(split.status());
    const auto plan = [&] { Require(split->Plan(step, stream)); };
    const auto attend = [&](int layer, KernelOverlap overlap) {
      std::byte* k = pool + layer * layer_bytes;
      const CachePages cache{.k = k,
                             .v = k + block * 2,
                             .page_stride = shape.kv_heads * 2 * block,
                             .head_stride = 2 * block,
                             .page_size = page_size,
                             .layout = CacheLayout::kTiled};
      const int64_t at = layer * limits.max_rows * width;
      Require(split->Run(cache, queries + at, attended + at, stream, overlap));
    };
    const auto busy = [&](KernelOverlap overlap) {
      if (overlap == KernelOverlap::kAllowed) {
        LaunchOverlapped(BusyKernel, device->multiprocessors, 256, 0, stream);
      } else {
        BusyKernel<<<device->multiprocessors, 256, 0, stream>>>();
      }
    };
    const auto layers = [&](const std::function<void(int)>& body) {
      for (int layer = 0; layer < kLayers; ++layer) body(layer);
    };
    const double planned = Time(stream, [&] { layers([&](int) { plan(); }); }) / kLayers;
    double alone[2];
    double behind[2];
    for (const KernelOverlap overlap : {KernelOverlap::kNone, KernelOverlap::kAllowed}) {
      const int i = overlap == KernelOverlap::kAllowed ? 1 : 0;
      alone[i] = (Time(stream,
                       [&] {
                         plan();
                         layers([&](int layer) { attend(layer, overlap); });
                       }) -
                  planned) /
                 kLayers;
      const double nothing = Time(stream, [&] { layers([&](int) { busy(overlap); }); }) / kLayers;
      behind[i] = (Time(stream,
                        [&] {
                          plan();
                          layers([&](int layer) {
                            busy(overlap);
                            attend(layer, overlap);
                          });
                        }) -
                   planned) /
                      kLayers -
                  nothing;
    }
    const double floor = static_cast<double>(limits.max_positions) * shape.kv_heads * 2 *
                         shape.head_dim * 2 / kBytesPerSecond * 1e6;
    std::printf("%-13s %7lld %6.2f | %7.2f %5.2f | %7.2f %5.2f | %7.2f %7.2f | %6.2f\n",
                timed.name.c_str(), static_cast<long long>(limits.max_positions), floor, alone[0],
                alone[0] / floor, alone[1], alone[1] / floor, behind[0], behind[1], planned);
    std::fflush(stdout);
    Require(cudaFree(context_lens));
    Require(cudaFree(block_tables));
  }
}

}  // namespace
}  // namespace decant

int main(int argc, char** argv) {
  int32_t numbers[4] = {12, 2, 128, 64};
  for (int i = 1; i < argc && i <= 4; ++i) numbers[i - 1] = std::atoi(argv[i]);
  decant::Bench({.heads = numbers[0], .kv_heads = numbers[1], .head_dim = numbers[2]}, numbers[3]);
  return 0;
}
