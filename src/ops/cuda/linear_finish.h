#pragma once

#include <cstdint>

#include "ops/cuda/step_arrays.h"

namespace decant {

/// What the kernels of the invariant linear layers make of their sums before they write them.
enum class LinearFinish : uint8_t {
  kFloat,     ///< fp32
  kQkv,       ///< bias and rotary embedding; queries, and K and V to their slots
  kResidual,  ///< added to the residual, which is also written in the form that products read
  kSiluMul,   ///< SiLU(gate) * up
  kArgmax,    ///< what kFloat would write, but of each kArgmaxRows rows only the first largest
};

/// The residual in the form that products read, written by whoever writes the residual. A product's
/// weight has the gains of the norm in it, so that all that is left of an RMSNorm is a factor for
/// each token, which follows from the sums of squares.
struct ResidualForm {
  void* rounded = nullptr;   ///< [tokens, hidden] times RoundedScale, in the weights' type
  float* squares = nullptr;  ///< [tokens, SquareParts(hidden)]
};

/// Columns of the residual whose squares are summed together: those of a row block of a weight.
inline constexpr int32_t kSquareColumns = 64;
constexpr int32_t SquareParts(int32_t hidden) {
  return (hidden + kSquareColumns - 1) / kSquareColumns;
}

/// What the residual is multiplied by before it is rounded: room for values that fp16 does not
/// have. Values below 2^-10 lose bits to that, no more than rounding costs those from 2^-10 on.
constexpr float RoundedScale(CudaType type) { return type == CudaType::kF16 ? 0.0625F : 1.0F; }

/// kArgmax: which is the first largest of kArgmaxRows neighbouring outputs of a token.
struct alignas(8) ArgmaxPart {
  float largest = 0;  ///< Never NaN, which counts as -inf.
  /// The row of the weight that has it, or the first of the rows where nothing is above -inf; and
  /// kUndrawable where there is a NaN or +infinity among the outputs.
  uint32_t row = 0;
};
inline constexpr uint32_t kUndrawable = 0x80000000U;
inline constexpr int32_t kArgmaxRows = 16;
/// Parts of a token, those of whole row blocks of the weight: outputs beyond the rows count as
/// -inf.
constexpr int32_t ArgmaxParts(int32_t rows) { return (rows + 63) / 64 * (64 / kArgmaxRows); }

/// What a product reads.
struct LinearInput {
  const void* elements = nullptr;  ///< [tokens, cols] in the weights' type, 16-byte aligned
  /// Not null: `elements` and this are a ResidualForm, and outputs those of its RMSNorm.
  const float* squares = nullptr;
  float epsilon = 0;
};

/// Where the outputs of kQkv go, beside the queries. Padding (kNoRow) has queries, of its position,
/// and no slot.
struct QkvPlaces {
  const float* bias = nullptr;       ///< [(heads + 2 kv_heads) * head_dim], or null
  const float* rotations = nullptr;  ///< [max_positions, head_dim / 2, 2]: cosine, sine
  AttentionShape shape;
  CachePages cache;
  const int32_t* positions = nullptr;     ///< [tokens]
  const int32_t* token_rows = nullptr;    ///< [tokens]; kNoRow: padding
  const int32_t* block_tables = nullptr;  ///< [rows, table_stride]
  int32_t table_stride = 0;
};

/// What becomes of a product's sums.
struct ProductResult {
  LinearFinish finish = LinearFinish::kFloat;
  /// kFloat: fp32 [tokens, rows]; kQkv: the queries [tokens, heads * head_dim]; kResidual: the
  /// residual, fp32 [tokens, rows]; kSiluMul: [tokens, rows / 2]; kArgmax, of weights whose rows
  /// are in their own order: ArgmaxPart [tokens, ArgmaxParts(rows)]. 16-byte aligned.
  void* output = nullptr;
  ResidualForm form{};  ///< kResidual
  QkvPlaces qkv{};      ///< kQkv
};

/// Rows of a weight that a finish needs together are neighbours in the packed weight. Row `row` of
/// the packed weight is this one of the weight: itself where pair_distance is 0; else rows i and i
/// + pair_distance of each 2 * pair_distance belong together (the two dims that a rotary embedding
/// turns, gate and up), and of four packed rows the first two are neighbours, the others their
/// partners. Sixteen packed rows are eight neighbours and their partners. pair_distance: a multiple
/// of 8.
constexpr int32_t PackedRowSource(int32_t pair_distance, int32_t row) {
  if (pair_distance == 0) return row;
  const int32_t in_pairs = row % (2 * pair_distance);
  const int32_t first = in_pairs / 16 * 8 + in_pairs % 16 / 4 * 2 + in_pairs % 2;
  return row - in_pairs + first + in_pairs % 4 / 2 * pair_distance;
}

/// A warp turns 16 rows of 8 tokens in shared memory: from a tile of sums, of which a thread holds
/// single rows of two tokens, to four rows of one token. Where row `row` of token `token` lies, in
/// floats; neither side's accesses meet in a bank.
inline constexpr int32_t kTurnedFloats = 128;
constexpr int32_t TurnedPlace(int32_t token, int32_t row) {
  const int32_t line = (token & 4) | (token & 1) << 1 | (token >> 1 & 1);
  const int32_t piece = row / 4 ^ ((token >> 2 & 1) << 1 | (token & 1));
  return line * 16 + piece * 4 + row % 4;
}

/// The same where the sums have tokens as rows (LinearMode::kTokenRows): a warp turns kTurnedRows
/// rows of 16 tokens, from neighbouring rows of two tokens to 16 rows of one token.
inline constexpr int32_t kTurnedRows = 32;
constexpr int32_t TokenRowsPlace(int32_t token, int32_t row) {
  const int32_t swizzle = (token & 2) << 1 | (token & 1) << 1 | (token >> 1 & 1);
  return token * kTurnedRows + (row / 4 ^ swizzle) * 4 + row % 4;
}

/// Where sums have tokens as rows: the rows of the weight that are finished together, of which a
/// tile must have a multiple. 0: a weight of `rows` rows cannot be finished so.
constexpr int32_t TokenRowsUnit(LinearFinish finish, int32_t rows, int32_t pair_distance) {
  switch (finish) {
    case LinearFinish::kFloat:
      return rows % 8 == 0 && pair_distance == 0 ? 8 : 0;
    case LinearFinish::kSiluMul:
      return rows % 8 == 0 && pair_distance * 2 == rows ? 8 : 0;
    case LinearFinish::kArgmax:  // all of ArgmaxParts have rows
      return rows % 64 == 0 && pair_distance == 0 ? kArgmaxRows : 0;
    default:
      return 0;
  }
}

}  // namespace decant
