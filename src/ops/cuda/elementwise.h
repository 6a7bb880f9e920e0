#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "ops/cuda/step_arrays.h"
#include "ops/ops.h"

namespace decant {

/// residual [tokens, hidden] fp32 = table[id of each token].
void LaunchEmbed(CudaType type, const void* table, int32_t hidden, const StepArrays& step,
                 const int32_t* last_tokens, float* residual, cudaStream_t stream);

/// out [rows, hidden] = RMSNorm of residual [rows, hidden] * weight.
void LaunchRmsNorm(CudaType type, const float* residual, const float* weight, float epsilon,
                   int32_t rows, int32_t hidden, void* out, cudaStream_t stream);

/// The same of some rows of residual: out row i is of row tokens[i].
void LaunchRmsNormOf(CudaType type, const float* residual, std::span<const int32_t> tokens,
                     const float* weight, float epsilon, int32_t hidden, void* out,
                     cudaStream_t stream);

/// What follows the QKV product.
struct FinishQkvArgs {
  const float* qkv = nullptr;        ///< [tokens, (heads + 2 kv_heads) * head_dim]
  const float* bias = nullptr;       ///< the same columns, or null
  const float* q_norm = nullptr;     ///< [head_dim], or null
  const float* k_norm = nullptr;     ///< [head_dim], or null
  const float* rotations = nullptr;  ///< [max_positions, head_dim / 2, 2]: cosine, sine
  float epsilon = 0;
  AttentionShape shape;
  void* queries = nullptr;  ///< out [tokens, heads * head_dim]
  CachePages cache;         ///< K and V are written to their slots
};

/// Bias, norms of q and k heads, rotary embedding; q to `queries`, K and V to the cache, but for
/// padding.
void LaunchFinishQkv(CudaType type, const FinishQkvArgs& args, const StepArrays& step,
                     cudaStream_t stream);

/// out [tokens, intermediate] = SiLU(gate) * up, gate_up [tokens, 2 * intermediate].
void LaunchSiluMul(CudaType type, const void* gate_up, int32_t tokens, int32_t intermediate,
                   void* out, cudaStream_t stream);

/// What each column of a matrix is multiplied by, in fp32.
struct ColumnGains {
  const float* gains = nullptr;  ///< [cols], or null: nothing is multiplied
  int32_t cols = 0;              ///< a multiple of 8
};

/// out[i] = values[i] in `type`, i counting row by row. count: a multiple of 8.
void LaunchConvert(CudaType type, const float* values, int64_t count, const ColumnGains& gains,
                   void* out, cudaStream_t stream);

/// The same of random.Value(i).
void LaunchRandomFill(CudaType type, const RandomRows& random, int64_t count, void* out,
                      cudaStream_t stream, const ColumnGains& gains = {});

/// Reads `bytes` (a multiple of 16) once, for measuring how fast that goes. Writes `sink` only if
/// all words sum to a number that memory of zeros does not have.
void LaunchReadAll(const void* data, size_t bytes, int32_t* sink, cudaStream_t stream);

/// Copies the first `pages` pages of K and V from one layout to another; the memory must not
/// overlap.
void LaunchRepack(const AttentionShape& shape, int32_t pages, const CachePages& from,
                  const CachePages& to, cudaStream_t stream);

/// Fills `count` elements with NaN bits.
void LaunchPoison(void* data, int64_t count, cudaStream_t stream);

}  // namespace decant
