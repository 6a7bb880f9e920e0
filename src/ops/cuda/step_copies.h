#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define DECANT_STEP_INLINE __host__ __device__ inline
#else
#define DECANT_STEP_INLINE inline
#endif

namespace decant {

/// What an unused entry of a block table holds: no page, so that a kernel that reads it is found.
inline constexpr int32_t kNoPage = 2147480000;

/// How a step's arrays, packed one after another in host memory, get to their places on the device.
/// Places and counts are in words of 32 bits. A kernel takes it by value.
struct StepCopies {
  static constexpr int32_t kMostPieces = 12;
  struct Piece {
    int32_t from = 0;
    int32_t to = 0;
    int32_t count = 0;
  };
  Piece pieces[kMostPieces] = {};
  int32_t piece_count = 0;
  int32_t piece_words = 0;  ///< Of all pieces.
  /// Block tables: packed [table_rows, packed_stride], on the device [table_rows, table_stride].
  /// What was not packed of a row holds kNoPage.
  int32_t tables_from = 0;
  int32_t tables_to = 0;
  int32_t table_rows = 0;
  int32_t packed_stride = 0;
  int32_t table_stride = 0;

  DECANT_STEP_INLINE int32_t words() const { return piece_words + table_rows * table_stride; }
};

/// Copies word `number` of copies.words(), counted over the pieces and then the block tables.
DECANT_STEP_INLINE void CopyStepWord(const StepCopies& copies, int32_t number, const int32_t* from,
                                     int32_t* to) {
  if (number < copies.piece_words) {
    int32_t rest = number;
    const StepCopies::Piece* piece = copies.pieces;
    while (rest >= piece->count) rest -= (piece++)->count;
    to[piece->to + rest] = from[piece->from + rest];
    return;
  }
  const int32_t entry = number - copies.piece_words;
  const int32_t row = entry / copies.table_stride;
  const int32_t column = entry % copies.table_stride;
  to[copies.tables_to + entry] =
      column < copies.packed_stride ? from[copies.tables_from + row * copies.packed_stride + column]
                                    : kNoPage;
}

}  // namespace decant
