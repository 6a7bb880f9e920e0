#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tensor/bf16.h"

namespace decant {

/// Positions in one block of the K and V layout below.
inline constexpr int kBlockTokens = 16;
/// Positions in the longest key range that one AttendRange call takes.
inline constexpr int kMaxRangeTokens = 256;
/// Query rows in one AttendRange call at most.
inline constexpr int kMaxRangeRows = 64;

/// Floats of scratch that AttendRange needs.
inline constexpr int64_t kRangeScratchFloats = int64_t{kMaxRangeRows} * kMaxRangeTokens * 3 / 2;

/// One range of keys of one KV head against some query rows.
///
/// K and V come in blocks of 16 positions. K: [head_dim / 2][16 positions][2 dims], so that one
/// vector holds a pair of dims of 16 keys. V: [8 position pairs][head_dim][2 positions], so that
/// one vector holds 16 dims of a pair of positions. Both are what a bf16 dot-product instruction
/// (two products added to one sum) wants.
struct AttendRangeArgs {
  const Bf16* q = nullptr;  ///< [rows, head_dim]
  const int32_t* visible =
      nullptr;  ///< [rows]: how many of the range's keys the row sees; <= 0: none
  const Bf16* const* k_blocks =
      nullptr;  ///< [ceil(keys / 16)]; slots past `keys` may hold anything
  const Bf16* const* v_blocks =
      nullptr;       ///< [ceil(keys / 16)]; slots past `keys` must hold finite numbers
  int32_t rows = 0;  ///< at most kMaxRangeRows
  int32_t keys = 0;  ///< at most kMaxRangeTokens
  int32_t head_dim = 0;
  float scale =
      0;  ///< scores are multiplied by it: log2(e) / sqrt(head_dim), as exp2 is what is computed
  float* scratch = nullptr;  ///< [kRangeScratchFloats]
  float* max = nullptr;      ///< out [rows]: largest scaled score, -inf for a row that sees nothing
  float* sum = nullptr;      ///< out [rows]: sum of exp2(score - max)
  float* acc = nullptr;      ///< out [rows, head_dim]: sum of exp2(score - max) * V
};

/// A few input rows times a weight matrix that stays quantised (see compact_weights.h for the
/// packing).
struct CompactMultiplyArgs {
  const std::byte* packed = nullptr;
  int32_t out_rows = 0;  ///< of the weight; a multiple of 16
  int32_t cols = 0;      ///< a multiple of 32
  int32_t chunk_cols =
      0;  ///< columns summed from zero before they join the total; a multiple of 32
  const Bf16* input = nullptr;  ///< [tokens, cols]
  int32_t tokens = 0;           ///< at most CpuKernels::compact_tokens
  float* out = nullptr;         ///< [tokens, out_rows]
};

/// Columns that share a scale where activations are rounded to 8 bits.
inline constexpr int kInt8Block = 32;

/// Activations in 8 bits times a weight matrix that stays quantised (packed by PackForInt8).
struct Int8MultiplyArgs {
  const std::byte* packed = nullptr;
  int32_t out_rows = 0;           ///< of the weight; a multiple of 16
  int32_t cols = 0;               ///< a multiple of 32
  const int8_t* codes = nullptr;  ///< [tokens, cols]
  const float* scales = nullptr;  ///< [tokens, cols / 32]
  const float* sums = nullptr;    ///< [tokens, cols / 32]: scale times the sum of the codes
  int32_t tokens = 0;
  float* out = nullptr;  ///< [tokens, out_rows]
};

/// The inner loops of the CPU backend for one instruction set. A row's results depend on that row's
/// input only: how many rows a call has and where the row stands among them changes no bit.
struct CpuKernels {
  std::string_view name;

  /// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]. `out` may be `x`.
  void (*rms_norm_bf16)(const float* x, const float* weight, float epsilon, int32_t n, Bf16* out);
  void (*rms_norm_f32)(const float* x, const float* weight, float epsilon, int32_t n, float* out);

  /// x[i] += y[i].
  void (*add)(float* x, const float* y, int32_t n);

  /// out[i] = gate[i] / (1 + exp(-gate[i])) * up[i].
  void (*silu_mul_bf16)(const float* gate, const float* up, int32_t n, Bf16* out);
  void (*silu_mul_f32)(const float* gate, const float* up, int32_t n, float* out);

  /// Rotates a head in place: pairs (i, i + head_dim / 2), cos and sin [head_dim / 2].
  void (*rope)(float* head, const float* cos, const float* sin, int32_t head_dim);

  void (*to_bf16)(const float* x, int64_t n, Bf16* out);

  void (*attend_range)(const AttendRangeArgs& args);

  /// Y = X W^T from 4-bit and 8-bit weights; null where the level has none. Weights are decoded to
  /// bf16 in registers and multiplied in the order of columns, chunk by chunk, so that the bits are
  /// those of a bf16 matmul that sums so.
  int32_t compact_tokens;
  void (*compact_multiply_4)(const CompactMultiplyArgs& args);
  void (*compact_multiply_8)(const CompactMultiplyArgs& args);

  /// Rounds a row of n numbers, a multiple of 32, to codes in -127..127 times a scale for each
  /// block of 32, as Int8MultiplyArgs has them. A block that is not finite gets a scale of NaN.
  void (*quantize_bf16)(const Bf16* x, int32_t n, int8_t* codes, float* scales, float* sums);
  void (*quantize_f32)(const float* x, int32_t n, int8_t* codes, float* scales, float* sums);

  /// Y = X W^T of 8-bit activations and 4-bit or 8-bit weights. Sums of a block are exact, those
  /// over blocks go in order, in fp32.
  void (*int8_multiply_4)(const Int8MultiplyArgs& args);
  void (*int8_multiply_8)(const Int8MultiplyArgs& args);

  /// Adds a range's partial result to a running one: both hold max, sum and acc [head_dim] as
  /// AttendRange leaves them.
  void (*merge_partial)(float* max, float* sum, float* acc, float range_max, float range_sum,
                        const float* range_acc, int32_t head_dim);
};

/// Instruction sets, lowest first.
enum class CpuLevel { kBaseline, kAvx2, kAvx512, kAvx512Bf16, kAmx };

std::string_view CpuLevelName(CpuLevel level);

/// The highest level that this processor has.
CpuLevel DetectCpuLevel();

const CpuKernels& KernelsFor(CpuLevel level);

}  // namespace decant
