#include <algorithm>

#include "ops/cuda/cache_layout.h"
#include "ops/cuda/element.cuh"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/launch.cuh"

namespace decant {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void EmbedKernel(const T* table, int32_t hidden, StepArrays step,
                            const int32_t* last_tokens, float* residual) {
  WaitForEarlierKernels();
  const int32_t token = blockIdx.x;
  int32_t id = step.token_ids[token];
  if (id == kLastToken) id = last_tokens[step.row_slots[step.token_rows[token]]];
  const T* row = table + static_cast<int64_t>(id) * hidden;
  float* out = residual + static_cast<int64_t>(token) * hidden;
  for (int32_t i = threadIdx.x * 8; i < hidden; i += blockDim.x * 8) {
    float values[8];
    Unpack8<T>(*reinterpret_cast<const uint4*>(row + i), values);
    *reinterpret_cast<float4*>(out + i) = make_float4(values[0], values[1], values[2], values[3]);
    *reinterpret_cast<float4*>(out + i + 4) =
        make_float4(values[4], values[5], values[6], values[7]);
  }
}

/// Rows of a matrix: all of them, or the listed ones. A kernel takes it by value.
struct RowList {
  static constexpr int32_t kMost = 256;
  bool all = true;
  int32_t rows[kMost] = {};
};

template <typename T>
__global__ void RmsNormKernel(const float* residual, RowList sources, const float* weight,
                              float epsilon, int32_t hidden, T* out) {
  WaitForEarlierKernels();
  const int32_t row = blockIdx.x;
  const int64_t source = sources.all ? row : sources.rows[row];
  const float* x = residual + source * hidden;
  float squares = 0;
  for (int32_t i = threadIdx.x * 4; i < hidden; i += kThreads * 4) {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  __shared__ float sums[kThreads / 32];
  squares = WarpSum(squares);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) total += sums[i];
  const float scale = rsqrtf(total / static_cast<float>(hidden) + epsilon);
  T* y = out + static_cast<int64_t>(row) * hidden;
  for (int32_t i = threadIdx.x * 4; i < hidden; i += kThreads * 4) {
    const float4 v = *reinterpret_cast<const float4*>(x + i);
    const float4 w = *reinterpret_cast<const float4*>(weight + i);
    auto* pairs = reinterpret_cast<typename Element<T>::Pair*>(y + i);
    pairs[0] = Element<T>::FromFloat2(v.x * scale * w.x, v.y * scale * w.y);
    pairs[1] = Element<T>::FromFloat2(v.z * scale * w.z, v.w * scale * w.w);
  }
}

/// One warp a head of a token. A lane holds the dims lane + 32 j, so that both dims of a rotated
/// pair are its own.
template <typename T, int kHeadDim>
__global__ void FinishQkvKernel(FinishQkvArgs args, StepArrays step) {
  WaitForEarlierKernels();
  constexpr int kPerLane = kHeadDim / 32;
  constexpr int kHalf = kHeadDim / 2;
  const int32_t token = blockIdx.x;
  const int32_t lane = threadIdx.x % 32;
  const int32_t head = blockIdx.y * (kThreads / 32) + threadIdx.x / 32;
  const int32_t heads = args.shape.heads;
  const int32_t kv_heads = args.shape.kv_heads;
  const int32_t all_heads = heads + 2 * kv_heads;
  if (head >= all_heads) return;

  const int64_t column = static_cast<int64_t>(head) * kHeadDim + lane;
  const float* in = args.qkv + static_cast<int64_t>(token) * all_heads * kHeadDim + column;
  float x[kPerLane];
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    x[j] = in[32 * j];
    if (args.bias != nullptr) x[j] += args.bias[column + 32 * j];
  }

  const int32_t position = step.positions[token];
  if (head < heads + kv_heads) {
    const float* norm = head < heads ? args.q_norm : args.k_norm;
    if (norm != nullptr) {
      float squares = 0;
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) squares += x[j] * x[j];
      const float scale = rsqrtf(WarpSum(squares) / kHeadDim + args.epsilon);
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) x[j] = x[j] * scale * norm[lane + 32 * j];
    }
    const auto* rotations = reinterpret_cast<const float2*>(args.rotations) +
                            static_cast<int64_t>(position) * kHalf + lane;
