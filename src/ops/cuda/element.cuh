#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "ops/cuda/step_arrays.h"

namespace decant {

/// Conversions of the two element types, eight at a time where they lie in 16 bytes.
template <typename T>
struct Element;

template <>
struct Element<__half> {
  using Pair = __half2;
  __device__ static float2 ToFloat2(Pair pair) { return __half22float2(pair); }
  __device__ static Pair FromFloat2(float low, float high) { return __floats2half2_rn(low, high); }
  __device__ static __half From(float value) { return __float2half_rn(value); }
  __device__ static float To(__half value) { return __half2float(value); }
};

template <>
struct Element<__nv_bfloat16> {
  using Pair = __nv_bfloat162;
  __device__ static float2 ToFloat2(Pair pair) { return __bfloat1622float2(pair); }
  __device__ static Pair FromFloat2(float low, float high) {
    return __floats2bfloat162_rn(low, high);
  }
  __device__ static __nv_bfloat16 From(float value) { return __float2bfloat16_rn(value); }
  __device__ static float To(__nv_bfloat16 value) { return __bfloat162float(value); }
};

/// Eight elements of 16 bytes as floats.
template <typename T>
__device__ inline void Unpack8(const uint4& packed, float* out) {
  const auto* pairs = reinterpret_cast<const typename Element<T>::Pair*>(&packed);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = Element<T>::ToFloat2(pairs[i]);
    out[2 * i] = pair.x;
    out[2 * i + 1] = pair.y;
  }
}

template <typename T>
__device__ inline uint4 Pack8(const float* values) {
  uint4 packed;
  auto* pairs = reinterpret_cast<typename Element<T>::Pair*>(&packed);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = Element<T>::FromFloat2(values[2 * i], values[2 * i + 1]);
  }
  return packed;
}

/// The sum over a warp, in every lane, always in the same order.
__device__ inline float WarpSum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  }
  return value;
}

/// Calls body(T{}) with the element type of `type`.
template <typename Body>
void WithType(CudaType type, Body&& body) {
  if (type == CudaType::kF16) {
    body(__half{});
  } else {
    body(__nv_bfloat16{});
  }
}

}  // namespace decant
