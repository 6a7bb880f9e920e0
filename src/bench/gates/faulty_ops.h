#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/forwarding_ops.h"

namespace decant {

/// What is wrong with an attention kernel, for tests that a gate can fail.
enum class Fault {
  kNone,
  kDropsLast,     ///< Does not see a row's last position.
  kReadsOneMore,  ///< Reads one slot past it, where the page has one.
  kSwapsPages,    ///< Exchanges the first and the last page of a row.
  kNaN,           ///< Writes a NaN.
  kSeesTheBatch,  ///< The first output depends on how many rows there are.
};

/// Operations whose attention has a fault, in all rows or, with `kernel`, in decode tokens of one
/// decode kernel only.
class FaultyOps : public ForwardingOps {
 public:
  FaultyOps(std::unique_ptr<Ops> ops, Fault fault, std::optional<DecodeKernel> kernel = {})
      : ForwardingOps(std::move(ops)), fault_(fault), kernel_(kernel) {}

  Status AllocateCache(int32_t pages, int32_t page_size) override {
    page_size_ = page_size;
    return ForwardingOps::AllocateCache(pages, page_size);
  }

  void BeginStep(const StepBatch& batch) override {
    right_ = batch;
    rows_.assign(batch.rows.begin(), batch.rows.end());
    tables_.clear();
    tables_.reserve(rows_.size());
    for (BatchRow& row : rows_) Spoil(row);
    wrong_ = batch;
    wrong_.rows = rows_;
    ForwardingOps::BeginStep(right_);
  }

  void Attention(int32_t layer, TensorView queries, TensorView attended) override {
    if (kernel_ && decode_kernel() != *kernel_) {
      return ForwardingOps::Attention(layer, queries, attended);
    }
    // The views hold until the next BeginStep; so must what lies in the queries.
    std::vector<float> values(static_cast<size_t>(queries.rows * queries.cols));
    Download(queries, values);
    ForwardingOps::BeginStep(wrong_);
    Upload(values, queries);
    ForwardingOps::Attention(layer, queries, attended);
    if (fault_ == Fault::kNaN) {
      Download(attended, values);
      values.back() = std::numeric_limits<float>::quiet_NaN();
      Upload(values, attended);
    }
    if (fault_ == Fault::kSeesTheBatch) {
      Download(attended, values);
      values.front() *= 1 + 0.02F * static_cast<float>(rows_.size());
      Upload(values, attended);
    }
    ForwardingOps::BeginStep(right_);
  }

 private:
  void Spoil(BatchRow& row) {
    if (kernel_ && row.query_len > 1) return;
    switch (fault_) {
      case Fault::kDropsLast:
        if (row.context_len > row.query_len) --row.context_len;
        return;
      case Fault::kReadsOneMore:
        if (row.context_len % page_size_ != 0) ++row.context_len;
        return;
      case Fault::kSwapsPages: {
        std::vector<int32_t>& table = tables_.emplace_back(row.pages.begin(), row.pages.end());
        std::swap(table[0], table[(row.context_len - 1) / page_size_]);
        row.pages = table;
        return;
      }
      case Fault::kNone:
      case Fault::kNaN:
      case Fault::kSeesTheBatch:
        return;
    }
  }

  Fault fault_;
  std::optional<DecodeKernel> kernel_;
  int32_t page_size_ = 1;
  StepBatch right_;
  StepBatch wrong_;
  std::vector<BatchRow> rows_;
  std::vector<std::vector<int32_t>> tables_;
};

}  // namespace decant