#pragma unroll
    for (int j = 0; j < kPerLane / 2; ++j) {
      const float2 rotation = rotations[32 * j];
      const float low = x[j];
      const float high = x[j + kPerLane / 2];
      x[j] = low * rotation.x - high * rotation.y;
      x[j + kPerLane / 2] = high * rotation.x + low * rotation.y;
    }
  }

  if (head < heads) {
    T* out = static_cast<T*>(args.queries) + static_cast<int64_t>(token) * heads * kHeadDim +
             head * kHeadDim;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) out[lane + 32 * j] = Element<T>::From(x[j]);
  } else {
    const int32_t row = step.token_rows[token];
    if (row == kNoRow) return;  // padding has no slot
    const int32_t page =
        step.block_tables[row * step.table_stride + position / args.cache.page_size];
    const bool is_value = head >= heads + kv_heads;
    const int32_t kv_head = head - heads - (is_value ? kv_heads : 0);
    T* block = static_cast<T*>(is_value ? args.cache.v : args.cache.k) +
               page * args.cache.page_stride + kv_head * args.cache.head_stride;
    const int32_t slot = position % args.cache.page_size;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      block[BlockElement(args.cache.layout, args.cache.page_size, kHeadDim, slot, lane + 32 * j)] =
          Element<T>::From(x[j]);
    }
  }
}

template <typename T>
__global__ void SiluMulKernel(const T* gate_up, int32_t intermediate, T* out) {
  WaitForEarlierKernels();
  const int64_t token = blockIdx.y;
  const int32_t i = (blockIdx.x * kThreads + threadIdx.x) * 8;
  if (i >= intermediate) return;
  const T* gate_row = gate_up + token * 2 * intermediate;
  float gate[8];
  float up[8];
  Unpack8<T>(*reinterpret_cast<const uint4*>(gate_row + i), gate);
  Unpack8<T>(*reinterpret_cast<const uint4*>(gate_row + intermediate + i), up);
#pragma unroll
  for (int j = 0; j < 8; ++j) gate[j] = gate[j] / (1.0F + __expf(-gate[j])) * up[j];
  *reinterpret_cast<uint4*>(out + token * intermediate + i) = Pack8<T>(gate);
}

template <typename T>
__global__ void ConvertKernel(const float* values, int64_t count, ColumnGains gains, T* out) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 8;
  if (i >= count) return;
  float v[8];
  *reinterpret_cast<float4*>(v) = *reinterpret_cast<const float4*>(values + i);
  *reinterpret_cast<float4*>(v + 4) = *reinterpret_cast<const float4*>(values + i + 4);
  if (gains.gains != nullptr) {
    const float* gain = gains.gains + i % gains.cols;
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] *= gain[j];
  }
  *reinterpret_cast<uint4*>(out + i) = Pack8<T>(v);
}

template <typename T>
__global__ void RandomFillKernel(RandomRows random, int64_t count, ColumnGains gains, T* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  float value = random.Value(static_cast<uint64_t>(i));
  if (gains.gains != nullptr) value *= gains.gains[i % gains.cols];
  out[i] = Element<T>::From(value);
}

__global__ void ReadAllKernel(const uint4* data, int64_t count, int32_t* sink) {
  constexpr int kUnroll = 8;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  uint32_t sum = 0;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
    uint4 words[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) words[u] = __ldcs(data + i + u * stride);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) sum += words[u].x + words[u].y + words[u].z + words[u].w;
  }
  for (; i < count; i += stride) sum += data[i].x;
  if (sum == 0xdecade) *sink = 0;
}

/// Of the blocks of K and V of `items` / (kv_heads * page_size * head_dim / 8) pages, one thread
/// moves the same 8 dims of K and of V from one layout to the other.
__global__ void RepackKernel(CachePages from, CachePages to, int32_t kv_heads, int32_t head_dim,
                             int64_t items) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item < items) {
    const int32_t pieces = head_dim / 8;
    const auto dim = static_cast<int32_t>(item % pieces) * 8;
    const auto slot = static_cast<int32_t>(item / pieces % from.page_size);
    const auto kv_head = static_cast<int32_t>(item / pieces / from.page_size % kv_heads);
    const int64_t page = item / pieces / from.page_size / kv_heads;
    const auto at = [&](const CachePages& pages) {
      return page * pages.page_stride + kv_head * pages.head_stride +
             BlockElement(pages.layout, pages.page_size, head_dim, slot, dim);
    };
    const auto move = [&](const void* source, void* target) {
      *reinterpret_cast<uint4*>(static_cast<uint16_t*>(target) + at(to)) =
          *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(source) + at(from));
    };
    move(from.k, to.k);
    move(from.v, to.v);
  }
  // The decode kernel `split` may read pages before it waits for the kernels before it.
  __threadfence();
}

__global__ void PoisonKernel(uint16_t* data, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) data[i] = 0x7fff;  // NaN in fp16 and in bf16
}

unsigned Blocks(int64_t items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

}  // namespace

