#include <algorithm>

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/residual_form.h"

namespace decant {
namespace {

constexpr int kThreads = 192;

template <typename T>
struct FormOf {
  T* rounded = nullptr;
  float* squares = nullptr;
  float scale = 1;  ///< RoundedScale
};

template <typename T>
FormOf<T> Typed(CudaType type, const ResidualForm& form) {
  return {.rounded = static_cast<T*>(form.rounded),
          .squares = form.squares,
          .scale = RoundedScale(type)};
}

/// Writes the form of one token by one block. read(i, out) gives eight values from column i on.
/// Eight threads have the columns of one sum of squares.
template <typename T, typename Read>
__device__ void WriteForm(const FormOf<T>& form, int32_t token, int32_t hidden, Read&& read) {
  constexpr int kEach = 8;
  T* rounded = form.rounded + static_cast<int64_t>(token) * hidden;
  float* squares = form.squares + static_cast<int64_t>(token) * SquareParts(hidden);
  for (int32_t first = 0; first < hidden; first += kThreads * kEach) {
    const int32_t i = first + static_cast<int32_t>(threadIdx.x) * kEach;
    float sum = 0;
    if (i < hidden) {
      float values[kEach];
      read(i, values);
#pragma unroll
      for (int j = 0; j < kEach; ++j) sum = __fmaf_rn(values[j], values[j], sum);
#pragma unroll
      for (int j = 0; j < kEach; ++j) values[j] *= form.scale;
      *reinterpret_cast<uint4*>(rounded + i) = Pack8<T>(values);
    }
#pragma unroll
    for (int offset = 1; offset < kSquareColumns / kEach; offset *= 2) {
      sum += __shfl_xor_sync(0xffffffffU, sum, offset);
    }
    if (i < hidden && i % kSquareColumns == 0) squares[i / kSquareColumns] = sum;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    EmbedFormKernel(const T* table, int32_t hidden, StepArrays step, const int32_t* last_tokens,
                    float* residual, FormOf<T> form) {
  WaitForEarlierKernels();
  const auto token = static_cast<int32_t>(blockIdx.x);
  int32_t id = step.token_ids[token];
  if (id == kLastToken) id = last_tokens[step.row_slots[step.token_rows[token]]];
  const T* row = table + static_cast<int64_t>(id) * hidden;
  float* out = residual + static_cast<int64_t>(token) * hidden;
  WriteForm(form, token, hidden, [&](int32_t i, float* values) {
    Unpack8<T>(*reinterpret_cast<const uint4*>(row + i), values);
    *reinterpret_cast<float4*>(out + i) = make_float4(values[0], values[1], values[2], values[3]);
    *reinterpret_cast<float4*>(out + i + 4) =
        make_float4(values[4], values[5], values[6], values[7]);
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ResidualFormKernel(const float* residual, int32_t hidden, FormOf<T> form) {
  WaitForEarlierKernels();
  const auto token = static_cast<int32_t>(blockIdx.x);
  const float* row = residual + static_cast<int64_t>(token) * hidden;
  WriteForm(form, token, hidden, [&](int32_t i, float* values) {
    *reinterpret_cast<float4*>(values) = *reinterpret_cast<const float4*>(row + i);
    *reinterpret_cast<float4*>(values + 4) = *reinterpret_cast<const float4*>(row + i + 4);
  });
}

/// Some of a step's tokens. A kernel takes it by value.
struct TokenList {
  static constexpr int32_t kMost = 256;
  int32_t tokens[kMost] = {};
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    GatherFormKernel(FormOf<T> from, TokenList list, int32_t hidden, FormOf<T> to) {
  WaitForEarlierKernels();
  const int64_t row = blockIdx.x;
  const int64_t source = list.tokens[row];
  for (int32_t i = threadIdx.x * 8; i < hidden; i += kThreads * 8) {
    *reinterpret_cast<uint4*>(to.rounded + row * hidden + i) =
        *reinterpret_cast<const uint4*>(from.rounded + source * hidden + i);
  }
  const int32_t parts = SquareParts(hidden);
  for (int32_t i = threadIdx.x; i < parts; i += kThreads) {
    to.squares[row * parts + i] = from.squares[source * parts + i];
  }
}

}  // namespace

void LaunchEmbedForm(CudaType type, const void* table, int32_t hidden, const StepArrays& step,
                     const int32_t* last_tokens, float* residual, const ResidualForm& form,
                     cudaStream_t stream) {
  WithType(type, [&](auto t) {
    using T = decltype(t);
    LaunchOverlapped(EmbedFormKernel<T>, step.tokens, kThreads, 0, stream,
                     static_cast<const T*>(table), hidden, step, last_tokens, residual,
                     Typed<T>(type, form));
  });
}

void LaunchResidualForm(CudaType type, const float* residual, int32_t tokens, int32_t hidden,
                        const ResidualForm& form, cudaStream_t stream) {
  WithType(type, [&](auto t) {
    using T = decltype(t);
    LaunchOverlapped(ResidualFormKernel<T>, tokens, kThreads, 0, stream, residual, hidden,
                     Typed<T>(type, form));
  });
}

void LaunchGatherForm(CudaType type, const ResidualForm& from, std::span<const int32_t> tokens,
                      int32_t hidden, const ResidualForm& to, cudaStream_t stream) {
  for (size_t first = 0; first < tokens.size(); first += TokenList::kMost) {
    const std::span<const int32_t> part =
        tokens.subspan(first, std::min<size_t>(TokenList::kMost, tokens.size() - first));
    TokenList list;
    std::ranges::copy(part, list.tokens);
    WithType(type, [&](auto t) {
      using T = decltype(t);
      FormOf<T> target = Typed<T>(type, to);
      target.rounded += first * hidden;
      target.squares += first * SquareParts(hidden);
      LaunchOverlapped(GatherFormKernel<T>, static_cast<unsigned>(part.size()), kThreads, 0, stream,
                       Typed<T>(type, from), list, hidden, target);
    });
  }
}

}  // namespace decant
