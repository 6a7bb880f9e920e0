// The two things that a step on the CPU spends its time in, at the shapes of SmolLM2-135M, on two
// threads.

#include <benchmark/benchmark.h>

#include <algorithm>

#include "base/random.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/linear.h"
#include "tensor/f16.h"

namespace decant {
namespace {

constexpr int kThreads = 2;

/// Tokens by a weight of 3072 x 576 (gate and up) in 4-bit blocks, as bf16 (range(1) = 0) or as it
/// is with inputs in 8 bits (1); one of many copies at a time, so that no cache holds it.
void Linear(benchmark::State& state) {
  constexpr int64_t kRows = 3072;
  constexpr int64_t kCols = 576;
  constexpr int kCopies = 30;
  const auto tokens = static_cast<int32_t>(state.range(0));
  const CpuKernels& kernels = KernelsFor(DetectCpuLevel());
  const DType dtype = DetectCpuLevel() >= CpuLevel::kAvx512Bf16 ? DType::kBf16 : DType::kF32;
  ThreadPool pool(kThreads);
  const auto layers = state.range(1) == 0 ? LinearLayers::kLibrary : LinearLayers::kInt8;
  LinearEngine engine(dtype, layers, WeightCopies::kBf16, kernels, pool);
  const auto code = [](int64_t cell) { return CounterRng(1).Below(cell, 16); };
  constexpr float kScale = 0.0625F;
  constexpr float kOffset = -0.5F;
  const RowSource source{
      .rows = kRows,
      .cols = kCols,
      .read =
          [&](int64_t first, int64_t count, float* out) {
            for (int64_t i = 0; i < count * kCols; ++i) {
              out[i] = kScale * static_cast<float>(code(first * kCols + i)) + kOffset;
            }
          },
      .code_bits = 4,
      .read_codes =
          [&](int64_t first, int64_t count, int8_t* codes, uint16_t* scales, uint16_t* offsets) {
            for (int64_t i = 0; i < count * kCols; ++i) {
              codes[i] = static_cast<int8_t>(code(first * kCols + i));
            }
            std::fill_n(scales, count * kCols / 32, ToF16(kScale).bits);
            std::fill_n(offsets, count * kCols / 32, ToF16(kOffset).bits);
          }};
  std::vector<std::unique_ptr<SlicedLinear>> weights;
  weights.reserve(kCopies);
  for (int i = 0; i < kCopies; ++i) weights.push_back(engine.Pack(source, 192));
  HostBuffer input((tokens + LinearEngine::kPadding) * kCols * DTypeSize(dtype));
  const TensorView view{.data = input.data(), .dtype = dtype, .rows = tokens, .cols = kCols};
  size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    engine.Run(*weights[next++ % kCopies], view, tokens, [](auto&&...) {});
  }
  state.SetBytesProcessed(state.iterations() * weights[0]->bytes());
  state.counters["flop/s"] = benchmark::Counter(2.0 * static_cast<double>(tokens * kRows * kCols),
                                                benchmark::Counter::kIsIterationInvariantRate);
  state.SetLabel(layers == LinearLayers::kInt8 ? "int8" : "library");
}
BENCHMARK(Linear)->ArgsProduct({{1, 8, 32, 128, 512}, {0, 1}})->UseRealTime();

/// Decode attention of 32 rows with range(0) positions each, over 16 layers in turn.
void DecodeAttention(benchmark::State& state) {
  constexpr int32_t kRows = 32;
  constexpr int32_t kLayers = 16;
  constexpr int32_t kPageSize = 64;
  const auto context = static_cast<int32_t>(state.range(0));
  const auto kernel = state.range(1) == 0 ? DecodeKernel::kRows : DecodeKernel::kSplit;
  DecoderShape shape;
  shape.heads = 9;
  shape.kv_heads = 3;
  shape.head_dim = 64;
  const int32_t row_pages = (context + kPageSize - 1) / kPageSize;
  CpuKvCache cache(kLayers, shape.kv_heads, shape.head_dim, kRows * row_pages, kPageSize);
  // Memory that was never written is one shared page of zeros, which every cache holds.
  for (int32_t page = 0; page < kRows * row_pages; ++page) cache.Poison(page);
  std::vector<int32_t> pages(kRows * row_pages);
  std::vector<int32_t> ids(kRows);
  std::vector<int32_t> positions(kRows, context - 1);
  std::vector<BatchRow> rows;
  rows.reserve(kRows);
  for (int32_t r = 0; r < kRows; ++r) {
    for (int32_t i = 0; i < row_pages; ++i) pages[r * row_pages + i] = i * kRows + r;
    ids[r] = r;
    rows.push_back({.query_start = r,
                    .query_len = 1,
                    .context_len = context,
                    .pages = std::span(pages).subspan(r * row_pages, row_pages)});
  }
  const StepBatch batch{.token_ids = ids, .positions = positions, .token_rows = ids, .rows = rows};
  ThreadPool pool(kThreads);
  CpuAttention attention(shape, kernel, KernelsFor(DetectCpuLevel()), pool);
  attention.Plan(batch, cache);
  HostBuffer queries(kRows * 576 * sizeof(Bf16));
  HostBuffer out(kRows * 576 * sizeof(float));
  int32_t layer = 0;
  for ([[maybe_unused]] auto _ : state) {
    attention.Run(layer++ % kLayers, cache,
                  {.data = queries.data(), .dtype = DType::kBf16, .rows = kRows, .cols = 576},
                  {.data = out.data(), .dtype = DType::kF32, .rows = kRows, .cols = 576});
  }
  state.SetBytesProcessed(state.iterations() * kRows * context * shape.kv_heads * shape.head_dim *
                          int64_t{4});
  state.SetLabel(std::string(DecodeKernelName(kernel)));
}
BENCHMARK(DecodeAttention)->ArgsProduct({{128, 512, 2048}, {0, 1}})->UseRealTime();

}  // namespace
}  // namespace decant