void LaunchEmbed(CudaType type, const void* table, int32_t hidden, const StepArrays& step,
                 const int32_t* last_tokens, float* residual, cudaStream_t stream) {
  WithType(type, [&](auto t) {
    using T = decltype(t);
    LaunchOverlapped(EmbedKernel<T>, step.tokens, 192, 0, stream, static_cast<const T*>(table),
                     hidden, step, last_tokens, residual);
  });
}

void LaunchRmsNorm(CudaType type, const float* residual, const float* weight, float epsilon,
                   int32_t rows, int32_t hidden, void* out, cudaStream_t stream) {
  WithType(type, [&](auto t) {
    using T = decltype(t);
    LaunchOverlapped(RmsNormKernel<T>, rows, kThreads, 0, stream, residual, RowList(), weight,
                     epsilon, hidden, static_cast<T*>(out));
  });
}

void LaunchRmsNormOf(CudaType type, const float* residual, std::span<const int32_t> tokens,
                     const float* weight, float epsilon, int32_t hidden, void* out,
                     cudaStream_t stream) {
  for (size_t first = 0; first < tokens.size(); first += RowList::kMost) {
    const std::span<const int32_t> part =
        tokens.subspan(first, std::min<size_t>(RowList::kMost, tokens.size() - first));
    RowList list;
    list.all = false;
    std::ranges::copy(part, list.rows);
    WithType(type, [&](auto t) {
      using T = decltype(t);
      LaunchOverlapped(RmsNormKernel<T>, static_cast<unsigned>(part.size()), kThreads, 0, stream,
                       residual, list, weight, epsilon, hidden,
                       static_cast<T*>(out) + first * hidden);
    });
  }
}

void LaunchFinishQkv(CudaType type, const FinishQkvArgs& args, const StepArrays& step,
                     cudaStream_t stream) {
  constexpr int32_t kWarps = kThreads / 32;
  const int32_t all_heads = args.shape.heads + 2 * args.shape.kv_heads;
  const dim3 grid(step.tokens, (all_heads + kWarps - 1) / kWarps);
  WithType(type, [&](auto t) {
    using T = decltype(t);
    if (args.shape.head_dim == 64) {
      LaunchOverlapped(FinishQkvKernel<T, 64>, grid, kThreads, 0, stream, args, step);
    } else {
      LaunchOverlapped(FinishQkvKernel<T, 128>, grid, kThreads, 0, stream, args, step);
    }
  });
}

void LaunchSiluMul(CudaType type, const void* gate_up, int32_t tokens, int32_t intermediate,
                   void* out, cudaStream_t stream) {
  const dim3 grid(Blocks(intermediate / 8), tokens);
  WithType(type, [&](auto t) {
    using T = decltype(t);
    LaunchOverlapped(SiluMulKernel<T>, grid, kThreads, 0, stream, static_cast<const T*>(gate_up),
                     intermediate, static_cast<T*>(out));
  });
}

void LaunchConvert(CudaType type, const float* values, int64_t count, const ColumnGains& gains,
                   void* out, cudaStream_t stream) {
  WithType(type, [&](auto t) {
    using T = decltype(t);
    ConvertKernel<T>
        <<<Blocks(count / 8), kThreads, 0, stream>>>(values, count, gains, static_cast<T*>(out));
  });
}

void LaunchRandomFill(CudaType type, const RandomRows& random, int64_t count, void* out,
                      cudaStream_t stream, const ColumnGains& gains) {
  WithType(type, [&](auto t) {
    using T = decltype(t);
    RandomFillKernel<T>
        <<<Blocks(count), kThreads, 0, stream>>>(random, count, gains, static_cast<T*>(out));
  });
}

void LaunchReadAll(const void* data, size_t bytes, int32_t* sink, cudaStream_t stream) {
  constexpr unsigned kBlocks = 132 * 8;
  ReadAllKernel<<<kBlocks, kThreads, 0, stream>>>(
      static_cast<const uint4*>(data), static_cast<int64_t>(bytes / sizeof(uint4)), sink);
}

void LaunchRepack(const AttentionShape& shape, int32_t pages, const CachePages& from,
                  const CachePages& to, cudaStream_t stream) {
  const int64_t items = int64_t{pages} * shape.kv_heads * from.page_size * (shape.head_dim / 8);
  RepackKernel<<<Blocks(items), kThreads, 0, stream>>>(from, to, shape.kv_heads, shape.head_dim,
                                                       items);
}

void LaunchPoison(void* data, int64_t count, cudaStream_t stream) {
  PoisonKernel<<<Blocks(count), kThreads, 0, stream>>>(static_cast<uint16_t*>(data), count);
}

}  // namespace decant
