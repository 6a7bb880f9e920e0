#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/attention_batch.h"
#include "bench/gates/plain_attention.h"
#include "ops/ops.h"

namespace decant {

/// The pages that cases take theirs from, all of a freshly allocated and wholly poisoned cache of
/// one layer.
class PoisonedPages {
 public:
  /// Allocates and poisons the cache of `ops`.
  static Expected<PoisonedPages> Allocate(Ops& ops, const PageShape& shape, int32_t pages);

  /// ShuffledTables, each with two poisoned entries past the row's pages.
  std::vector<std::vector<int32_t>> Tables(std::span<const CaseRow> rows, uint64_t seed) const;

  const PageShape& shape() const { return shape_; }
  int32_t pages() const { return pages_; }

 private:
  PoisonedPages(const PageShape& shape, int32_t pages) : shape_(shape), pages_(pages) {}

  PageShape shape_;
  int32_t pages_;
};

/// How far outputs are from plain attention, and how far they may be.
struct RowError {
  /// Largest |kernel - plain|; infinite where one of them is no finite number.
  double error = 0;
  double error_ulps = 0;  ///< That difference in units in the last place of the storage type.
  double rounding = 0;    ///< Largest |rounded - plain|: the error of rounding alone.
  double allowed = 0;

  bool passes() const { return error <= allowed; }
};

/// One step's attention over made-up K, V and queries. Everything that a kernel must not use is
/// poisoned: the slots past a row's context and all other pages hold NaN, the table entries past
/// its pages 2147480000, and the output holds NaN before the kernel runs.
///
/// Scores have a spread of a few units, and the first position, one in 512 and the queries' own
/// carry a weight that is felt at any length, so that a kernel which drops the last position or
/// mixes up pages is far outside rounding. Every second row's scores all lie far below zero.
class AttentionCase {
 public:
  /// Writes the pages and begins the step. `ops` and `pages` outlive the case; when it dies its
  /// pages are poisoned again.
  AttentionCase(Ops& ops, const DecoderShape& shape, const PoisonedPages& pages,
                std::vector<CaseRow> rows, uint64_t seed);
  AttentionCase(const AttentionCase&) = delete;
  AttentionCase& operator=(const AttentionCase&) = delete;
  ~AttentionCase();

  /// Decode tokens first.
  std::span<const CaseRow> rows() const { return rows_; }

  /// Runs attention with the decode kernel in use and judges each of rows().
  std::vector<RowError> Judge();

 private:
  void WriteRow(size_t row, uint64_t content);
  void MakeQueries(size_t row, uint64_t content, std::span<float> queries) const;
  void ComputeReferences();

  Ops& ops_;
  DecoderShape shape_;
  const PoisonedPages& pages_;
  std::vector<CaseRow> rows_;
  uint64_t seed_;
  AttentionBatch batch_;
  std::vector<float> queries_;  ///< [tokens, heads * head_dim], as the backend keeps them.
  std::vector<float> plain_;    ///< [tokens, heads * head_dim]
  std::vector<float> rounded_;  ///< likewise
};

}  // namespace decant
