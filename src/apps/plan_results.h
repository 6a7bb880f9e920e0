#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/row_files.h"
#include "base/run_header.h"
#include "base/status.h"
#include "sim/plan.h"

namespace decant {

/// What sets one question apart from the others.
struct PlanSetup {
  std::string device{};
  std::string model{};
  std::string workload{};  ///< Empty for a trace.
  uint64_t seed = 0;
  std::string trace{};  ///< Its file's name; empty without.
  std::string policy{};
  std::string decode_kernel{};
  int32_t page_size = 0;
  int64_t pool_slots = 0;
  int32_t max_batch = 0;
  int32_t chunk_tokens = 0;
  double turns = 0;                   ///< Requests of a conversation, on average.
  std::optional<int32_t> machines{};  ///< Given: the highest rate is asked for.
  PlanTarget target{};

  /// "least-loaded, split: 32 rows, chunks of 512, pages of 64".
  std::string Label() const;
};

/// A question and its answer.
struct PlanRow {
  PlanSetup setup{};
  int64_t requests = 0;
  int64_t left_out = 0;
  PlanAnswer answer{};
};

/// plan.csv and plan.jsonl: a row an answer.
class PlanResults {
 public:
  /// An empty `folder`: nothing is written.
  static Expected<PlanResults> Open(const std::string& folder, const RunHeader& header);
  Status Add(const PlanRow& row);
  Status Close() { return files_.Close(); }

 private:
  explicit PlanResults(RowFiles files) : files_(std::move(files)) {}

  RowFiles files_;
};

/// The rows for people.
std::string PlanTable(const std::vector<PlanRow>& rows);

/// What a person must know of a row besides its figures; empty: nothing.
std::string PlanRemark(const PlanRow& row);

}  // namespace decant
